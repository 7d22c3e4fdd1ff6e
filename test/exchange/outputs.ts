// The output of an imported net, for comparison with PyTorch's. In: a net and its weights. Out: its output for the image of the fixtures, in double
// precision, by the reference kernels.
import { type Either, isLeft } from 'fp-ts/Either'
import { errorText, type SpillwayError } from '../../src/errors/errors'
import { predictionOf } from '../../dsl/prediction'
import { bytesOf, type Imported } from '../../src/exchange/import'
import { converted } from '../../src/train/weights'
import { renderError } from '../../staging/core/errors'
import { uniform } from '../fixtures/formula'
import { evaluate } from '../models/evaluate'

/** PyTorch's output for an image, from outputs.json of the fixtures. */
export interface Output {
  readonly input: readonly number[]
  readonly output: readonly number[]
  readonly largest: number
  /** The first elements. */
  readonly values: readonly number[]
}

const got = <A>(e: Either<SpillwayError, A>): A => {
  if (isLeft(e)) throw new Error(errorText(e.left))
  return e.right
}

/** Norms use their running statistics, and nothing is dropped. */
export const outputOf = ({ model, parameters }: Imported): Float64Array => {
  const made = predictionOf(model, 'values')
  if (isLeft(made)) throw new Error(renderError(made.left))
  const graph = made.right
  const numbers = new Map(
    parameters.map((p) => [p.name, new Float32Array(converted(got(bytesOf(p)), p.tensor.type, 'F32').slice().buffer)]),
  )
  let seen: Float64Array | undefined
  evaluate(
    graph,
    (v) => numbers.get(v.name) ?? uniform('input', v.shape, 1),
    (name, y) => {
      if (name === 'output') seen = y as Float64Array
    },
    graph.values.find((v) => v.name === 'output')!.id,
  )
  return seen!
}
