// The ops that compute a loss. In: a loss, possibly unchecked user input, and the place where it is computed. Out: its entry or an error, and the calls
// of each part. Invariant: the parts of a sum read one target. Worked example: `dice` is the calls `dice_sums` and `dice`.
import { chain, type Either, left, right, traverseArray } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { GraphError } from '../core/errors'
import { knownIn } from '../core/known'
import { attrsOf, type Choice, isFlag } from './choices'
import { CLASS_WEIGHT, countClasses, countLabels, labelNumbers, labelsOf, NONE_IGNORED, weighClasses } from './loss'
import {
  isOwn,
  type Loss,
  type LossCall,
  type LossEntry,
  LOSSES,
  lossName,
  lossNames,
  type LossSum,
  OWN_MEAN,
  type OwnLoss,
  partsOf,
  type PlainLoss,
  type Read,
} from './losses'
import { maskFactors, maskLabels } from './maskpixels'
import { listedAttrs, type Sizes } from './op'
import { elements } from './rules'

const isNumbers = (u: unknown): boolean =>
  Array.isArray(u) && u.length > 0 && u.every((n) => typeof n === 'number' && Number.isFinite(n))

const notLegal = (name: string, reason: string, legal: string): Either<GraphError, never> =>
  left({ tag: 'ValueInvalid', name, reason, legal })

const OWN_ENTRY: LossEntry = { op: OWN_MEAN, about: '', options: {} }

const isRead = (calls: number) => (r: unknown) =>
  r === 'output' || r === 'target' || (Number.isInteger(r) && (r as number) >= 0 && (r as number) < calls)

const ownEntry = ({ calls, of }: OwnLoss): Either<GraphError, LossEntry> =>
  Array.isArray(calls) &&
  isRead(calls.length)(of) &&
  calls.every((c: LossCall, i) => typeof c?.op === 'string' && Array.isArray(c.reads) && c.reads.every(isRead(i)))
    ? right(OWN_ENTRY)
    : notLegal("a loss of one's own", 'its calls read a value that no earlier call computes', 'a result of lossOf')

const plainEntry = (l: PlainLoss): Either<GraphError, LossEntry> => {
  if (l !== null && isOwn(l)) return ownEntry(l)
  const of = typeof l === 'object' && l !== null ? l.kind : l
  if (typeof of !== 'string' || !Object.hasOwn(LOSSES, of)) return left({ tag: 'UnknownLoss', got: String(of), legal: lossNames })
  const entry: LossEntry = LOSSES[of]
  if (typeof l === 'string') return right(entry)
  return pipe(
    knownIn({ of, keys: ['kind', ...Object.keys(entry.options)] })(l),
    chain((given): Either<GraphError, LossEntry> => {
      const isLegal = (c: Choice, v: unknown): boolean =>
        c.list ? isNumbers(v) : typeof v === (isFlag(c) ? 'boolean' : 'number')
      const wrong = Object.entries(given).find(
        ([name, v]) => name !== 'kind' && v !== undefined && !isLegal(entry.options[name]!, v),
      )
      const legal = wrong && entry.options[wrong[0]]?.list ? 'a list of numbers' : 'a number'
      return wrong ? notLegal(`${wrong[0]} of ${of}`, `it is ${JSON.stringify(wrong[1])}`, legal) : right(entry)
    }),
  )
}

/** Returns the kind of target of a loss, in words. */
const comparesWith = (e: LossEntry): string => (e.labels ? 'class labels' : e.shares ? 'shares of classes' : 'numbers')

/** Returns true for Dice together with a loss on logits: with one channel, both accept labels of 0 and 1. */
const isOfMarks = (entries: readonly LossEntry[]): boolean =>
  entries.some((e) => e.logits) && entries.some((e) => e.summed) && entries.every((e) => e.logits || e.summed)

/** Returns the entry of a sum of losses, or an error if its parts need different kinds of targets. */
const sumEntry = ({ parts }: LossSum): Either<GraphError, LossEntry> => {
  const name = 'a sum of losses'
  if (!Array.isArray(parts) || parts.length === 0) return notLegal(name, `it is of ${JSON.stringify(parts)}`, 'one part or more')
  const odd = parts.findIndex((p: unknown) => !Array.isArray(p) || p.length !== 2 || !Number.isFinite(p[0]))
  if (odd >= 0) return notLegal(name, `part ${odd} is ${JSON.stringify(parts[odd])}`, 'a loss, or [weight, loss]')
  return pipe(
    (parts as LossSum['parts']).map(([, part]) => part),
    traverseArray(plainEntry),
    chain((entries) => {
      const [first] = entries
      const ofMarks = isOfMarks(entries)
      const other = ofMarks ? -1 : entries.findIndex((e) => comparesWith(e) !== comparesWith(first!))
      const nameAt = (i: number): string => lossName((parts as LossSum['parts'])[i]![1])
      if (other >= 0)
        return notLegal(
          name,
          `'${nameAt(0)}' compares with ${comparesWith(first!)}, but '${nameAt(other)}' with ${comparesWith(entries[other]!)}`,
          'losses with the same kind of target',
        )
      const ignoring = (parts as LossSum['parts']).findIndex(
        ([, p]) => typeof p === 'object' && 'ignoreIndex' in p && p.ignoreIndex !== undefined,
      )
      if (ofMarks && ignoring >= 0)
        return notLegal(
          name,
          `'${nameAt(ignoring)}' has an ignoreIndex, but '${nameAt(entries.findIndex((e) => e.logits))}' uses all labels`,
          'the sum without ignoreIndex',
        )
      return right<GraphError, LossEntry>({
        op: 'sum',
        about: '',
        options: {},
        ...(ofMarks || first!.labels ? { labels: true } : {}),
        ...(first!.shares ? { shares: true } : {}),
        ...(entries.some((e) => e.logits) ? { logits: true } : {}),
        ...(entries.every((e) => e.symmetric) ? { symmetric: true } : {}),
      })
    }),
  )
}

/** Returns the entry of a loss. The loss may be unchecked user input. */
export const lossEntry = (l: Loss): Either<GraphError, LossEntry> => {
  if (Array.isArray(l)) return notLegal('loss', 'it is a list', 'one loss, or sumOf(...) of several')
  return typeof l === 'object' && l.kind === 'sum' ? sumEntry(l) : plainEntry(l)
}

/** Returns true if one of the user's own parts reads a target. Then the target cannot be a constant. */
export const readsTarget = (l: Loss): boolean =>
  partsOf(l).some(([, p]) => isOwn(p) && [p.of, ...p.calls.flatMap((c) => c.reads)].includes('target'))

export const targetOf = (e: Pick<LossEntry, 'labels'>, output: Sizes): Sizes => (e.labels ? labelsOf(output) : output)

/** The place of a loss: the shape of its output, and true if only pixels inside of a mask count. */
export interface LossPlace {
  readonly output: Sizes
  readonly isMasked: boolean
}

/** Returns the calls that compute the factors of pixels, after `before` other calls. The last call returns the factors. */
const factorCalls = (before: number): readonly LossCall[] => [
  { op: 'bn_stats', attrs: {}, reads: ['mask'] },
  { op: maskFactors.kind, attrs: {}, reads: ['mask', before] },
]

/** Returns the calls of a single loss with a weight. The last call returns the loss. */
const callsOf = (
  l: PlainLoss,
  { output, isMasked }: LossPlace,
  weight: number,
  constant: number,
  ofMarks: boolean,
): readonly LossCall[] => {
  if (isOwn(l)) {
    const mean = (of: Read): LossCall => ({ op: OWN_MEAN, attrs: { count: elements(output), weight, constant: 0 }, reads: [of] })
    if (!isMasked) return [...l.calls, mean(l.of)]
    const n = l.calls.length
    return [...l.calls, ...factorCalls(n), { op: 'multiply', attrs: { over: 2 }, reads: [l.of, n + 1] }, mean(n + 2)]
  }
  const e: LossEntry = LOSSES[typeof l === 'string' ? l : l.kind]
  const given = typeof l === 'string' ? {} : l
  const own = attrsOf(e.options, given)
  const { weights } = given as { readonly weights?: readonly number[] }
  const { ignoreIndex = NONE_IGNORED, labelSmoothing = 0, ...others } = own
  const inside: readonly LossCall[] = isMasked ? [{ op: maskLabels.kind, attrs: { ignoreIndex }, reads: ['target', 'mask'] }] : []
  const labelled: Read = isMasked ? 0 : 'target'
  const both = ['output', labelled] as const
  const n = inside.length
  if (e.summed !== undefined)
    return [
      ...inside,
      { op: e.summed, attrs: { ignoreIndex }, reads: both },
      { op: e.op, attrs: { ...others, weight, ...listedAttrs(CLASS_WEIGHT, weights ?? []) }, reads: [n] },
    ]
  if (e.weighed !== undefined && (weights !== undefined || own.labelSmoothing !== undefined))
    return [
      ...inside,
      { op: countClasses.kind, attrs: { ignoreIndex, classes: output[1]! }, reads: [labelled] },
      { op: weighClasses.kind, attrs: listedAttrs(CLASS_WEIGHT, weights ?? []), reads: [n] },
      { op: e.weighed, attrs: { ignoreIndex, labelSmoothing, weight }, reads: [...both, n + 1] },
    ]
  if (e.counted !== undefined && (isMasked || own.ignoreIndex !== undefined))
    return [
      ...inside,
      { op: countLabels.kind, attrs: { ignoreIndex }, reads: [labelled] },
      { op: e.counted, attrs: { ignoreIndex, weight }, reads: [...both, n] },
    ]
  const count = elements(e.shares ? labelsOf(output) : targetOf(e, output))
  const attrs = { count, weight, ...(e.labels || e.shares ? {} : { constant }), ...own }
  const numbers: readonly LossCall[] = ofMarks ? [{ op: labelNumbers.kind, attrs: {}, reads: ['target'] }] : []
  const m = numbers.length
  const target: Read = ofMarks ? 0 : 'target'
  return isMasked
    ? [...numbers, ...factorCalls(m), { op: e.op, attrs, reads: ['output', target, m + 1] }]
    : [...numbers, { op: e.op, attrs, reads: ['output', target] }]
}

/** Returns the calls of each part of a loss with its weight, and the part's name if there are several. */
export const lossCalls = (
  l: Loss,
  place: LossPlace,
  weight = 1,
  constant = 0,
): readonly { readonly name: string; readonly calls: readonly LossCall[] }[] => {
  const parts = partsOf(l)
  const names = parts.map(([, part]) => lossName(part))
  const ofMarks = isOfMarks(names.map((n): LossEntry => (n === 'own' ? OWN_ENTRY : LOSSES[n])))
  return parts.map(([share, part], i) => {
    const own = names.filter((n) => n === names[i]).length > 1 ? `${names[i]}.${i}` : names[i]!
    return { name: parts.length > 1 ? `.${own}` : '', calls: callsOf(part, place, share * weight, constant, ofMarks) }
  })
}
