// The stated rates of the GPU at hand, for plans that measure nothing. In: the facts of its driver. Out: peak rates by precision, its times, its link,
// and the precisions that it has. Invariant: only the generation, the clocks and the widths count, so equal GPUs have equal plans. Worked example,
// an A100: 108 processors of 2 x 64 x 1.41 GHz are 19.5 TFLOP/s in fp32, and of 2048 x 1.41 GHz 312 in bf16.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Precision } from '../../staging/devices'
import type { Accelerator, ProductRates } from '../../staging/sim/accelerators'
import { duplex, pcieBytesPerSecond, roofline } from '../../staging/sim/machines'
import type { DeviceFacts } from '../device/native'
import type { Speeds } from './profile'

/** Operations of one processor per clock: NVIDIA's white paper of each architecture. Products have sums in fp32. */
interface Generation {
  readonly capability: number
  readonly flopsPerClock: ProductRates
  /** GeForce products of 16 bits with sums in fp32 run at half of this rate. */
  readonly isHalvedOnGeForce: boolean
  readonly launchSeconds: number
  readonly pcie: number
}
const halved = (flopsPerClock: ProductRates, capability: number, pcie: number): Generation => ({
  capability,
  flopsPerClock,
  isHalvedOnGeForce: true,
  launchSeconds: capability < 80 ? 6e-6 : 5e-6,
  pcie,
})
const whole = (flopsPerClock: ProductRates, capability: number, pcie: number, launchSeconds: number): Generation => ({
  capability,
  flopsPerClock,
  isHalvedOnGeForce: false,
  launchSeconds,
  pcie,
})
/** In descending order. */
const GENERATIONS: readonly Generation[] = [
  halved({ fp32: 256, tf32: 512, bf16: 1024, fp16: 1024 }, 120, 5),
  whole({ fp32: 256, tf32: 4096, bf16: 8192, fp16: 8192 }, 100, 5, 4e-6),
  whole({ fp32: 256, tf32: 2048, bf16: 4096, fp16: 4096 }, 90, 5, 4e-6),
  halved({ fp32: 256, tf32: 512, bf16: 1024, fp16: 1024 }, 89, 4),
  halved({ fp32: 256, tf32: 512, bf16: 1024, fp16: 1024 }, 86, 4),
  whole({ fp32: 128, tf32: 1024, bf16: 2048, fp16: 2048 }, 80, 4, 5e-6),
  halved({ fp32: 128, fp16: 1024 }, 75, 3),
]

const generationOf = ({ capability }: Pick<DeviceFacts, 'capability'>): Generation =>
  GENERATIONS.find((g) => g.capability <= capability) ?? GENERATIONS.at(-1)!

/** The precisions that a GPU has. */
export const hasOnGpu = (facts: Pick<DeviceFacts, 'capability'>, precision: Precision): boolean =>
  generationOf(facts).flopsPerClock[precision] !== undefined

/** The clocks and the bus of an L4, the slowest of the named GPUs with tensor cores for bf16, for drivers that report none. */
const STATED = { clockHz: 2.04e9, memoryClockHz: 6.251e9, busBits: 192 }

export const acceleratorOf = (facts: DeviceFacts): Accelerator => {
  const { flopsPerClock, isHalvedOnGeForce, launchSeconds } = generationOf(facts)
  const clockHz = facts.clockHz || STATED.clockHz
  const isReported = facts.memoryClockHz > 0 && facts.busBits > 0
  const { memoryClockHz, busBits } = isReported ? facts : STATED
  const slowed = isHalvedOnGeForce && facts.device.includes('GeForce') ? 0.5 : 1
  const { fp32, ...others } = flopsPerClock
  const perSecond = (perClock: number): number => perClock * facts.processors * clockHz
  return {
    flopsPerSecond: {
      fp32: perSecond(fp32),
      ...Object.fromEntries(Object.entries(others).map(([precision, n]) => [precision, slowed * perSecond(n)])),
    },
    // Two transfers a clock.
    bytesPerSecond: (2 * memoryClockHz * busBits) / 8,
    memoryBytes: facts.totalBytes,
    launchSeconds,
  }
}

/** The slot of a GPU as the kernel reports it. */
export type ReadPci = (address: string, file: string) => string | undefined
const readPci: ReadPci = (address, file) => {
  try {
    return readFileSync(join('/sys/bus/pci/devices', address.toLowerCase(), file), 'utf8')
  } catch {
    return undefined
  }
}

const LANES = 16
/** Transfers per second and lane of generation 3; each later one doubles them. */
const GIGATRANSFERS_OF_3 = 8

/** By the kernel's report of the slot; else 16 lanes of the generation that such GPUs have. */
export const linkBytesPerSecond = (facts: DeviceFacts, read: ReadPci = readPci): number => {
  const lanes = Number(read(facts.pci, 'current_link_width'))
  const transfers = Number.parseFloat(read(facts.pci, 'max_link_speed') ?? '')
  return lanes > 0 && transfers > 0
    ? (pcieBytesPerSecond(3) * transfers * lanes) / (GIGATRANSFERS_OF_3 * LANES)
    : pcieBytesPerSecond(generationOf(facts).pcie)
}

/** The stated times and link of an unmeasured GPU. */
export const statedGpu = (facts: DeviceFacts, precision: Precision) => {
  const link: Speeds = { ...duplex(linkBytesPerSecond(facts)), beside: { copies: 1, calls: 1 } }
  return { seconds: roofline(acceleratorOf(facts), precision), link }
}
