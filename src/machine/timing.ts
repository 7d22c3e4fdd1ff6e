// How long a call takes on this machine. In: a call's shapes. Out: seconds, from a call of the same kind and channels that
// was measured at a size of its own or, when that is large, at a smaller one and scaled by the work.
// Invariant: sizes are rounded down to few steps, so that all tiles of a layer share a handful of measurements.
import { DIMS, elementsOf, extentOf } from '../../staging/core/box'
import { dtypeBytes, type Float } from '../../staging/graph/graph'
import {
  type Access,
  type AnyAttrs,
  type CallShapes,
  comesLaid,
  inputDef,
  type OperandDef,
  sigmaDelta,
  touched,
} from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import { type NativeCall, nativeCall, operandType } from './operands'

/** Large enough to leave the caches as a real call does, small enough to be measured in milliseconds. */
export interface SampleLimits {
  readonly bytes: number
  readonly flops: number
  /** After this time of measuring in one process, unknown times are estimated from known ones. */
  readonly patienceSeconds: number
  /** The device itself measures the time: other work on the host makes no call slow. */
  readonly trusted?: boolean
}
export const CPU_SAMPLES: SampleLimits = { bytes: 64 * 1024 ** 2, flops: 1.6e10, patienceSeconds: 12 }
/** A GPU fills its processors only with calls of the size that runs have. */
export const GPU_SAMPLES: SampleLimits = { bytes: 512 * 1024 ** 2, flops: 1e12, patienceSeconds: 25, trusted: true }
/** Batches are cut before rows, rows before columns; fewer rows or columns than these would be another kind of call. */
const FEWEST = { 0: 1, 2: 8, 3: 32 } as const

// ---------------------------------------------------------------- work

export const callBytes = (kind: string, s: CallShapes, float: Float): number => {
  const def = opDef(kind)
  const bytes = (o: OperandDef, x: readonly number[]): number => elementsOf(x) * dtypeBytes[operandType(def, o, s, float)]
  return (
    s.ins.reduce((n, x, i) => n + bytes(inputDef(def, i), x), 0) +
    s.outs.reduce((n, x, i) => n + bytes(def.outs[Math.min(i, def.outs.length - 1)]!, x), 0)
  )
}

/** Dense operators (convolutions, products) are bound by arithmetic, all others by memory. */
const workOf = (kind: string, attrs: AnyAttrs, s: CallShapes, float: Float): number =>
  opDef(kind).dense ? Math.max(1, opDef(kind).flops(attrs, s)) : Math.max(1, callBytes(kind, s, float))

/** The slowest time of a call on an idle machine. A longer one was disturbed: it counts as this, and as known roughly. */
export const slowestSeconds = (kind: string, attrs: AnyAttrs, s: CallShapes, float: Float): number =>
  1e-4 + opDef(kind).flops(attrs, s) / (float === 'f32' ? 2e10 : 2e8) + callBytes(kind, s, float) / 5e8

// ---------------------------------------------------------------- a smaller call of the same kind

/** Small sizes as they are, others to an eighth: whole images of usual sizes are timed exactly, tiles share samples. */
const EXACT_SIZE = 32
export const roundedDown = (n: number): number => {
  const step = Math.max(1, 2 ** Math.floor(Math.log2(n)) / 8)
  return n <= EXACT_SIZE ? n : Math.floor(n / step) * step
}

/** The next below `n` of 1, 2, 3, 4, 6, 8, 12, 16, 24, …: each cut of any size ends at one of these. */
const smaller = (n: number): number => {
  const power = 2 ** Math.floor(Math.log2(n - 1))
  return power >= 2 && n > 1.5 * power ? 1.5 * power : power
}

/** Rows that windows cover, over those that there are. */
const MOSTLY_PADDING = 1.25

/** The measured call in place of a call. */
export interface Sample {
  readonly attrs: AnyAttrs
  readonly s: CallShapes
}

/**
 * With fewer rows, windows whose positions are `n` rows apart are fewer apart by as much: as many rows meet padding, and as many meet
 * one another's, as in the whole call. Worked example: 64 of 512 columns at dilation 24 are taken at dilation 3.
 */
const nearer = (attrs: AnyAttrs, dim: 2 | 3, from: number, to: number): AnyAttrs => {
  const [dilation, ...paddings] = dim === 2 ? ['dilationH', 'padTop', 'padBottom'] : ['dilationW', 'padLeft', 'padRight']
  const apart = attrs[dilation!] ?? 1
  if (apart === 1 || from === to) return attrs
  const near = Math.max(1, Math.round((apart * to) / from))
  return Object.fromEntries(
    Object.entries(attrs).map(([name, n]) => [
      name,
      name === dilation ? near : paddings.includes(name) ? Math.round((n * near) / apart) : n,
    ]),
  ) as AnyAttrs
}

/** Rows (or columns) of a call cut from `from` to `to`; windows that were `whole` are now `access`. */
const shrunk = (whole: Access | undefined, access: Access | undefined, held: number, from: number, to: number): number => {
  if (access?.tag === 'same') return held === from ? to : held
  if (access?.tag === 'inside') return Math.max(1, Math.round((held * to) / from))
  if (access?.tag === 'window') {
    // A tile from inside the image: its time is that of one at the border, and one measurement serves both. But where windows lie
    // mostly in the padding, an image is another call.
    const covered = whole?.tag === 'window' ? (from - 1) * whole.stride + whole.reach : 0
    return covered > MOSTLY_PADDING * held ? Math.max(1, Math.round((held * to) / from)) : (to - 1) * access.stride + access.reach
  }
  // The others are cut to the part that the first rows of the image meet.
  if (access && sigmaDelta(access)) return extentOf(touched(access, [0, to], Number.POSITIVE_INFINITY))
  return held
}

/** How its operands are stored: in a smaller call as in the call. */
const storedOf = (s: CallShapes): Pick<CallShapes, 'half' | 'laid'> => ({
  ...(s.half ? { half: s.half } : {}),
  ...(s.laid ? { laid: true } : {}),
})

/** The call with its iteration along one dimension cut to `to`. */
const cut = (kind: string, { attrs, s }: Sample, dim: 0 | 2 | 3, to: number): Sample => {
  const def = opDef(kind)
  const from = (def.anchor === 'out' ? s.outs[0] : s.ins[def.anchor])?.[dim] ?? 1
  const near = dim === 0 ? attrs : nearer(attrs, dim, from, to)
  const one = (o: OperandDef, shape: readonly number[]): readonly number[] =>
    shape.length !== 4 || !o.access
      ? shape
      : shape.map((n, i) => (i === dim ? shrunk(o.access!(attrs, s)[DIMS[dim]], o.access!(near, s)[DIMS[dim]], n, from, to) : n))
  const ins = s.ins.map((x, i) => one(inputDef(def, i), x))
  const outs = s.outs.map((x, i) => one(def.outs[Math.min(i, def.outs.length - 1)]!, x))
  return { attrs: near, s: { ...storedOf(s), ins, outs } }
}

/** Operators over whole tensors alone (the update phase) have no tiles; they are cut to a vector of as much work. */
const cutWhole = (kind: string, s: CallShapes, float: Float, limits: SampleLimits): CallShapes => {
  const ratio = callBytes(kind, s, float) / limits.bytes
  if (ratio <= 1) return s
  // A weight that is laid out has fewer channels; all else is a vector.
  const laid = opDef(kind).outs[0]?.laid
  const one = (x: readonly number[]): readonly number[] =>
    laid ? [Math.max(1, Math.floor(x[0]! / ratio)), ...x.slice(1)] : [Math.max(1, Math.floor(elementsOf(x) / ratio))]
  return { ...storedOf(s), ins: s.ins.map(one), outs: s.outs.map(one) }
}

export const sampleOf = (
  kind: string,
  attrs: AnyAttrs,
  s: CallShapes,
  float: Float,
  limits: SampleLimits = CPU_SAMPLES,
): Sample => {
  const def = opDef(kind)
  const anchor = def.anchor === 'out' ? s.outs[0] : s.ins[def.anchor]
  const anchorDef = def.anchor === 'out' ? def.outs[0] : inputDef(def, def.anchor)
  if (!anchor || anchorDef?.role !== 'data' || anchor.length !== 4) return { attrs, s: cutWhole(kind, s, float, limits) }
  let sample: Sample = { attrs, s }
  for (const dim of [0, 2, 3] as const) sample = cut(kind, sample, dim, roundedDown(anchor[dim]!))
  const tooMuch = (): boolean =>
    callBytes(kind, sample.s, float) > limits.bytes || (def.dense === true && def.flops(sample.attrs, sample.s) > limits.flops)
  for (const dim of [0, 2, 3] as const)
    for (let n = roundedDown(anchor[dim]!); n > FEWEST[dim] && tooMuch(); ) {
      n = Math.max(FEWEST[dim], smaller(n))
      sample = cut(kind, sample, dim, n)
    }
  return sample
}

// ---------------------------------------------------------------- measurements

/** Seconds by key; a profile is read from and written to a file of the machine and version. */
export type Measurements = Map<string, number>

/** Attributes tell on the time as far as they show in shapes and windows (a count or a learning rate does not). */
export const timeKey = (kind: string, attrs: AnyAttrs, s: CallShapes): string => {
  const def = opDef(kind)
  const window = (o: OperandDef): string => {
    const m = o.access?.(attrs, s)
    return m
      ? [m.H, m.W].map((a) => (a.tag === 'window' || a.tag === 'transposed' ? `${a.stride}.${a.pad}.${a.reach}` : '')).join('/')
      : ''
  }
  const sizes = (shapes: readonly (readonly number[])[]): string => shapes.map((x) => x.join('x')).join()
  return `${kind}(${[...def.ins, ...def.outs]
    .map(window)
    .filter((w) => w !== '/' && w !== '')
    .join()})${sizes(s.ins)}>${sizes(s.outs)}${comesLaid(def, s) ? ' laid' : ''}`
}

export const wayText = (way: number, s: CallShapes): string => `${way === 0 ? '' : ` way ${way}`}${s.half ? ` ${s.half}` : ''}`

/** The key of a call's time. */
export const keyOf = (kind: string, { attrs, s }: Sample, way: number): string => timeKey(kind, attrs, s) + wayText(way, s)

/** The source of a time: its call or its like, measured; measured beside other work; or the times of other calls. */
export type HowKnown = 'measured' | 'roughly' | 'estimated'

export interface Timer {
  readonly seconds: (kind: string, attrs: AnyAttrs, s: CallShapes, way?: number) => number
  readonly howKnown: (kind: string, attrs: AnyAttrs, s: CallShapes, way?: number) => HowKnown
  /** Returns true if the timer has a new measurement. */
  readonly isNew: () => boolean
  /** Seconds that measuring took. */
  readonly spent: () => number
  /** Measures estimated calls, requested ones first, for this number of seconds. */
  readonly measureMore: (seconds: number) => void
}

/** A call that was timed in this process, for estimates of others when there is no time left to measure. */
interface Seen {
  readonly sizes: readonly number[]
  /** How many times as long as is stated. */
  readonly ratio: number
}

/** The distance of two calls of a kind: the sum of the factors between their sizes. */
const distance = (a: readonly number[], b: readonly number[]): number =>
  a.length !== b.length ? Infinity : a.reduce((sum, n, i) => sum + Math.abs(Math.log(n / b[i]!)), 0)

const sizesOf = (s: CallShapes): readonly number[] => [...s.ins, ...s.outs].flat()

/** The input whose bytes the first output may take over in a plan: it is then written in the caches. */
export const takenOver = (kind: string, s: CallShapes): number | undefined =>
  opDef(kind).inPlace?.find((i) => s.ins[i]?.join() === s.outs[0]?.join())

/** Times a call; `quiet`: nothing else ran in its way. */
export type Measure = (
  call: NativeCall,
  way: number,
  inPlace: number | undefined,
) => { readonly seconds: number; readonly quiet: boolean }

/** The time of a way whose engine has a fault: no plan takes it, and a profile remembers it. */
export const FAULTY_SECONDS = 1e6

/** Times of calls beside which something else ran: they serve until the machine is quiet. */
export interface RoughTimes {
  readonly seconds: Measurements
  /** Returns true if the machine is quiet now, so that measuring again is worth it. */
  readonly mayBeBetter: () => boolean
}

/** The seconds of one process for measuring roughly known calls again. */
const BETTER_SECONDS = 1

/** The estimates of calls without a measurement. */
export interface Guesses {
  /** The stated times of calls, in a unit of its own without `isInScale`. */
  readonly stated: (kind: string, attrs: AnyAttrs, s: CallShapes, way: number) => number
  /** Seconds of a usual machine: how much faster or slower this one is, two calls tell. */
  readonly isInScale?: boolean
  /** The time of this very call in steps that were run. */
  readonly inSteps?: (key: string) => number | undefined
}

const SQUARE = (c: number, n: number): readonly number[] => [1, c, n, n]
const SAME_SIZE = {
  strideH: 1,
  strideW: 1,
  padTop: 1,
  padLeft: 1,
  padBottom: 1,
  padRight: 1,
  dilationH: 1,
  dilationW: 1,
  groups: 1,
}
const COPY = { kind: 'copy', attrs: {}, s: { ins: [SQUARE(64, 256)], outs: [SQUARE(64, 256)] } }
/** The calls that tell how fast a machine is: at arithmetic, and at its memory. */
const SCALES = [COPY, { kind: 'conv2d', attrs: SAME_SIZE, s: { ins: [SQUARE(64, 58), [64, 64, 3, 3]], outs: [SQUARE(64, 56)] } }]

class MeasuringTimer implements Timer {
  private readonly seen = new Map<string, Seen[]>()
  private readonly guessed = new Map<string, () => void>()
  private measuring = 0
  private fresh = false
  /** Roughly known calls that this process has measured itself: once must do. */
  private readonly triedAgain = new Set<string>()

  constructor(
    private readonly known: Measurements,
    private readonly rough: RoughTimes,
    private readonly measure: Measure,
    private readonly float: Float,
    private readonly limits: SampleLimits,
    private readonly guesses: Guesses,
  ) {}

  isNew(): boolean {
    return this.fresh
  }

  spent(): number {
    return this.measuring
  }

  measureMore(seconds: number): void {
    const until = this.measuring + seconds
    for (const [key, measure] of this.guessed) {
      if (this.measuring >= until) return
      measure()
      this.guessed.delete(key)
    }
  }

  howKnown(kind: string, attrs: AnyAttrs, s: CallShapes, way = 0): HowKnown {
    const sample = sampleOf(kind, attrs, s, this.float, this.limits)
    const key = keyOf(kind, sample, way)
    if (this.known.has(key) || this.inSteps(kind, attrs, s, way) !== undefined) return 'measured'
    return this.rough.seconds.has(key) || this.isHuge(kind, sample.s) ? 'roughly' : 'estimated'
  }

  seconds(kind: string, attrs: AnyAttrs, s: CallShapes, way = 0): number {
    const sample = sampleOf(kind, attrs, s, this.float, this.limits)
    // A product with huge weights cannot be made smaller: it reads them once, at the speed of a copy.
    if (this.isHuge(kind, sample.s))
      return (callBytes(kind, s, this.float) * this.measuredSeconds(COPY)) / callBytes('copy', COPY.s, this.float)
    const times = Math.max(1, workOf(kind, attrs, s, this.float) / workOf(kind, sample.attrs, sample.s, this.float))
    const of = kind + wayText(way, sample.s)
    const key = keyOf(kind, sample, way)
    const stated = this.guesses.stated(kind, sample.attrs, sample.s, way)
    const before = this.known.get(key) ?? this.roughly(key)
    if (before === undefined && this.measuring > this.limits.patienceSeconds) {
      const ratio = this.nearest(of, sample.s) ?? this.scale(kind)
      const guess = this.inSteps(kind, attrs, s, way) ?? (ratio && stated * ratio * times)
      if (guess !== undefined) {
        this.guessed.set(key, () => this.measured(key, kind, sample, way))
        return guess
      }
    }
    const seconds = before ?? this.measured(key, kind, sample, way)
    if (seconds >= FAULTY_SECONDS) return seconds
    const others = this.seen.get(of) ?? []
    others.push({ sizes: sizesOf(sample.s), ratio: seconds / stated })
    this.seen.set(of, others)
    return seconds * times
  }

  private isHuge(kind: string, sample: CallShapes): boolean {
    return callBytes(kind, sample, this.float) > 4 * this.limits.bytes
  }

  private inSteps(kind: string, attrs: AnyAttrs, s: CallShapes, way: number): number | undefined {
    return this.guesses.inSteps?.(timeKey(kind, attrs, s) + wayText(way, s))
  }

  private measured(key: string, kind: string, { attrs, s }: Sample, way: number): number {
    const t0 = performance.now()
    const { seconds, quiet } = this.measure(nativeCall(kind, attrs, s, this.float), way, takenOver(kind, s))
    this.measuring += (performance.now() - t0) / 1000
    const slowest = this.limits.trusted ? Infinity : slowestSeconds(kind, attrs, s, this.float)
    const keep = quiet && seconds <= slowest
    this.triedAgain.add(key)
    this.fresh = true
    if (!keep) {
      // Other work of a machine only adds to a time.
      const best = Math.min(seconds, slowest, this.rough.seconds.get(key) ?? Infinity)
      this.rough.seconds.set(key, best)
      return best
    }
    this.known.set(key, seconds)
    this.rough.seconds.delete(key)
    return seconds
  }

  /** The time measured beside other work; nothing if a better measurement is possible now. */
  private roughly(key: string): number | undefined {
    const better = !this.triedAgain.has(key) && this.measuring <= BETTER_SECONDS
    return better && this.rough.seconds.has(key) && this.rough.mayBeBetter() ? undefined : this.rough.seconds.get(key)
  }

  /** The time of the most similar call of the same kind and way. */
  private nearest(of: string, sample: CallShapes): number | undefined {
    const sizes = sizesOf(sample)
    let ratio: number | undefined
    let least = Infinity
    for (const one of this.seen.get(of) ?? []) {
      const d = distance(sizes, one.sizes)
      if (d < least) [ratio, least] = [one.ratio, d]
    }
    return ratio
  }

  /** The scale from one of the two calls, which are measured if they are unknown. */
  private scale(kind: string): number | undefined {
    if (!this.guesses.isInScale) return undefined
    const like = SCALES.find((c) => opDef(c.kind).dense === opDef(kind).dense) ?? COPY
    return this.measuredSeconds(like) / this.guesses.stated(like.kind, like.attrs, like.s, 0)
  }

  private measuredSeconds({ kind, attrs, s }: (typeof SCALES)[number]): number {
    const key = timeKey(kind, attrs, s)
    return this.known.get(key) ?? this.roughly(key) ?? this.measured(key, kind, { attrs, s }, 0)
  }
}

/** If no rough measurements are kept. */
const ALL_ANEW = (): RoughTimes => ({ seconds: new Map(), mayBeBetter: () => false })

export const timer = (
  known: Measurements,
  measure: Measure,
  float: Float,
  limits: SampleLimits = CPU_SAMPLES,
  rough: RoughTimes = ALL_ANEW(),
  guesses: Guesses = { stated: (kind, attrs, s) => workOf(kind, attrs, s, float) },
): Timer => new MeasuringTimer(known, rough, measure, float, limits, guesses)
