// The run-time rules of all kinds of layers, one line each: the twin of the registries in net.ts.
// In: nothing. Out: `ruleOf(kind)`. Invariant: a kind that the type-level registries know and this one lacks does not compile.
import { right } from 'fp-ts/Either'
import type { Identity, LayerShapes, Net } from '../net'
import { batchNormRule } from './batchnorm'
import { layerCodec } from './codecs'
import { conv2dRule } from './conv2d'
import { convTranspose2dRule } from './convtranspose2d'
import { dropoutRule } from './dropout'
import { flattenRule } from './flatten'
import { adaptiveAvgPoolRule, globalAvgPoolRule } from './globalpool'
import { groupNormRule, instanceNormRule } from './groupnorm'
import { linearRule } from './linear'
import { localResponseNormRule } from './lrn'
import { avgPoolRule, maxPoolRule } from './pool'
import { reflectionPad2dRule } from './reflectionpad'
import { leakyReluRule, reluRule } from './relu'
import { type LayerRule, unchanged } from './rule'
import { sigmoidRule } from './sigmoid'
import { softmaxRule } from './softmax'
import { tanhRule } from './tanh'
import { upsampleRule } from './upsample'

const identityRule: LayerRule<Identity> = {
  codec: layerCodec('identity', {}) as never,
  shape: (_, input) => unchanged(input),
  ft: () => ['B', 'C', 'H', 'W'],
  inPlace: true,
  elaborate: (_, x) => right(x),
}

// Each rule takes its own kind of node.
const rules: Readonly<Record<keyof LayerShapes<any, any>, LayerRule<any>>> = {
  adaptiveAvgPool: adaptiveAvgPoolRule,
  avgPool: avgPoolRule,
  batchNorm: batchNormRule,
  conv2d: conv2dRule,
  convTranspose2d: convTranspose2dRule,
  dropout: dropoutRule,
  flatten: flattenRule,
  globalAvgPool: globalAvgPoolRule,
  groupNorm: groupNormRule,
  identity: identityRule,
  instanceNorm: instanceNormRule,
  leakyRelu: leakyReluRule,
  linear: linearRule,
  localResponseNorm: localResponseNormRule,
  maxPool: maxPoolRule,
  reflectionPad2d: reflectionPad2dRule,
  relu: reluRule,
  sigmoid: sigmoidRule,
  softmax: softmaxRule,
  tanh: tanhRule,
  upsample: upsampleRule,
}

export const layerKinds: readonly string[] = Object.keys(rules)

export const ruleOf = (kind: string): LayerRule | undefined =>
  Object.hasOwn(rules, kind) ? (rules[kind as keyof typeof rules] as LayerRule) : undefined

/** The rule of a node that has passed decodeNet. */
export const ruleFor = (n: Net): LayerRule => {
  const rule = ruleOf(n.kind)
  if (!rule) throw new Error(`no rule for layers of kind '${n.kind}'`)
  return rule
}
