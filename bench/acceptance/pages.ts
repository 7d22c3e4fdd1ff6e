// Pages against live bytes: the peak in pages of 2 MiB over `liveBytes`, for every network of the zoo, kept in-core, mixed by `auto` and swapped page
// by page in half of the memory. In: a claim. Out: a claim for each of the three over all cases whose peak is a GiB or more.
import { isLeft } from 'fp-ts/Either'
import { liveBytes } from '../../src/report/facts'
import { zooNames } from '../../src/zoo'
import { compile } from '../../staging/compile'
import { bytesOf, gib } from '../../staging/core/bytes'
import { digits, on, shareOfInCore } from './cases'
import { graphOf } from '../lab/steps'
import type { Claiming } from './claims'

const SHARES = [['in-core', 1], ['auto', 0.5], ['swap:fractional', 0.5]] as const // biome-ignore format: a pair a strategy
const LEAST_BYTES = gib(1)
const LIMIT = 1.01

interface Held {
  readonly network: string
  readonly strategy: string
  /** Whose plan `auto` took. */
  readonly chosen: string
  readonly peakBytes: number
  readonly ratio: number
}

/** Batches that fill a GiB or more. */
const inputOf = (network: string): readonly [batch: number, height: number, width: number] => {
  if (network.endsWith('-cifar')) return [512, 32, 32]
  if (network === 'pix2pixhd') return [2, 512, 1024]
  if (network.startsWith('inception')) return [32, 299, 299]
  return network.includes('-features') || network === 'unet' || network.startsWith('deeplab') ? [8, 512, 512] : [64, 224, 224]
}

const heldBy = (network: string): readonly Held[] => {
  const graph = graphOf(network, on, ...inputOf(network))
  if (!graph) throw new Error(`${network} cannot be built`)
  return SHARES.flatMap(([strategy, share]) => {
    const plan = compile(graph, { strategy, budgetBytes: shareOfInCore(graph, share), machine: on })
    if (isLeft(plan)) return []
    const peakBytes = bytesOf(plan.right.peakPages)
    return [{ network, strategy, chosen: plan.right.strategy, peakBytes, ratio: digits(peakBytes / liveBytes(plan.right)) }]
  })
}

export const pages = (claim: Claiming): void => {
  const large = zooNames.flatMap(heldBy).filter((h) => h.peakBytes >= LEAST_BYTES)
  for (const [strategy] of SHARES) {
    const worst = large.filter((h) => h.strategy === strategy).sort((a, b) => b.ratio - a.ratio)
    claim('pages', `pages hold at most ${LIMIT} of the live bytes, ${strategy}`, worst.length > 0 && worst[0]!.ratio <= LIMIT, {
      networks: worst.length,
      above: worst.filter((h) => h.ratio > LIMIT).length,
      worst: Object.fromEntries(worst.slice(0, 6).map((h) => [`${h.network} by ${h.chosen}`, h.ratio])),
    })
  }
}
