// Generalised mean pooling (GeM), from ONNX nodes: the pth root of the mean of pth powers of values that are at least eps. In: the current node. Out: the
// parts so far, or the layer; false if the node is no part of it. Worked example: Clip from 1e-6, Pow 3, GlobalAveragePool and Pow 1/3.
import { generalizedMeanPool } from '../../dsl'
import { axesOf, near, positive, type Reading, refuse, shortest } from './reading'
import type { Meaning } from './symbols'

type Power = Extract<Meaning, { readonly tag: 'power' }>

const partOf = (r: Reading, part: Power['part']): Power | undefined => {
  const s = r.symbol(0)
  return s.tag === 'power' && s.part === part ? s : undefined
}

/** Values that are at least eps. */
export const atLeast = (r: Reading, eps: number): void => {
  const { step, form } = r.data(0)
  if (form !== 'image' || eps <= 0)
    refuse(`it clips to ${eps} and ∞; allowed: 0 and ∞, and eps > 0 in a generalised mean of an image`)
  r.is({ tag: 'power', part: 'least', step, eps: shortest(eps) })
}

const squared = (r: Reading): void => {
  const { step, form } = r.data(0)
  r.is({ tag: 'data', step: r.meeting('product', [step, step], r.shape(step)), form })
}

/** The square of values, their pth power, or the pth root of their mean. */
export const power = (r: Reading): unknown => {
  const [least, mean] = [partOf(r, 'least'), partOf(r, 'mean')]
  if (r.symbol(0).tag === 'data' && r.scalar(1) === 2) return squared(r)
  if (least !== undefined) return r.is({ ...least, part: 'powers', power: shortest(r.constant(1)) })
  if (mean?.power === undefined) return refuse('it raises values to a power; allowed: 2, and generalised means')
  if (!near(r.constant(1) * mean.power, 1))
    refuse(`it is no root of order ${mean.power}; allowed: the root of the powers in the mean`)
  return r.is({ tag: 'data', step: r.layer(generalizedMeanPool(mean.power, mean.eps), mean.step), form: 'image' })
}

/** The mean of powers over the image; `isWhole` is true for a pool of all pixels. */
export const meanOfPowers = (r: Reading, isWhole: boolean): boolean => {
  const powers = partOf(r, 'powers')
  if (powers === undefined) return false
  const isOfImage = isWhole || (positive(axesOf(r) ?? [], 4).join() === '2,3' && r.int('keepdims', 1) === 1)
  if (!isOfImage) refuse('it averages powers over a part of the image; allowed: height and width, kept')
  r.is({ ...powers, part: 'mean' })
  return true
}
