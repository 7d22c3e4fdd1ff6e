// Networks between the machines that train together, by name, from published figures. In: a rank's bytes per second, and the latency of a message.
// Out: the seconds of an exchange. Invariant: bytes are counted as operators send them. Each rank sends R-1 parts of R to the others, and its own
// sums to all of them; with few elements, all ranks send all elements to all others. No figure is measured here, so plans for these names are the
// same everywhere. Worked example: 4 MB of gradients, 8 ranks, 2.8 GB/s: 2 x (3 messages of 20 us + 3.5 MB / 2.8 GB/s) = 2.62 ms.
import { elementsOf } from '../core/box'
import { ROW_EXCHANGES } from '../graph/bands'
import { dtypeBytes } from '../graph/graph'
import type { Machine } from '../graph/machine'
import { rowsSent } from '../ops/bands'
import { inOneRound } from '../ops/collective'
import type { AnyAttrs, CallShapes } from '../ops/op'

export interface Network {
  /** The rate of one rank, in each direction at once. */
  readonly bytesPerSecond: number
  readonly latencySeconds: number
  /** If a rank's messages reach all others directly: the seconds of each message after the first. */
  readonly messageSeconds?: number
  /** True if exchanges use the path between the device and its host. */
  readonly isLink?: boolean
}

/** A network with a name of the list, or the one that ranks measured. */
export interface NamedNetwork extends Network {
  readonly name: string
}

/** The name of the measured network between ranks. */
export const MEASURED = 'measured'

/** The share of a link's bits that transports reach. */
const REACHED = 0.9
const ethernet = (gigabits: number): Network => ({ bytesPerSecond: (REACHED * gigabits * 1e9) / 8, latencySeconds: 20e-6 })
const infiniband = (gigabits: number): Network => ({ bytesPerSecond: (REACHED * gigabits * 1e9) / 8, latencySeconds: 2e-6 })
/**
 * Within a machine NCCL carries the exchanges of GPUs, as sends and receives of one group: these "can be seen as progressing independently" (NCCL's
 * user guide, Point-to-point communication), so a round waits for one message. There is no published figure for each further message of the kernel
 * that sends them all; half a microsecond is assumed.
 */
const grouped = { messageSeconds: 0.5e-6 } as const
/** The network between GPUs of one machine, each linked with all others: bricks of 25 GB/s a direction, 85 % of it usable. */
const nvlink = (bricks: number): Network => ({ ...grouped, bytesPerSecond: 0.85 * bricks * 25e9, latencySeconds: 5e-6 })
/** The network of 16 lanes, as between a GPU and its host. Paper 5 measures 12.2 GB/s on PCIe 3.0. */
const pcie = (bytesPerSecond: number): Network => ({ ...grouped, bytesPerSecond, latencySeconds: 1e-5, isLink: true })

export const networks = {
  'nvlink-v100': nvlink(6),
  'nvlink-a100': nvlink(12),
  'nvlink-h100': nvlink(18),
  'pcie-3': pcie(12.2e9),
  'pcie-4': pcie(24.4e9),
  'pcie-5': pcie(48.8e9),
  'ethernet-25g': ethernet(25),
  'ethernet-100g': ethernet(100),
  'ethernet-200g': ethernet(200),
  'infiniband-100g': infiniband(100),
  'infiniband-200g': infiniband(200),
  'infiniband-400g': infiniband(400),
} as const satisfies Readonly<Record<string, Network>>
export type NetworkName = keyof typeof networks
export const NETWORKS = Object.keys(networks) as readonly NetworkName[]
export const networkNamed = (name: NetworkName): NamedNetwork => ({ name, ...networks[name] })

/**
 * Returns the seconds until one value has reached all ranks. Between machines, messages follow each other and double the number of ranks reached, as
 * in the trees of MPI. Within a machine, one message has its latency, and each further one adds `messageSeconds`.
 */
const roundSeconds = ({ latencySeconds, messageSeconds }: Network, ranks: number): number =>
  messageSeconds === undefined
    ? Math.ceil(Math.log2(ranks)) * latencySeconds
    : latencySeconds + Math.max(0, ranks - 2) * messageSeconds

interface Way {
  /** The number of rounds through all ranks. */
  readonly rounds: number
  /** The bytes that a rank sends to all others together, as a multiple of the value's bytes. */
  readonly sent: number
}
const toAllOthers = (ranks: number): Way => ({ rounds: 1, sent: ranks - 1 })
const sumWay = (ranks: number, elements: number): Way =>
  inOneRound(elements, ranks) ? toAllOthers(ranks) : { rounds: 2, sent: (2 * (ranks - 1)) / ranks }
const WAYS: Readonly<Partial<Record<string, (ranks: number, elements: number) => Way>>> = {
  all_sum: sumWay,
  all_sums: sumWay,
  sum_parts: (ranks) => ({ rounds: 1, sent: (ranks - 1) / ranks }),
  all_moments: toAllOthers,
  put_part: toAllOthers,
}
const wayOf = (kind: string, ranks: number, elements: number): Way => WAYS[kind]?.(ranks, elements) ?? { rounds: 0, sent: 0 }

/** Returns the operands that an exchange sends. For an update of a weight, this is the rank's own part. */
export const exchanged = <A>(kind: string, ins: readonly A[]): readonly A[] => (kind === 'put_part' ? ins.slice(1) : ins)

/** Returns the bytes that each rank sends for a number of its own elements. */
export const sentBytes = (kind: string, ranks: number, elements: number, bytes: number): number =>
  wayOf(kind, ranks, elements).sent * bytes

export const exchangeSeconds = (network: Network, kind: string, ranks: number, elements: number, bytes: number): number =>
  wayOf(kind, ranks, elements).rounds * roundSeconds(network, ranks) +
  sentBytes(kind, ranks, elements, bytes) / network.bytesPerSecond

/** Returns the bytes that an exchange of rows sends, for a value with this number of rows. */
export const rowBytesSent = (kind: string, attrs: AnyAttrs, rows: number, bytes: number): number =>
  (rowsSent(kind, attrs) * bytes) / rows

const rowSeconds = (
  { bytesPerSecond, latencySeconds }: Network,
  kind: string,
  attrs: AnyAttrs,
  rows: number,
  bytes: number,
): number => {
  const sent = rowBytesSent(kind, attrs, rows, bytes)
  return sent === 0 ? 0 : latencySeconds + sent / bytesPerSecond
}

/** Returns the machine with the network's seconds in its exchanges. */
export const overNetwork =
  (network: NamedNetwork, ranks: number) =>
  <M extends Machine>(m: M): M => {
    const exchange = (kind: string, attrs: AnyAttrs, s: CallShapes): number => {
      const elements = exchanged(kind, s.ins).reduce((n, own) => n + elementsOf(own), 0)
      if (elements === 0) return 0
      const bytes = elements * dtypeBytes[s.half ?? m.device.dtype]
      return ROW_EXCHANGES.includes(kind)
        ? rowSeconds(network, kind, attrs, s.ins[0]![2] ?? 1, bytes)
        : exchangeSeconds(network, kind, attrs['ranks'] ?? ranks, elements, bytes)
    }
    const { choices } = m
    return {
      ...m,
      network: { name: network.name, bytesPerSecond: network.bytesPerSecond, latencySeconds: network.latencySeconds },
      link: network.isLink ? { ...m.link, carriesExchanges: true } : m.link,
      seconds: (kind: string, attrs: AnyAttrs, s: CallShapes) => m.seconds(kind, attrs, s) + exchange(kind, attrs, s),
      ...(choices
        ? {
            choices: (kind: string, attrs: AnyAttrs, s: CallShapes) =>
              choices(kind, attrs, s).map((c) => ({ ...c, seconds: c.seconds + exchange(kind, attrs, s) })),
          }
        : {}),
    }
  }
