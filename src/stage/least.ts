// What no plan beats in a budget, recompute and tiles included, where the optional package `highs` is installed: it solves the linear
// programme of schedule/programme.ts. In: the training graph, its machine, a budget. Out: seconds, or undefined where nothing but the
// arithmetic is known to bound the step.
// Worked example, ResNet-50 at batch 64 in 676 MiB on `v100-pcie-16g`: 1.07 times the in-core arithmetic.
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import { programmeOf } from '../../staging/schedule/programme'

export type Least = (graph: Graph, machine: Machine, budgetBytes: number) => number | undefined

/** Of the package, what is used here. */
interface Solver {
  readonly solve: (programme: string) => { readonly Status: string; readonly ObjectiveValue?: number }
}
type Load = () => Promise<Solver>

const SOLVER: string = 'highs'

const seconds =
  (solver: Solver): Least =>
  (graph, machine, budgetBytes) => {
    const programme = programmeOf(graph, machine, budgetBytes)
    if (programme === null) return undefined
    const { Status, ObjectiveValue } = solver.solve(programme)
    return Status === 'Optimal' && ObjectiveValue !== undefined ? ObjectiveValue / 1e3 : undefined
  }

/** Undefined where the package is not installed. */
export const leastSeconds = async (): Promise<Least | undefined> => {
  const load = await import(SOLVER).then(
    (m: { readonly default: Load }) => m.default,
    () => undefined,
  )
  return load && seconds(await load())
}
