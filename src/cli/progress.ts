// The progress of a run, for people: a bar on a terminal, else a line a step. In: the run's events and tiles. Out: text. Invariant: `stop` restores
// the terminal, at any time.
import { SingleBar } from 'cli-progress'
import { type Plan, tilesOf } from '../../staging/plan/plan'
import { hearMeasuring } from '../machine/taught'
import { showSeconds } from '../report/format'
import type { DeviceProgress } from '../train/device'
import type { FitEvent, Started } from '../train/events'
import type { Output } from './output'

export interface Progress {
  readonly event: (e: FitEvent) => void
  readonly tile: (p: DeviceProgress) => void
  readonly stop: () => void
}

export const lossText = (loss: number): string => loss.toPrecision(6)
const rateText = (lr: number): string => `${Number(lr.toPrecision(3))}`

/** Which epoch a step is of, where epochs are more than a step each. */
const epochText = ({ steps, stepsPerEpoch = 1 }: Started, step: number): string => {
  if (stepsPerEpoch <= 1) return ''
  const at = (s: number): number => 1 + Math.floor((s - 1) / stepsPerEpoch + 1e-9)
  return `epoch ${at(step)}/${at(steps)}  `
}

export const metricsText = (metrics: Readonly<Record<string, number>>): string =>
  Object.entries(metrics)
    .map(([name, value]) => `${name} ${name === 'loss' ? lossText(value) : value.toFixed(4)}`)
    .join('  ')

/** The one that a bar has room for: the first beside the loss. */
const metricText = ({ loss = Number.NaN, ...metrics }: Readonly<Record<string, number>>): string => {
  const [first] = Object.entries(metrics)
  return first === undefined ? `evaluated ${lossText(loss)}` : `${first[0]} ${first[1].toFixed(4)}`
}

/** Columns of a terminal that has room for a long bar. */
const WIDE = 130

/** The line of an epoch. */
const eventLine = (e: FitEvent, { stepsPerEpoch = 1 }: Started): string | undefined => {
  if (e.kind === 'evaluation') {
    const at = e.epoch === 0 ? `step ${e.step}` : `epoch ${e.epoch}`
    return `${at}  evaluated  ${metricsText(e.metrics)}${e.isBest ? '  (best so far)' : ''}`
  }
  return e.kind === 'epoch' && stepsPerEpoch > 1 ? `epoch ${e.epoch}  mean loss ${lossText(e.loss)}` : undefined
}

const NOT_STARTED: Started = { kind: 'start', stepsDone: 0, steps: 0 }

/** Parts of a count that are printed where no terminal shows one line. */
const PARTS = 10

/** Images that are done: one line that changes in a terminal, else a line per tenth; every power of ten, if the total is unknown. */
export const countLines = (out: Output): ((done: number, all: number | undefined) => void) => {
  let before = 0
  return (done, all) => {
    const text = all === undefined ? `${done}` : `${done} of ${all}`
    const part = (n: number): number => (all === undefined ? Math.floor(Math.log10(n || 1)) : Math.floor((PARTS * n) / all))
    if (out.stream.isTTY) out.stream.write(`\r${text}${done === all ? '\n' : ''}`)
    else if (before === 0 || part(done) > part(before)) out.say(text)
    before = done
  }
}

/** Clears the line from the cursor on. */
const CLEAR = '\x1b[K'

/** Runs planning, and shows the measurements before it on one line of the terminal. The line is cleared at the end. */
export const withMeasuring = <A>(work: () => Promise<A>, stream: NodeJS.WriteStream = process.stderr): Promise<A> => {
  if (!stream.isTTY) return work()
  let isShown = false
  hearMeasuring((calls, seconds, most) => {
    isShown = true
    stream.write(`\rmeasuring this machine: ${calls} calls, ${seconds.toFixed(1)} s of at most ${showSeconds(most)}${CLEAR}`)
  })
  return work().finally(() => {
    hearMeasuring(undefined)
    if (isShown) stream.write(`\r${CLEAR}`)
  })
}

/** One line a step. */
export const plainLines = (out: Output): Progress => {
  let start = NOT_STARTED
  return {
    event: (e) => {
      if (e.kind === 'start') start = e
      if (e.kind === 'step')
        out.say(
          `step ${e.step}/${start.steps}  ${epochText(start, e.step)}loss ${lossText(e.loss)}  rate ${rateText(e.lr)}  ${showSeconds(e.seconds)}`,
        )
      const line = eventLine(e, start)
      if (line !== undefined) out.say(line)
    },
    tile: () => {},
    stop: () => {},
  }
}

/** A bar that moves with every tile; lines of epochs stay above it. */
export const bar = (out: Output, { segments }: Plan): Progress => {
  const before = segments.map((_, i) => segments.slice(0, i).reduce((n, s) => n + tilesOf(s.grid), 0))
  const perStep = segments.reduce((n, s) => n + tilesOf(s.grid), 0)
  const drawn = new SingleBar({
    stream: out.stream,
    hideCursor: true,
    clearOnComplete: true,
    etaBuffer: 30,
    // The part that a narrow terminal cuts off is last.
    barsize: (out.stream.columns ?? 80) < WIDE ? 16 : 40,
    format: '{epoch}step {step}/{steps} {bar} {percentage}%  {eta_formatted} left  loss {loss}{metric}  rate {rate}',
  })
  let start = NOT_STARTED
  let shown = { epoch: '', step: 0, steps: 0, loss: '…', metric: '', rate: '…' }
  let isOver = false
  const at = (tiles: number): void => {
    if (isOver) return
    if (drawn.isActive) drawn.update(tiles, shown)
    else drawn.start(start.steps * perStep, tiles, shown)
  }
  const above = (line: string): void => {
    const wasActive = drawn.isActive
    if (wasActive) drawn.stop()
    out.say(line)
    if (wasActive) at(shown.step * perStep)
  }
  return {
    event: (e) => {
      if (e.kind === 'start') start = e
      if (e.kind === 'step') {
        shown = {
          ...shown,
          epoch: epochText(start, e.step),
          step: e.step,
          steps: start.steps,
          loss: lossText(e.loss),
          rate: rateText(e.lr),
        }
        at(e.step * perStep)
      }
      if (e.kind === 'evaluation') shown = { ...shown, metric: `  ${metricText(e.metrics)}` }
      const line = eventLine(e, start)
      if (line !== undefined) above(line)
    },
    tile: (p) => {
      if (p.kind !== 'tile') return
      shown = { ...shown, epoch: epochText(start, p.step), step: p.step, steps: start.steps }
      at((p.step - 1) * perStep + before[p.segment]! + p.tile)
    },
    stop: () => {
      isOver = true
      if (drawn.isActive) drawn.stop()
    },
  }
}
