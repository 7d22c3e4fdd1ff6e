// Machines that train together: each step takes the time of the slowest of them. In: this one's timer, the others' answers for the requested calls.
// Out: a timer of the largest times. Invariant: answers are kept as factors of the times here, for a sample: so one answer serves all calls with the
// same sample, and an unrequested call is slower by the factor of its kind. Worked example: a convolution takes 2 ms here, 3 and 1 elsewhere: 3;
// another, unrequested convolution 1.5 times its own.
import type { Link } from '../../staging/graph/machine'
import type { Float } from '../../staging/graph/graph'
import type { AnyAttrs, CallShapes } from '../../staging/ops/op'
import { keyOf, type SampleLimits, sampleOf, type Timer } from './timing'

/** A call that planning has asked for, as it is timed. */
export interface AskedCall {
  readonly kind: string
  readonly attrs: AnyAttrs
  readonly s: CallShapes
  readonly way: number
}
/** Seconds of each, on one machine; null where it has no such way. */
export type AnsweredSeconds = readonly (number | null)[]

/** The answers of other machines. */
export interface Elsewhere {
  /** By the sample of a call, the factor of the time here: at least 1. */
  readonly times: ReadonlyMap<string, number>
  readonly links: readonly Link[]
}

/** One machine's answer for the calls that another one requests. */
export interface Answer {
  readonly seconds: AnsweredSeconds
  readonly link: Link
}

/** How a machine's times are compared with those of others. */
export interface Compared {
  /** The place of kept answers: machines of one name share them. */
  readonly kept: string
  /** Calls that planning has asked for so far and others were not asked for yet. */
  readonly requested: () => readonly AskedCall[]
  readonly answer: (calls: readonly AskedCall[]) => Answer
  /** After others have answered for these calls: the new planning times; nothing if none is slower than expected. */
  readonly knowing: (calls: readonly AskedCall[], answers: readonly Answer[]) => Elsewhere | undefined
}

export interface SlowestTimer extends Timer {
  /** Each once. */
  readonly asked: ReadonlyMap<string, AskedCall>
  /** How many times as long as here a call takes where it takes longest. */
  readonly slower: (kind: string, attrs: AnyAttrs, s: CallShapes, way?: number) => number
}

const median = (of: readonly number[]): number => [...of].sort((a, b) => a - b)[Math.floor(of.length / 2)] ?? 1

/** For unrequested calls, by kind and way: as those of the kind, or as any. */
const usual = ({ times }: Elsewhere): ((of: string) => number) => {
  const byKind = new Map<string, number[]>()
  for (const [key, n] of times) {
    if (n === Infinity) continue
    const of = key.slice(0, key.indexOf('('))
    byKind.set(of, [...(byKind.get(of) ?? []), n])
  }
  const all = median([...byKind.values()].flat())
  return (kind) => median(byKind.get(kind) ?? [all])
}

export const slowest = (own: Timer, float: Float, limits: SampleLimits, elsewhere: Elsewhere | undefined): SlowestTimer => {
  const asked = new Map<string, AskedCall>()
  const otherwise = elsewhere && elsewhere.times.size > 0 ? usual(elsewhere) : () => 1
  const slower = (kind: string, attrs: AnyAttrs, s: CallShapes, way = 0): number => {
    const sample = sampleOf(kind, attrs, s, float, limits)
    const key = keyOf(kind, sample, way)
    if (!asked.has(key)) asked.set(key, { kind, ...sample, way })
    return elsewhere?.times.get(key) ?? otherwise(kind)
  }
  return {
    asked,
    slower,
    seconds: (kind, attrs, s, way) => own.seconds(kind, attrs, s, way) * slower(kind, attrs, s, way),
    howKnown: (kind, attrs, s, way) => own.howKnown(kind, attrs, s, way),
    isNew: () => own.isNew(),
    spent: () => own.spent(),
    measureMore: (seconds) => own.measureMore(seconds),
  }
}

/** A way that a machine has not got is nobody's. */
const secondsBy =
  (own: Timer) =>
  (calls: readonly AskedCall[]): AnsweredSeconds =>
    calls.map(({ kind, attrs, s, way }) => {
      try {
        return own.seconds(kind, attrs, s, way)
      } catch (e) {
        if (way === 0) throw e
        return null
      }
    })

/** By less, two machines are alike. */
const SAME_WITHIN = 0.03
/** Room differs a little from moment to moment. */
const SAME_ROOM_WITHIN = 0.1

type Rates = Pick<Link, 'outBytesPerSecond' | 'inBytesPerSecond' | 'bytes' | 'writesPerSecond'>
const least = (a: number | undefined, b: number | undefined): number => Math.min(a ?? Infinity, b ?? Infinity)
const given = <K extends keyof Rates>(key: K, n: number): Partial<Record<K, number>> =>
  n === Infinity ? {} : ({ [key]: n } as Record<K, number>)

/** A link that is as slow, and has as little room, as any of two. */
const slowerLink = (a: Link, b: Link): Link => ({
  ...a,
  outBytesPerSecond: Math.min(a.outBytesPerSecond, b.outBytesPerSecond),
  inBytesPerSecond: Math.min(a.inBytesPerSecond, b.inBytesPerSecond),
  latencySeconds: Math.max(a.latencySeconds, b.latencySeconds),
  fullDuplex: a.fullDuplex && b.fullDuplex,
  ...(a.beside && b.beside
    ? { beside: { copies: Math.max(a.beside.copies, b.beside.copies), calls: Math.max(a.beside.calls, b.beside.calls) } }
    : {}),
  ...given('bytes', least(a.bytes, b.bytes)),
  ...given('writesPerSecond', least(a.writesPerSecond, b.writesPerSecond)),
  ...(a.beyond && b.beyond ? { beyond: slowerLink(a.beyond, b.beyond) } : {}),
})

/** The slowest of one's own link and those of others. */
export const slowestLink = (own: Link, elsewhere: Elsewhere | undefined): Link => (elsewhere?.links ?? []).reduce(slowerLink, own)

const linkDiffers = (a: Link, b: Link): boolean =>
  b.outBytesPerSecond < (1 - SAME_WITHIN) * a.outBytesPerSecond ||
  b.inBytesPerSecond < (1 - SAME_WITHIN) * a.inBytesPerSecond ||
  (b.bytes ?? Infinity) < (1 - SAME_ROOM_WITHIN) * (a.bytes ?? Infinity) ||
  (a.beyond !== undefined && b.beyond !== undefined && linkDiffers(a.beyond, b.beyond))

export const comparedBy = (
  kept: string,
  own: Timer,
  timer: SlowestTimer,
  link: Link,
  elsewhere: Elsewhere | undefined,
): Compared => ({
  kept,
  requested: () => [...timer.asked].flatMap(([key, call]) => (elsewhere?.times.has(key) ? [] : [call])),
  answer: (calls) => ({ seconds: secondsBy(own)(calls), link }),
  knowing: (calls, answers) => {
    const times = new Map(elsewhere?.times)
    let differs = answers.some((t) => linkDiffers(slowestLink(link, elsewhere), t.link))
    calls.forEach(({ kind, attrs, s, way }, i) => {
      const here = own.seconds(kind, attrs, s, way)
      const n = Math.max(1, ...answers.map(({ seconds }) => (seconds[i] === null ? Infinity : seconds[i]! / here)))
      times.set(keyOf(kind, { attrs, s }, way), n)
      differs ||= Math.abs(n / timer.slower(kind, attrs, s, way) - 1) > SAME_WITHIN
    })
    return differs ? { times, links: answers.map((t) => t.link) } : undefined
  },
})
