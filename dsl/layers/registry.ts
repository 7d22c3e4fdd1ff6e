// The run-time rules of all kinds of layers, by kind: the twin of the registries in net.ts.
// In: nothing. Out: `ruleOf(kind)`. Invariant: a kind that the type-level registries know and this one lacks does not compile.
import { right } from 'fp-ts/Either'
import type { Identity, LayerShapes, Net } from '../net'
import { layerCodec } from './codecs'
import type { LayerRule } from './rule'
import { rules as listed } from './table'

const identityRule: LayerRule<Identity> = {
  masked: 'keeps',
  codec: layerCodec('identity', {}) as never,
  isNothing: () => true,
  elaborate: (_, x) => right(x),
}

// Each rule takes its own kind of node.
const rules: Readonly<Record<keyof LayerShapes<any, any>, LayerRule<any>>> = { ...listed, identity: identityRule }

export const layerKinds: readonly string[] = Object.keys(rules).sort()

export const ruleOf = (kind: string): LayerRule | undefined =>
  Object.hasOwn(rules, kind) ? (rules[kind as keyof typeof rules] as LayerRule) : undefined

/** The rule of a node that has passed decodeNet. */
export const ruleFor = (n: Net): LayerRule => {
  const rule = ruleOf(n.kind)
  if (!rule) throw new Error(`no rule for layers of kind '${n.kind}'`)
  return rule
}
