// Notes on losses that show a mistake. In: the losses of a run, the facts of its plan. Out: a note with a cure, at most one per mistake.
// Invariant: notes change nothing. A note states a fact about the losses; the cure is a proposal.
// Worked example, three classes: the loss begins at 1.1, jumps to 224 and stays near 2. A guess has ln 3 = 1.1, so the rate is too high.
import type { Graph } from '../../staging/graph/graph'
import { ignoredIn } from '../../staging/ops/lossofgraph'
import type { Loss } from '../../staging/ops/losses'
import { lossIn, ratesIn } from '../stage/identity'
import { type Epochs, epochsAt, meanLoss } from './length'

/** Facts of a plan that losses are compared with. */
export interface LossFacts {
  /** Loss of equal scores for all classes; undefined for losses of numbers. */
  readonly guess?: number
  /** Label that does not count. */
  readonly ignored?: number
  /** The largest learning rate. */
  readonly rate: number
}

const OF_CLASSES: readonly unknown[] = ['cross-entropy', 'soft-cross-entropy']
const kindOf = (l: Loss): string => (typeof l === 'string' ? l : l.kind)

const guessIn = (graph: Graph): number | undefined => {
  const loss = lossIn(graph)
  const kind = loss && kindOf(loss)
  if (kind === 'bce-with-logits') return Math.log(2)
  if (!OF_CLASSES.includes(kind)) return undefined
  const op = graph.ops.find((o) => o.phase === 'loss' && graph.values[o.outs[0]!]!.role === 'loss')
  const classes = op && graph.values[op.ins[0]!]!.shape[1]
  return classes === undefined || classes < 2 ? undefined : Math.log(classes)
}

export const lossFacts = (graph: Graph): LossFacts => {
  const guess = guessIn(graph)
  const ignored = graph.ops.map((o) => (o.phase === 'loss' ? ignoredIn(o.attrs) : undefined)).find((i) => i !== undefined)
  return {
    ...(guess === undefined ? {} : { guess }),
    ...(ignored === undefined ? {} : { ignored }),
    rate: Math.max(0, ...ratesIn(graph)),
  }
}

// ---------------------------------------------------------------- cures

const short = (x: number): string => `${Number(x.toPrecision(3))}`

/** Cure for a rate that is too high. */
export const lowerRate = (rate: number): string =>
  `the learning rate of ${short(rate)} may be too high: try ${short(rate / 10)} (--lr, lr), a warm-up (--warmup, warmup) or a limit on gradients (--clip-norm 1, clipNorm: 1)`

/** The default of `sgd`; rates below it are raised to it. */
const USUAL_RATE = 1e-3
const higherRate = (rate: number): string =>
  `the learning rate of ${short(rate)} may be too low: try ${short(rate < USUAL_RATE ? USUAL_RATE : 10 * rate)} (--lr, lr)`

// ---------------------------------------------------------------- mistakes

const mean = (losses: readonly number[]): number => losses.reduce((n, l) => n + l, 0) / losses.length

/** Fewer steps have quarters of one step, whose loss depends on its samples. */
const LEAST_STEPS = 8
/** A right run ends with a lower loss than it began with; a factor of ten is no noise of samples. */
const GROWN = 10
/** Share of the loss of a guess. A run that has learned anything has a lower loss. */
const NEAR_GUESS = 0.9
/** Change of a mean over the same samples that rounding, dropout and augmentation may cause. */
const UNMOVED = 1e-3

const largest = (losses: readonly number[]): number => losses.reduce((n, l) => Math.max(n, l), 0)

/** The loss has grown; or it has jumped, and is no better than a guess since, or far above the loss of the first step. */
export const grownNote = (losses: readonly number[], { guess, rate }: LossFacts): string | undefined => {
  if (losses.length < LEAST_STEPS || losses.some((l) => l < 0)) return undefined
  const quarter = Math.floor(losses.length / 4)
  const [begin, end, first] = [losses.slice(0, quarter), losses.slice(-quarter), losses[0]!]
  const last = mean(end)
  if (first > 0 && last > GROWN * mean(begin))
    return `the loss rose from ${short(mean(begin))} to ${short(last)}: ${lowerRate(rate)}`
  const top = largest(losses)
  const jumped = `the loss jumped from ${short(first)} to ${short(top)} in step ${losses.indexOf(top) + 1}, and is ${short(last)} now`
  if (guess !== undefined)
    return top > GROWN * Math.max(guess, first) && last > NEAR_GUESS * guess
      ? `${jumped}, where a guess has ${short(guess)}: ${lowerRate(rate)}`
      : undefined
  // Samples with a large loss would have one at the end, too.
  return first > 0 && last > GROWN * first && top > GROWN * largest(end) ? `${jumped}: ${lowerRate(rate)}` : undefined
}

/** Only ignored labels: then the loss is exactly 0, which no scores reach. */
export const ignoredNote = (losses: readonly number[], { ignored }: LossFacts): string | undefined =>
  ignored !== undefined && losses.length > 0 && losses.every((l) => l === 0)
    ? `the loss is 0 in every step: all labels are ${ignored}, which is ignored; check the labels, or set another ignored label (--ignore-index, ignoreIndex)`
    : undefined

const epochMeans = (losses: readonly number[], epochs: Epochs): readonly number[] =>
  Array.from({ length: epochsAt(epochs, losses.length) }, (_, i) => meanLoss(losses, epochs, i + 1))

/** The loss of equal samples has not changed. */
export const unmovedNote = (
  losses: readonly number[],
  { epochs, evaluated }: Course,
  { rate }: LossFacts,
): string | undefined => {
  const means = evaluated.length > 1 ? evaluated : epochs ? epochMeans(losses, epochs) : []
  const [first, last] = [means[0] ?? 0, means.at(-1) ?? 0]
  return means.length < 2 || first === 0 || !means.every((m) => Math.abs(m - first) < UNMOVED * Math.abs(first))
    ? undefined
    : `the loss has not moved: ${short(first)} after the first epoch, ${short(last)} after the last: ${higherRate(rate)}`
}

// ---------------------------------------------------------------- during a run

export interface Course {
  readonly epochs: Epochs | undefined
  /** Losses on the data of evaluations. */
  readonly evaluated: readonly number[]
}

export interface LossWatch {
  readonly stepped: (losses: readonly number[]) => void
  /** The run has ended without an error. */
  readonly ended: (losses: readonly number[], course: Course) => void
}

/** Steps before the first look: a trial of few steps need not learn. The next looks follow whenever the number of steps has doubled. */
const FIRST_LOOK = 16

/** Facts of a run beside its plan. */
interface RunFacts {
  /** All weights come from a file, so the loss may be at its minimum, or samples are synthetic. */
  readonly mayStay: boolean
  /** Ignored labels have been reported. */
  readonly areLabelsKnown: boolean
}

export const lossWatch = (graph: Graph, { mayStay, areLabelsKnown }: RunFacts, note: (text: string) => void): LossWatch => {
  const facts = lossFacts(graph)
  // A step of several objectives has no loss of its own.
  const isOne = graph.values.filter((v) => v.role === 'loss').length === 1
  let isSilent = !isOne || facts.rate === 0
  const say = (text: string | undefined): void => {
    if (text === undefined || isSilent) return
    isSilent = true
    note(text)
  }
  const looked = (losses: readonly number[]): void =>
    say((areLabelsKnown ? undefined : ignoredNote(losses, facts)) ?? grownNote(losses, facts))
  return {
    stepped: (losses) => {
      const n = losses.length
      if (n >= FIRST_LOOK && Number.isInteger(Math.log2(n / FIRST_LOOK))) looked(losses)
    },
    ended: (losses, course) => {
      looked(losses)
      if (!mayStay && losses.length >= FIRST_LOOK) say(unmovedNote(losses, course, facts))
    },
  }
}
