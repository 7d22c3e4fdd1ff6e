// Two tiles at a time, a thread each, or one after the other on all threads? In: cases, planned in tiles. Out: the time of their tiles' convolutions
// both ways, and the gain of a step that took the faster way for each. Two processes stand for the two tiles at a time: they share caches and memory
// as two threads do.
import { type Case, sized, stagedCase } from './cases'
import { convolutionsOf, dearest, type TimedCall } from './calls'
import { compared, type Group } from './plot'
import type { Talker } from './process'
import { type Options, script } from './sides'

const MIB = 2 ** 20
const tiled = (model: string, batch: number, image: number, mebibytes: number): Case => ({
  ...sized(model, batch, image),
  strategy: 'tiled',
  budgetBytes: mebibytes * MIB,
})
export const TILED: readonly Case[] = [
  tiled('vgg16-features', 1, 1024, 256),
  tiled('vgg16-features', 1, 4096, 1536),
  tiled('darknet19-features', 1, 1024, 320),
  tiled('darknet19-features', 1, 4096, 1024),
  tiled('resnet50', 8, 224, 400),
]

/** The timed share of a step's tiles. */
const SHARE = 0.8
/** Time that a host takes away meets the two ways differently, so the fastest round counts; rounds that choose a way do not tell its gain. */
const CHOOSING = 3
const TELLING = 3

/** One tile for each thread. */
interface TimedTile {
  readonly name: string
  readonly calls: number
  readonly inTurnSeconds: number
  readonly atOnceSeconds: number
  /** True if two at a time was faster in the rounds before. */
  readonly atOnce: boolean
}
const timed = async (who: readonly Talker[], call: TimedCall): Promise<number> => {
  const line = JSON.stringify({ native: call.native, way: call.way })
  const seconds = await Promise.all(who.map(async (w) => (await w.ask<{ readonly seconds: number }>(line)).answer.seconds))
  return Math.max(...seconds)
}

const quickest = async (rounds: number, once: () => Promise<readonly [number, number]>): Promise<readonly [number, number]> => {
  let least: readonly [number, number] = [Infinity, Infinity]
  for (let round = 0; round < rounds; round++) {
    const [inTurn, atOnce] = await once()
    least = [Math.min(least[0], inTurn), Math.min(least[1], atOnce)]
  }
  return least
}

export const measureTiles = async (c: Case, o: Options) => {
  const { plan, timeline } = stagedCase(c, o.threads).staged
  const worker = (threads: number): Talker => script('callworker.ts', [String(threads)])
  const all = [worker(o.threads)]
  const each = Array.from({ length: o.threads }, () => worker(1))
  try {
    const calls: TimedTile[] = []
    for (const call of dearest(convolutionsOf(plan, true), SHARE)) {
      const bothWays = async () => [(await timed(all, call)) * o.threads, await timed(each, call)] as const
      const [before, beforeAtOnce] = await quickest(CHOOSING, bothWays)
      const [inTurnSeconds, atOnceSeconds] = await quickest(TELLING, bothWays)
      calls.push({ name: call.name, calls: call.calls, inTurnSeconds, atOnceSeconds, atOnce: beforeAtOnce < before })
    }
    // With a number of tiles at a time, the number of turns falls by this factor.
    const total = (of: (x: TimedTile) => number): number => calls.reduce((n, x) => n + (x.calls * of(x)) / o.threads, 0)
    const inTurnSeconds = total((x) => x.inTurnSeconds)
    const atOnceSeconds = total((x) => x.atOnceSeconds)
    const stepSeconds = timeline.makespanSeconds
    const chosen = total((x) => (x.atOnce ? x.atOnceSeconds : x.inTurnSeconds))
    return {
      name: c.name,
      /** The two at a time over one after the other, of all tiles' convolutions. */
      timeRatio: atOnceSeconds / inTurnSeconds,
      /** The gain of a step from each call's faster way, as chosen in other rounds. */
      winShare: (inTurnSeconds - chosen) / stepSeconds,
      /** Seconds of a step: tiles one after the other, two at a time, and the whole step as predicted. */
      inTurnSeconds,
      atOnceSeconds,
      stepSeconds,
      calls,
    }
  } finally {
    for (const who of [...all, ...each]) await who.end()
  }
}
export type Tiles = Awaited<ReturnType<typeof measureTiles>>

export const plottedTiles = (r: Tiles): readonly Group[] =>
  compared(r.name, { 'one after the other': r.inTurnSeconds, 'one a core': r.atOnceSeconds }, (s) => `${s.toFixed(2)} s`)

export const showTiles = (r: Tiles): string =>
  `${r.name.padEnd(28)} tiles' convolutions ${r.inTurnSeconds.toFixed(2)} s in turn, ${r.atOnceSeconds.toFixed(2)} s one a core: ${r.timeRatio.toFixed(3)}; ` +
  `the faster of both for each call would take ${(100 * r.winShare).toFixed(1)} % off the step`
