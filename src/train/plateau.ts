// The schedule that waits for a plateau: it lowers the learning rate when a metric stops improving, by the rules of PyTorch's ReduceLROnPlateau.
// In: the schedule, the metrics so far. Out: the reductions. Invariant: they depend on the metrics alone, which a checkpoint holds. So a
// resumed run has the rates of an uninterrupted one.
// Worked example, factor 0.1, patience 1, losses 3 2 2 2 at steps 4, 8, 12, 16: the factor is 0.1 after step 16.
import { lessIsBetter, type Measurement } from './measurement'

export interface Plateau {
  readonly kind: 'plateau'
  readonly factor: number
  readonly patience: number
  readonly threshold: number
  readonly cooldown: number
  readonly floor: number
  readonly metric: string
}

/** The factor of the learning rate after a step. */
export interface Reduction {
  readonly after: number
  readonly factor: number
}

const improves = ({ metric, threshold }: Plateau, value: number, best: number): boolean =>
  lessIsBetter(metric) ? value < best * (1 - threshold) : value > best * (1 + threshold)

/** The metrics without improvement, and those of the cooldown that are left. */
interface Waiting {
  readonly best: number
  readonly bad: number
  readonly cooldown: number
}

/** Returns the reductions by these metrics; none for other schedules. */
export const reductionsOf = (schedule: unknown, measured: readonly Measurement[]): readonly Reduction[] => {
  if (!isPlateau(schedule)) return []
  const found: Reduction[] = []
  let waiting: Waiting = { best: lessIsBetter(schedule.metric) ? Infinity : -Infinity, bad: 0, cooldown: 0 }
  for (const { step, metrics } of measured) {
    const value = metrics[schedule.metric] ?? Number.NaN
    const isBetter = improves(schedule, value, waiting.best)
    const isCooling = waiting.cooldown > 0
    const bad = isBetter || isCooling ? 0 : waiting.bad + 1
    const isEnough = bad > schedule.patience
    waiting = {
      best: isBetter ? value : waiting.best,
      bad: isEnough ? 0 : bad,
      cooldown: isEnough ? schedule.cooldown : Math.max(0, waiting.cooldown - 1),
    }
    const before = found.at(-1)?.factor ?? 1
    if (isEnough && before > schedule.floor)
      found.push({ after: step, factor: Math.max(schedule.floor, before * schedule.factor) })
  }
  return found
}

export const isPlateau = (schedule: unknown): schedule is Plateau =>
  typeof schedule === 'object' && schedule !== null && (schedule as Partial<Plateau>).kind === 'plateau'

/** The factor of a step, counted from 1. */
export const reducedAt = (reductions: readonly Reduction[], step: number): number =>
  reductions.filter(({ after }) => after < step).at(-1)?.factor ?? 1
