// What each heuristic of the planners is worth: the same case with it and without. In: nothing. Out: the step over its in-core
// compute for every switch, at a third and a half of in-core memory.
import { isLeft } from 'fp-ts/Either'
import { PAGE_BYTES } from '../../staging/core/bytes'
import { compile, type CompileOptions } from '../../staging/compile'
import { inCoreLayout } from '../../staging/schedule/incore'
import { computeSeconds } from '../../staging/schedule/bound'
import { auto, refineAuto } from '../../staging/schedule/auto'
import { ALL_RULES } from '../../staging/schedule/chaindp'
import { checkpointOptimal, refineOptimal } from '../../staging/schedule/optimal'
import { simulate } from '../../staging/sim/simulate'
import { smallestOf } from '../../src/cli/compare/sweep'
import type { Experiment, Section } from './page'
import { full, graphOf, machine, rounded } from './steps'

const NETWORKS: readonly (readonly [string, number, number])[] = full
  ? [
      ['resnet50', 64, 224],
      ['densenet121', 32, 224],
      ['inception4', 32, 224],
      ['vgg16-features', 8, 512],
    ]
  : [
      ['resnet50', 64, 224],
      ['vgg16-features', 8, 512],
    ]
const SHARES = [1 / 3, 1 / 2]

type Method = CompileOptions['method']

const optimalWith = (rules: Partial<typeof ALL_RULES>): Method => {
  const all = { ...ALL_RULES, ...rules }
  return { planner: checkpointOptimal(all), refiner: refineOptimal(all) }
}
const autoWith = (o: Parameters<typeof auto>[0]): Method => ({ planner: auto(o), refiner: refineAuto(o) })

/** Of each planner: itself, then what is left when a heuristic is taken away. */
const VARIANTS: Readonly<Record<string, Readonly<Record<string, Method>>>> = {
  'checkpoint:optimal': {
    'with everything': optimalWith({}),
    'without nested recomputation': optimalWith({ nested: false }),
    'without cheap values made again inside a stage': optimalWith({ options: false }),
  },
  auto: {
    'with everything': autoWith({}),
    'without swapping': autoWith({ swap: false }),
    'without cheap values made again inside a stage': autoWith({ cheapFirst: false }),
    'without refinement on the simulator': autoWith({ refine: false }),
  },
}

const section = ([name, batch, size]: readonly [string, number, number]): Section | null => {
  const on = machine('v100-pcie-16g')
  const graph = graphOf(name, on, batch, size)
  if (!graph) return null
  const inCore = smallestOf(graph, on, 'in-core')
  const compute = computeSeconds(inCoreLayout(graph, on))
  const step = (strategy: string, method: Method, share: number): number | null => {
    const budgetBytes = Math.floor((inCore * share) / PAGE_BYTES) * PAGE_BYTES
    const plan = compile(graph, { strategy, budgetBytes, machine: on, method })
    return isLeft(plan) ? null : rounded(simulate(plan.right, on.link).makespanSeconds / compute, 4)
  }
  const rows = Object.entries(VARIANTS).flatMap(([strategy, variants]) =>
    Object.entries(variants).map(([what, method]) => [
      `\`${strategy}\` ${what}`,
      ...SHARES.map((share) => step(strategy, method, share)),
    ]),
  )
  console.log(`  ablation ${name}`)
  return { heading: `${name}, batch ${batch} at ${size}²`, words: [], table: { head: ['planner', 'a third', 'a half'], rows } }
}

export const ablation: Experiment = () => ({
  title: 'Ablation: what each heuristic is worth',
  words: ['The step over its in-core compute on `v100-pcie-16g`, at a third and at half of the in-core memory.'],
  sections: NETWORKS.flatMap((n) => section(n) ?? []),
})
