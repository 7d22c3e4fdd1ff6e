// Reads the loss from the ops of a graph. In: ops and values. Out: the loss as users write it, or undefined. Worked example: `dice_sums` and `dice` on
// the output are the loss `dice`, with the options in the attributes.
import { castOps } from './cast'
import { chosenBy } from './choices'
import { CLASS_WEIGHT, diceSums, NONE_IGNORED } from './loss'
import {
  type Loss,
  type LossCall,
  type LossEntry,
  LOSSES,
  lossNames,
  lossWith,
  OWN_MEAN,
  type OwnLoss,
  type PlainLoss,
  type Read,
  sumOfParts,
} from './losses'
import { maskFactors } from './maskpixels'
import { type AnyAttrs, attrsListed } from './op'

/** The part of a graph's op that this file reads. */
interface LossOp {
  readonly kind: string
  readonly attrs: AnyAttrs
  readonly layer: string
  readonly ins: readonly number[]
  readonly outs: readonly number[]
  readonly phase: string
}

interface LossGraph {
  readonly ops: readonly LossOp[]
  readonly values: readonly { readonly role: string }[]
}

/** Returns the label that an op ignores, if it ignores one. */
export const ignoredIn = ({ ignoreIndex: ignored }: AnyAttrs): number | undefined =>
  ignored === NONE_IGNORED ? undefined : ignored

const CASTS: readonly string[] = castOps.map((d) => d.kind)

/** Kinds of ops that apply a mask. They are not part of the loss. */
const MASKS = ['bn_stats', maskFactors.kind]

/** In written order, at any later place. */
const asWritten = (ops: readonly LossOp[]): readonly LossOp[] => [...ops].sort((a, b) => a.outs[0]! - b.outs[0]!)

/** Returns the user's own loss from the ops of its layer. Undefined if the mean is of the output itself. */
const ownBy = (ops: readonly LossOp[], isTarget: (value: number) => boolean, op: LossOp): OwnLoss | undefined => {
  const own = ops.filter((o) => o.layer === op.layer && o.phase === 'forward')
  const factors = own.filter((o) => o.kind === maskFactors.kind).flatMap((o) => o.outs)
  const isPassed = (o: LossOp): boolean => CASTS.includes(o.kind) || o.ins.some((v) => factors.includes(v))
  const made = asWritten(own.filter((o) => !isPassed(o) && !MASKS.includes(o.kind)))
  const readOf = (value: number): Read => {
    const by = own.find((o) => o.outs.includes(value))
    if (by && isPassed(by)) return readOf(by.ins[0]!)
    return by ? made.indexOf(by) : isTarget(value) ? 'target' : 'output'
  }
  const calls = made.map(({ kind, attrs, ins }): LossCall => ({ op: kind, attrs, reads: ins.map(readOf) }))
  return calls.length === 0 ? undefined : { kind: 'own', calls, of: readOf(op.ins[0]!) }
}

/** Returns a loss of the table from its op and the ops that compute its operands. */
const tableBy = (ops: readonly LossOp[], op: LossOp): PlainLoss | undefined => {
  const kind = lossNames.find((name) => {
    const e: LossEntry = LOSSES[name]
    return [e.op, e.counted, e.weighed].includes(op.kind)
  })
  if (kind === undefined) return undefined
  const made = ops.filter((o) => o.phase !== 'loss' && o.outs.some((v) => op.ins.includes(v)))
  const weights = [...made, op].flatMap((o) => attrsListed(CLASS_WEIGHT, o.attrs))
  const { ignoreIndex, labelSmoothing, ...attrs } = { ...made.find((o) => o.kind === diceSums.kind)?.attrs, ...op.attrs }
  return lossWith(kind, {
    ...chosenBy(LOSSES[kind].options, {
      ...attrs,
      ...(ignoreIndex === undefined || ignoreIndex === NONE_IGNORED ? {} : { ignoreIndex }),
      ...(labelSmoothing ? { labelSmoothing } : {}),
    }),
    ...(weights.length > 0 ? { weights } : {}),
  })
}

/** Returns the loss on a graph's output, or undefined if there is none. */
export const lossBy = ({ ops, values }: LossGraph): Loss | undefined => {
  const isTarget = (value: number): boolean => values[value]!.role === 'target'
  const plainBy = (o: LossOp): PlainLoss | undefined =>
    (o.kind === OWN_MEAN ? ownBy(ops, isTarget, o) : undefined) ?? tableBy(ops, o)
  const parts = asWritten(ops.filter((o) => o.phase === 'loss')).flatMap((o) => {
    const loss = plainBy(o)
    return loss === undefined ? [] : [[o.attrs.weight ?? 1, loss] as const]
  })
  return parts.length === 0 ? undefined : sumOfParts(parts)
}
