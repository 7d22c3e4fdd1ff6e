// Norms, from ONNX nodes. In: a node that is being read. Out: its layer. Invariant: a norm's weights are one number a channel.
import { batchNorm, groupNorm, instanceNorm, layerNorm, layerScale, rmsNorm } from '../../dsl'
import { elementsOf } from '../../staging/core/box'
import { numbersOf } from './read'
import { type Reading, refuse } from './reading'
import type { Weight } from './symbols'
import { asChannelsOfRow, channelsOfRow, parameterName } from './taketokens'
import { axesOfForm } from './views'

export const batchNormalization = (r: Reading): void => {
  if (r.int('training_mode', 0) !== 0) refuse('it is in training mode (training_mode 1); allowed: a model for inference')
  const [scale, shift, mean, variance] = [1, 2, 3, 4].map((i) => r.weight(i)) as [Weight, Weight, Weight, Weight]
  const row = channelsOfRow(r, r.symbol(0))
  const { step, form } = row === undefined ? r.data(0) : { step: row, form: 'image' as const }
  if (form !== 'image' && axesOfForm(form, r.shape(step)).length !== 2)
    refuse('its input has its channels last; allowed: [B,C,H,W], [B,C], [B,C,N]')
  const c = r.shape(step)[1]
  const name = r.named(scale, shift)
  const weights = { weight: scale, bias: shift, running_mean: mean, running_var: variance }
  for (const [own, w] of Object.entries(weights)) r.parameter(`${name}.${own}`, w, [c])
  const norm = batchNorm(name, { frozen: r.int('frozen', 0) === 1, eps: r.float('epsilon', 1e-5) })
  if (row === undefined) r.makes(norm)
  else r.is(asChannelsOfRow(r, r.layer(norm, row)))
}

const isFilledWith = ({ tensor, dims }: Weight, n: number): boolean =>
  elementsOf(dims) <= 1 << 16 && (numbersOf(tensor)?.every((v) => v === n) ?? false)

export const instanceNormalization = (r: Reading): unknown => {
  const s = r.symbol(0)
  const [scale, shift] = [1, 2].map((i) => (r.has(i) ? r.weight(i) : undefined))
  const eps = r.float('epsilon', 1e-5)
  const plain = scale === undefined || shift === undefined || (isFilledWith(scale, 1) && isFilledWith(shift, 0))
  if (s.tag === 'rows') {
    if (!plain) refuse('it has scales per group; allowed: scales per channel')
    return r.is({ ...s, eps })
  }
  const from = r.image(0)
  const c = r.shape(from)[1]
  const name = plain ? '' : r.named(scale, shift)
  if (!plain) {
    r.parameter(`${name}.weight`, scale, [c])
    r.parameter(`${name}.bias`, shift, [c])
  }
  r.makes(instanceNorm(name, { affine: !plain, eps }))
}

export const groupNormalization = (r: Reading): unknown => {
  const from = r.image(0)
  const c = r.shape(from)[1]
  const [groups, eps] = [r.int('num_groups', 1), r.float('epsilon', 1e-5)]
  if (!r.has(1)) return r.makes(groupNorm(r.named(), groups, { affine: false, eps }))
  const scale = r.weight(1)
  if (!r.has(2)) {
    const own = parameterName(r, scale)
    const normed = r.layer(groupNorm(r.unused(`${own}.normalised`), groups, { affine: false, eps }), from)
    r.parameter(own, scale, [c])
    return r.is({ tag: 'data', step: r.layer(layerScale(own, 1, { shape: 'channels' }), normed), form: 'image' })
  }
  const shift = r.weight(2)
  const name = r.named(scale, shift)
  r.parameter(`${name}.weight`, scale, [c])
  r.parameter(`${name}.bias`, shift, [c])
  r.makes(groupNorm(name, groups, { eps }))
}

/** The number of channels of a value. Refuses nodes that normalise other axes. */
const normalisedChannels = (r: Reading): number => {
  const { step, form } = r.data(0)
  const axis = r.int('axis', -1)
  const last = axesOfForm(form, r.shape(step)).length - 1
  if (form === 'image' || (axis !== -1 && axis !== last))
    refuse('it normalises more than the channels of each pixel; allowed: only the channels')
  return r.shape(step)[1]
}

export const layerNormalization = (r: Reading): void => {
  const c = normalisedChannels(r)
  const [scale, given] = [r.weight(1), r.has(2) ? r.weight(2) : undefined]
  // PyTorch's exporters write zeros for a bias that is absent. Weights of the network have names with dots.
  const shift = given && (given.tensor.name.includes('.') || !isFilledWith(given, 0)) ? given : undefined
  const name = r.named(scale, shift)
  r.parameter(`${name}.weight`, scale, [c])
  if (shift) r.parameter(`${name}.bias`, shift, [c])
  r.makes(layerNorm(name, { eps: r.float('epsilon', 1e-5), bias: shift !== undefined }))
}

export const rmsNormalization = (r: Reading): void => {
  const c = normalisedChannels(r)
  const scale = r.weight(1)
  const name = r.named(scale)
  r.parameter(`${name}.weight`, scale, [c])
  r.makes(rmsNorm(name, { eps: r.float('epsilon', 1e-5) }))
}
