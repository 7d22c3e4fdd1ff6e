// The op table: every operator's entry, one line each. Looked up by kind and by wire number.
// Invariant, checked when the module loads: kinds and wire numbers are unique, and optional operands trail.
import { accumulate, copy, fill, mergeMoments } from './plumbing'
import { add, gradSum, addRelu } from './add'
import {
  bnApply,
  bnBwdData,
  bnBwdReduce,
  bnFrozen,
  bnFrozenBwdData,
  bnFrozenBwdReduce,
  bnRunning,
  bnStats,
  bnReluApply,
  bnReluBwdData,
  bnReluBwdReduce,
} from './batchnorm'
import { fromBf16, fromBf16Grad, toBf16, toBf16Grad } from './cast'
import { concat, sliceChannels } from './concat'
import { conv2d, conv2dBwdData, conv2dBwdWeights, conv2dRelu } from './conv2d'
import { convTranspose2d, convTranspose2dBwdData, convTranspose2dBwdWeights } from './convtranspose2d'
import { dropout, dropoutBwd } from './dropout'
import { flatten, flattenBwd } from './flatten'
import { groupNormApply, groupNormBwdData, groupNormBwdReduce, groupNormStats } from './groupnorm'
import { joinedNorm, joinedNormBwdData, joinedNormBwdReduce, joinStats } from './joinednorm'
import { linear, linearBwdData, linearBwdWeights } from './linear'
import { bceWithLogits, bceWithLogitsBwd, l1, l1Bwd, mse, mseBwd, softmaxXent, softmaxXentBwd } from './loss'
import type { OpDef, OperandDef } from './op'
import { adam, sgd } from './optimizer'
import { paramGradSum } from './paramsum'
import { avgPool, avgPoolBwd, globalAvgPool, globalAvgPoolBwd, maxPool, maxPoolBwd } from './pool'
import { maxPoolPlaces, maxPoolPlacesBwd } from './poolplaces'
import { lrn, lrnBwd } from './lrn'
import { reflectPad, reflectPadBwd } from './reflectpad'
import { relu, reluBwd } from './relu'
import { bnAddReluApply, bnAddReluBwdData, bnAddReluBwdReduce } from './residualnorm'
import { sigmoid, sigmoidBwd } from './sigmoid'
import { softmax, softmaxBwd } from './softmax'
import { tanh, tanhBwd } from './tanh'
import { upsample, upsampleBwd } from './upsample'

export const opDefs: readonly OpDef[] = [
  conv2d,
  conv2dBwdData,
  conv2dBwdWeights,
  linear,
  linearBwdData,
  linearBwdWeights,
  bnStats,
  bnApply,
  bnBwdReduce,
  bnBwdData,
  bnFrozen,
  bnFrozenBwdData,
  bnFrozenBwdReduce,
  bnRunning,
  relu,
  reluBwd,
  maxPool,
  maxPoolBwd,
  avgPool,
  avgPoolBwd,
  globalAvgPool,
  globalAvgPoolBwd,
  add,
  gradSum,
  concat,
  sliceChannels,
  flatten,
  flattenBwd,
  dropout,
  dropoutBwd,
  softmaxXent,
  softmaxXentBwd,
  mse,
  mseBwd,
  sgd,
  adam,
  sigmoid,
  sigmoidBwd,
  tanh,
  tanhBwd,
  softmax,
  softmaxBwd,
  groupNormStats,
  groupNormApply,
  groupNormBwdReduce,
  groupNormBwdData,
  l1,
  l1Bwd,
  bceWithLogits,
  bceWithLogitsBwd,
  convTranspose2d,
  convTranspose2dBwdData,
  convTranspose2dBwdWeights,
  upsample,
  upsampleBwd,
  reflectPad,
  reflectPadBwd,
  lrn,
  lrnBwd,
  paramGradSum,
  bnReluApply,
  bnReluBwdReduce,
  bnReluBwdData,
  addRelu,
  conv2dRelu,
  joinStats,
  joinedNorm,
  joinedNormBwdReduce,
  joinedNormBwdData,
  maxPoolPlaces,
  maxPoolPlacesBwd,
  bnAddReluApply,
  bnAddReluBwdReduce,
  bnAddReluBwdData,
  toBf16,
  fromBf16,
  toBf16Grad,
  fromBf16Grad,
  fill,
  copy,
  accumulate,
  mergeMoments,
]

const trailing = (operands: readonly OperandDef[]): boolean =>
  operands.every((o, i) => !o.optional || operands.slice(i).every((p) => p.optional))

/** What is wrong with a table, if anything. */
export const tableFault = (defs: readonly OpDef[]): string | undefined => {
  const wires = new Map<number, string>()
  const kinds = new Set<string>()
  for (const d of defs) {
    if (wires.has(d.wire)) return `${d.kind} and ${wires.get(d.wire)} share wire number ${d.wire}`
    if (kinds.has(d.kind)) return `${d.kind} is listed twice`
    if (!Number.isInteger(d.wire) || d.wire < 1 || d.wire > 0xffff)
      return `${d.kind} has wire number ${d.wire}; legal are 1 to 65535`
    if (!trailing(d.ins) || !trailing(d.outs)) return `${d.kind} has an optional operand before a required one`
    const bare = [...d.ins, ...d.outs].find((o) => o.role === 'data' && !o.access)
    if (bare) return `${d.kind} does not say how ${bare.name} is indexed`
    wires.set(d.wire, d.kind)
    kinds.add(d.kind)
  }
  return undefined
}

const fault = tableFault(opDefs)
if (fault !== undefined) throw new Error(`op table: ${fault}`)

const byKind = new Map(opDefs.map((d) => [d.kind, d]))
const byWire = new Map(opDefs.map((d) => [d.wire, d]))

export const findOp = (kind: string): OpDef | undefined => byKind.get(kind)
export const findOpByWire = (wire: number): OpDef | undefined => byWire.get(wire)

/** The entry of a kind that is known to exist. */
export const opDef = (kind: string): OpDef => {
  const d = byKind.get(kind)
  if (!d) throw new Error(`the op table has no operator '${kind}'`)
  return d
}
