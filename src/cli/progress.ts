// The progress of a run, for people: a bar on a terminal, else a line per epoch. In: the run's events and tiles. Out: text. Invariant: `stop`
// restores the terminal, at any time; no line of the bar is wider than the terminal.
import { type Params, SingleBar } from 'cli-progress'
import { bytesOf, pagesIn } from '../../staging/core/bytes'
import { type Plan, tilesOf } from '../../staging/plan/plan'
import { showSeconds, showSize } from '../report/format'
import { batchOf } from '../train/beforehand'
import { epochText, eventLine, lossText, NOT_STARTED, plainLines, type Progress, rateText, Speed } from '../train/progress'
import { type Environment, LiveLine, takesControls, takesLive } from './live'
import type { Output } from './output'

/** The one that a bar has room for: the first beside the loss. */
const metricText = ({ loss = Number.NaN, ...metrics }: Readonly<Record<string, number>>): string => {
  const [first] = Object.entries(metrics)
  return first === undefined ? `evaluated ${lossText(loss)}` : `${first[0]} ${first[1].toFixed(4)}`
}

/** Parts of a count that are printed where no terminal shows one line. */
const PARTS = 10

/** Images that are done: one line that changes in a terminal, else a line per tenth; every power of ten, if the total is unknown. */
export const countLines = (out: Output, env: Environment = process.env): ((done: number, all: number | undefined) => void) => {
  let before = 0
  const line = takesLive(out.stream, env) ? new LiveLine([process.stderr, out.stream], env) : undefined
  return (done, all) => {
    const text = all === undefined ? `${done}` : `${done} of ${all}`
    const part = (n: number): number => (all === undefined ? Math.floor(Math.log10(n || 1)) : Math.floor((PARTS * n) / all))
    if (line && done !== all) line.show(text)
    else if (line || before === 0 || part(done) > part(before)) out.say(text)
    before = done
  }
}

// ---------------------------------------------------------------- a bar

const SPARKS = '▁▂▃▄▅▆▇█'
const MOST_SPARKS = 16

/** The losses of a run as small bars: at most 16, each the mean of equally many steps. */
export class Sparkline {
  private means: number[] = []
  private each = 1
  private sum = 0
  private count = 0

  add(loss: number): void {
    if (!Number.isFinite(loss)) return
    this.sum += loss
    if (++this.count < this.each) return
    this.means.push(this.sum / this.each)
    this.sum = this.count = 0
    if (this.means.length < MOST_SPARKS) return
    this.means = this.means.flatMap((m, i) => (i % 2 === 0 ? [] : [(m + this.means[i - 1]!) / 2]))
    this.each *= 2
  }

  text(): string {
    const [low, high] = [Math.min(...this.means), Math.max(...this.means)]
    const level = (m: number): number => (high > low ? Math.round(((m - low) / (high - low)) * (SPARKS.length - 1)) : 0)
    // Always as wide, so that the parts beside it keep their places.
    return this.means.length < 2
      ? ''
      : this.means
          .map((m) => SPARKS[level(m)])
          .join('')
          .padEnd(MOST_SPARKS)
  }
}

/** The texts of a bar's line. Empty texts are left out. */
export interface BarTexts {
  readonly epoch: string
  readonly step: string
  readonly percent: string
  readonly left: string
  readonly loss: string
  readonly sparks: string
  readonly metric: string
  readonly speed: string
  readonly memory: string
  readonly rate: string
}

/** In the order of the line. */
const PARTS_OF_LINE = ['epoch', 'step', 'bar', 'percent', 'left', 'loss', 'sparks', 'metric', 'speed', 'memory', 'rate'] as const
/** A narrow terminal loses the last parts first. */
const BY_WORTH = ['step', 'loss', 'left', 'percent', 'epoch', 'metric', 'speed', 'bar', 'sparks', 'memory', 'rate'] as const
const BAR = { least: 10, most: 40 } as const

/** The line of a bar at a share of the run, for a terminal of this width. */
export const barLine = (texts: BarTexts, share: number, columns: number): string => {
  const widthOf = (part: (typeof PARTS_OF_LINE)[number]): number => (part === 'bar' ? BAR.least : texts[part].length)
  // The last column stays free: some terminals wrap a full line.
  let space = columns - 1
  const kept = BY_WORTH.filter((part, i) => {
    const width = widthOf(part) + (i === 0 ? 0 : 2)
    if (widthOf(part) === 0 || width > space) return false
    space -= width
    return true
  })
  const width = Math.min(BAR.most, BAR.least + space)
  const full = Math.round(Math.min(1, Math.max(0, share)) * width)
  const textOf = (part: (typeof PARTS_OF_LINE)[number]): string =>
    part === 'bar' ? '█'.repeat(full) + '░'.repeat(width - full) : texts[part]
  return PARTS_OF_LINE.filter((part) => kept.includes(part))
    .map(textOf)
    .join('  ')
}

/** A bar that moves with every tile; lines of epochs stay above it. */
export const bar = (out: Output, { graph, segments, peakPages, budgetBytes }: Plan): Progress => {
  const before = segments.map((_, i) => segments.slice(0, i).reduce((n, s) => n + tilesOf(s.grid), 0))
  const perStep = segments.reduce((n, s) => n + tilesOf(s.grid), 0)
  const speed = new Speed(batchOf(graph))
  const sparks = new Sparkline()
  let shown: BarTexts = {
    ...{ epoch: '', step: '', percent: '', left: '', loss: '', sparks: '', metric: '', speed: '', rate: '' },
    memory: `${showSize(bytesOf(peakPages))} of ${showSize(bytesOf(pagesIn(budgetBytes)))}`,
  }
  const drawn = new SingleBar({
    stream: out.stream,
    hideCursor: true,
    clearOnComplete: true,
    etaBuffer: 30,
    format: (_options: unknown, { progress, eta }: Params) => {
      const left = Number.isFinite(eta) ? `${showSeconds(Math.max(0, eta))} left` : ''
      return barLine({ ...shown, percent: `${Math.floor(100 * progress)}%`, left }, progress, out.stream.columns || 80)
    },
  })
  let start = NOT_STARTED
  let done = 0
  let isOver = false
  const at = (tiles: number): void => {
    if (isOver) return
    if (drawn.isActive) drawn.update(tiles)
    else drawn.start(start.steps * perStep, tiles)
  }
  const stepping = (step: number): void => {
    shown = { ...shown, epoch: epochText(start, step).trimEnd(), step: `step ${step}/${start.steps}` }
  }
  const above = (print: () => void): void => {
    const wasActive = drawn.isActive
    if (wasActive) drawn.stop()
    print()
    if (wasActive) at(done * perStep)
  }
  return {
    event: (e) => {
      if (e.kind === 'start') start = e
      if (e.kind === 'step') {
        done = e.step
        speed.took(e.seconds)
        sparks.add(e.loss)
        stepping(e.step)
        shown = {
          ...shown,
          loss: `loss ${lossText(e.loss)}`,
          sparks: sparks.text(),
          speed: speed.text(),
          rate: `rate ${rateText(e.lr)}`,
        }
        at(e.step * perStep)
      }
      if (e.kind === 'evaluation') shown = { ...shown, metric: metricText(e.metrics) }
      const line = eventLine(e, start)
      if (line !== undefined) above(() => out.say(line))
    },
    tile: (p) => {
      if (p.kind !== 'tile') return
      stepping(p.step)
      at((p.step - 1) * perStep + before[p.segment]! + p.tile)
    },
    above,
    stop: () => {
      isOver = true
      if (drawn.isActive) drawn.stop()
    },
  }
}

/** The progress of a run in its output: a bar on a terminal, else lines. */
export const progressFor = (out: Output, plan: Plan): Progress =>
  takesControls(out.stream) ? bar(out, plan) : plainLines(out.say, plan)
