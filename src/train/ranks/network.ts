// The rates of exchanges between ranks, measured in place. In: the communicator, the device whose operators will exchange. Out: bytes a second and
// latency, as a named network has them. Invariant: the timed operator is one of the plan, on the run's engine, less its own part; all ranks call this
// at once, and get the same answer. Worked example, 2 ranks: sums of 1 KiB in 25 us, of 4 MiB in 2.1 ms: one message of 25 us, two of them, and 4 MiB
// in the rest, 2.05 GB/s.
import { type DeviceName, devices } from '../../../staging/devices'
import { dtypeBytes } from '../../../staging/graph/graph'
import { exchangeSeconds, MEASURED, type NamedNetwork } from '../../../staging/sim/networks'
import { nativeCall } from '../../machine/operands'
import type { Rank } from '../../ranks/rank'

/** Elements of a sum: latency alone, some of both, and those of a bucket of gradients. */
const SIZES = [256, 2 ** 17, 2 ** 20] as const
const KIND = 'all_sum'

/** The seconds of an exchange of this number of elements. */
export interface TimedExchange {
  readonly elements: number
  readonly bytes: number
  readonly seconds: number
}

/** Faster than any network: the measurement was empty. */
const MOST_BYTES_PER_SECOND = 1e12
const LEAST_LATENCY_SECONDS = 1e-8

/** The parts of an exchange's time: its waits for a message, and each rank's sent bytes. */
const partsOf = (
  ranks: number,
  { elements, bytes }: Omit<TimedExchange, 'seconds'>,
): { readonly messages: number; readonly sent: number } => ({
  messages: exchangeSeconds({ bytesPerSecond: Infinity, latencySeconds: 1 }, KIND, ranks, elements, bytes),
  sent: exchangeSeconds({ bytesPerSecond: 1, latencySeconds: 0 }, KIND, ranks, elements, bytes),
})

const median = (of: readonly number[]): number => [...of].sort((a, b) => a - b)[Math.floor(of.length / 2)]!

/** Each two of them, the smaller first, give the seconds of a byte: the median of these counts. The rest of the smallest is the latency. */
export const fitNetwork = (ranks: number, timed: readonly TimedExchange[]): NamedNetwork => {
  const points = timed.map((t) => ({ ...partsOf(ranks, t), seconds: t.seconds }))
  const perByte = points.flatMap((a, i) =>
    points
      .slice(i + 1)
      .map((b) => (b.seconds - a.seconds * (b.messages / a.messages)) / (b.sent - a.sent * (b.messages / a.messages))),
  )
  const byte = Math.max(1 / MOST_BYTES_PER_SECOND, median(perByte))
  const [{ messages, sent, seconds }] = points as [(typeof points)[number]]
  return {
    name: MEASURED,
    bytesPerSecond: 1 / byte,
    latencySeconds: Math.max(LEAST_LATENCY_SECONDS, (seconds - sent * byte) / messages),
  }
}

/** Runs on each of the ranks at once. */
export const timeExchanges = async (
  { communicator, ranks }: Rank,
  device: DeviceName,
  threads: number,
): Promise<readonly TimedExchange[]> => {
  const { dtype } = devices[device]
  const timed: TimedExchange[] = []
  for (const n of SIZES) {
    const call = nativeCall(KIND, { ranks }, { ins: [[n]], outs: [[n]] }, dtype)
    const { seconds, aloneSeconds } = await communicator.measure({ device, ...call, threads })
    timed.push({ elements: n, bytes: n * dtypeBytes[dtype], seconds: Math.max(0, seconds - aloneSeconds) })
  }
  return timed
}
