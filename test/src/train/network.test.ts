// Networks from timed exchanges; and threads can be timed.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { exchangeSeconds } from '../../../staging/sim/networks'
import { loadNative } from '../../../src/device/native'
import { fitNetwork, timeExchanges, type TimedExchange } from '../../../src/train/ranks/network'
import { rankOf } from '../../../src/ranks/rank'

const near = (a: number, b: number): boolean => Math.abs(a / b - 1) < 1e-6
const SIZES = [1024, 2 ** 19, 2 ** 22]
const over = (bytesPerSecond: number, latencySeconds: number, ranks: number): readonly TimedExchange[] =>
  SIZES.map((bytes) => ({
    elements: bytes / 4,
    bytes,
    seconds: exchangeSeconds({ bytesPerSecond, latencySeconds }, 'all_sum', ranks, bytes / 4, bytes),
  }))

test('the rates of a network are recovered from the times of exchanges, for any count of ranks', () => {
  for (const ranks of [2, 3, 8, 64])
    for (const [rate, latency] of [
      [2.8e9, 2e-5],
      [4.5e10, 2e-6],
      [1.2e7, 1e-3],
    ] as const) {
      const found = fitNetwork(ranks, over(rate, latency, ranks))
      assert.is(found.name, 'measured')
      assert.ok(near(found.bytesPerSecond, rate) && near(found.latencySeconds, latency), JSON.stringify([ranks, rate, found]))
    }
})

test('one disturbed size does not change the rates, and a time of zero gives no infinite rate', () => {
  const [small, middle, large] = over(2.8e9, 2e-5, 4) as [TimedExchange, TimedExchange, TimedExchange]
  const disturbed = fitNetwork(4, [small, { ...middle, seconds: 3 * middle.seconds }, large])
  assert.ok(near(disturbed.bytesPerSecond, 2.8e9), `${disturbed.bytesPerSecond}`)
  const nothing = fitNetwork(
    4,
    SIZES.map((bytes) => ({ elements: bytes / 4, bytes, seconds: 0 })),
  )
  assert.ok(Number.isFinite(nothing.bytesPerSecond) && nothing.latencySeconds > 0)
})

test('all thread ranks get the same times, which grow with the bytes', async () => {
  const all = loadNative().openThreadRanks(3).map(rankOf)
  // A busy machine may disturb one measurement; the ranks agree on each.
  let grows = false
  for (let tries = 0; !grows && tries < 20; tries++) {
    const [first, ...others] = await Promise.all(all.map((rank) => timeExchanges(rank, 'ref', 1)))
    for (const other of others) assert.equal(other, first)
    grows = first![0]!.seconds < first![2]!.seconds
  }
  assert.ok(grows)
  for (const { communicator } of all) communicator.close()
})

test.run()
