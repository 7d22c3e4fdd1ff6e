// `spillway check FILE`: checks a model file. In: a file, and options of staging. Out: the faults of its types and of staging it, each with its line
// and column. Invariant: nothing is measured and nothing runs except the file's own top level: it is staged for a simulated machine, with everything
// kept, unless a machine or a budget is named.
import { extname } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { bytesOf } from '../../staging/core/bytes'
import { elementsOf } from '../../staging/core/box'
import { type SpillwayError, usage } from '../errors/errors'
import { showCount, showShape, showSize } from '../report/format'
import { stagePrepared } from '../stage/stage'
import { UNBOUNDED_BYTES } from '../stage/staged'
import { CODE_FILES, looksLikeFile } from './load'
import { live } from './live'
import type { Done, Output } from './output'
import { planShown } from './phases'
import { prepareNamed, type StagingOptions } from './stage'
import { typesOf } from './types'

const SIMULATED = 'v100-pcie-16g'

const modelFile = (file: string): Either<SpillwayError, string> =>
  extname(file) === '.json'
    ? E.left(usage(`check takes a model file; for a plan file use: spillway verify ${file}`))
    : looksLikeFile(file)
      ? E.right(file)
      : E.left(usage(`'${file}' is not a model file; allowed endings: ${CODE_FILES.join(', ')}`))

export const checkFile = (file: string, o: StagingOptions, out: Output): Done => {
  const { budget = UNBOUNDED_BYTES, strategy = o.budget === undefined ? 'in-core' : 'auto', machine = SIMULATED, algorithms } = o
  return pipe(
    modelFile(file),
    E.tap(() => E.right(live.show(`checking the types of ${file}`))),
    E.flatMap(typesOf),
    E.bindTo('types'),
    E.bind('made', () => prepareNamed(file, { ...o, machine })),
    E.bind('staged', ({ made: { prepared } }) =>
      planShown(file, () => stagePrepared(prepared, { budget, strategy, algorithms })),
    ),
    E.map(({ types, made: { prepared }, staged: { plan } }) => {
      const { graph, layers } = prepared
      const parameters = graph.values.reduce((n, v) => n + (v.role === 'param' ? elementsOf(v.shape) : 0), 0)
      const input = graph.values.find((v) => v.role === 'input')!.shape
      const peakBytes = bytesOf(plan.peakPages)
      return out.answer(
        { checked: true, file, ...types, layers: layers.length, parameters, input, strategy: plan.strategy, machine, peakBytes },
        `${file} is valid: ${layers.length} layers, ${showCount(parameters)} parameters, input ${showShape(input)}, checked by TypeScript ` +
          `${types.typescript}\n${plan.strategy} on ${machine} needs ${showSize(peakBytes)}`,
      )
    }),
  )
}
