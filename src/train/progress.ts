// The progress of a run as lines of text. In: the events of the run. Out: a line per epoch, or per step if an epoch is one step. Scripts print it on
// stderr unless the caller takes notes or progress; commands print it outside terminals.
import type { Plan } from '../../staging/plan/plan'
import { showSeconds, significant } from '../report/format'
import { batchOf } from './beforehand'
import type { DeviceProgress } from './device'
import type { FitEvent, Started } from './events'

export interface Progress {
  readonly event: (e: FitEvent) => void
  readonly tile: (p: DeviceProgress) => void
  /** Prints beside the progress. */
  readonly above: (print: () => void) => void
  readonly stop: () => void
}

export const lossText = (loss: number): string => loss.toPrecision(6)
export const rateText = (lr: number): string => `${Number(lr.toPrecision(3))}`

/** Which epoch a step is of, where epochs are more than a step each. */
export const epochText = ({ steps, stepsPerEpoch = 1 }: Started, step: number): string => {
  if (stepsPerEpoch <= 1) return ''
  const at = (s: number): number => 1 + Math.floor((s - 1) / stepsPerEpoch + 1e-9)
  return `epoch ${at(step)}/${at(steps)}  `
}

export const metricsText = (metrics: Readonly<Record<string, number>>): string =>
  Object.entries(metrics)
    .map(([name, value]) => `${name} ${name === 'loss' ? lossText(value) : value.toFixed(4)}`)
    .join('  ')

/** The line of an epoch. */
export const eventLine = (e: FitEvent, { stepsPerEpoch = 1 }: Started): string | undefined => {
  if (e.kind === 'evaluation') {
    const at = e.epoch === 0 ? `step ${e.step}` : `epoch ${e.epoch}`
    return `${at}  evaluated  ${metricsText(e.metrics)}${e.isBest ? '  (best so far)' : ''}`
  }
  return e.kind === 'epoch' && stepsPerEpoch > 1 ? `epoch ${e.epoch}  mean loss ${lossText(e.loss)}` : undefined
}

export const NOT_STARTED: Started = { kind: 'start', stepsDone: 0, steps: 0 }

/** One line per epoch, or per step if an epoch is one step: of steps at most this number of lines. */
export const plainLines = (say: (text: string) => void, { graph }: Plan, mostLines = Infinity): Progress => {
  const speed = new Speed(batchOf(graph))
  let start = NOT_STARTED
  let rate = ''
  const isShown = (step: number): boolean => {
    const every = Math.ceil(start.steps / mostLines)
    return every <= 1 || step % every === 0 || step === start.steps
  }
  return {
    event: (e) => {
      if (e.kind === 'start') start = e
      const isWhole = (start.stepsPerEpoch ?? 1) <= 1
      if (e.kind === 'step') {
        speed.took(e.seconds)
        rate = `rate ${rateText(e.lr)}  ${isWhole ? showSeconds(e.seconds) : speed.text()}`
        if (isWhole && isShown(e.step)) say(`step ${e.step}/${start.steps}  loss ${lossText(e.loss)}  ${rate}`)
      }
      if (e.kind === 'epoch' && !isWhole)
        say(`step ${e.step}/${start.steps}  ${epochText(start, e.step)}mean loss ${lossText(e.loss)}  ${rate}`)
      const line = e.kind === 'evaluation' ? eventLine(e, start) : undefined
      if (line !== undefined) say(line)
    },
    tile: () => {},
    above: (print) => print(),
    stop: () => {},
  }
}

/** Images per second, over the last steps. */
export class Speed {
  private readonly seconds: number[] = []

  constructor(private readonly batch: number) {}

  took(seconds: number): void {
    this.seconds.push(seconds)
    if (this.seconds.length > RECENT) this.seconds.shift()
  }

  text(): string {
    const sum = this.seconds.reduce((a, b) => a + b, 0)
    return sum > 0 ? `${significant((this.batch * this.seconds.length) / sum, 3)} images/s` : ''
  }
}
const RECENT = 10

/** Lines of a script's run whose steps are no epochs. */
const MOST_LINES = 20

/** The progress of a script's run on stderr; nothing if the caller takes notes or progress. */
export const scriptProgress = (
  staged: { readonly plan: Plan },
  { onNote, onProgress }: { readonly onNote?: unknown; readonly onProgress?: unknown },
): ((e: FitEvent) => void) => {
  if ((onNote ?? onProgress) !== undefined) return () => {}
  const say = (text: string): void => void process.stderr.write(`${text}\n`)
  let lines: Progress | undefined
  // The plan is checked before the first event.
  return (e) => {
    lines ??= plainLines(say, staged.plan, MOST_LINES)
    lines.event(e)
  }
}
