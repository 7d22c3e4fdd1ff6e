// Imports run one way, without cycles. In: every TypeScript and native source of the checkout. Out: each edge that the
// layers do not allow, with those that they do, and each import cycle. Invariant: the rules stand in imports/layers.ts only.
import * as path from 'node:path'
import { cyclesOf } from './imports/cycles'
import { importsOf, sourceFiles } from './imports/graph'
import { edgeProblem } from './imports/layers'
import { nativeProblems } from './imports/native'

/** All problems of a checkout, in words; empty when there are none. */
export const importProblems = (root: string): string[] => {
  const edges = sourceFiles(root).flatMap((file) => importsOf(root, file))
  const forbidden = edges.flatMap((edge) => edgeProblem(edge) ?? [])
  const cycles = cyclesOf(edges).map((cycle) => `import cycle: ${[...cycle, cycle[0]].join(' -> ')}`)
  return [...forbidden, ...cycles, ...nativeProblems(root)]
}

if (require.main === module) {
  const problems = importProblems(path.dirname(__dirname))
  for (const problem of problems) console.error(problem)
  console.error(problems.length === 0 ? 'imports: directions and cycles are fine' : `imports: ${problems.length} problems`)
  process.exitCode = problems.length === 0 ? 0 : 1
}
