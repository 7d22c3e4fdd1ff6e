// The published rates of GPUs. In: nothing. Out: peak rates by precision, memory, and the time of a launch. Invariant: an absent precision is one that
// the GPU lacks. Sources: NVIDIA's data sheets and architecture white papers of each product; products with sums in fp32, without sparsity. Memory is
// the total that nvidia-smi reports.
import { gib, mib } from '../core/bytes'
import type { Precision } from '../devices'

/** Peak operations per second of products: fp32 without tensor cores, the other precisions if the GPU has them. */
export type ProductRates = { readonly fp32: number } & { readonly [P in Exclude<Precision, 'fp32'>]?: number }

/** The peak rates of a machine. */
export interface Accelerator {
  readonly flopsPerSecond: ProductRates
  /** Double-precision peak without tensor cores; absent: never the bound. */
  readonly fp64FlopsPerSecond?: number
  /** The rate of the device memory. */
  readonly bytesPerSecond: number
  /** The total memory that the driver reports. */
  readonly memoryBytes: number
  /** Seconds from the start of one kernel to the start of the next. */
  readonly launchSeconds: number
  /** The GPU of scratch.json of the same or the nearest generation. Absent: the op table bounds all scratch. */
  readonly recordedAs?: RecordedGpu
}

/** The GPUs for which cuDNN's scratch is recorded (scripts/cuda/gpus.json). */
export type RecordedGpu = 'h200' | 'a100' | '2080ti' | 'b200' | 'rtx4090' | 't4'

// ---------------------------------------------------------------- the GPUs of the papers

export const P100_SXM2: Accelerator = {
  flopsPerSecond: { fp32: 10.6e12 },
  bytesPerSecond: 732e9,
  memoryBytes: mib(16280),
  launchSeconds: 8e-6,
}
export const V100_SXM2_16G: Accelerator = {
  flopsPerSecond: { fp32: 15.7e12 },
  bytesPerSecond: 900e9,
  memoryBytes: mib(16160),
  launchSeconds: 6e-6,
}
export const V100_SXM2_32G: Accelerator = { ...V100_SXM2_16G, memoryBytes: mib(32510) }
export const V100_PCIE: Accelerator = { ...V100_SXM2_16G, flopsPerSecond: { fp32: 14e12 } }
/** GeForce GTX TITAN X (Maxwell), at its base clock. */
export const TITAN_X: Accelerator = {
  flopsPerSecond: { fp32: 6.1e12 },
  bytesPerSecond: 336.5e9,
  memoryBytes: mib(12207),
  launchSeconds: 8e-6,
}
export const RTX_2080TI: Accelerator = {
  flopsPerSecond: { fp32: 13.4e12, fp16: 53.8e12 },
  bytesPerSecond: 616e9,
  memoryBytes: mib(11019),
  launchSeconds: 6e-6,
  recordedAs: '2080ti',
}
export const A100_PCIE: Accelerator = {
  flopsPerSecond: { fp32: 19.5e12, tf32: 156e12, bf16: 312e12, fp16: 312e12 },
  bytesPerSecond: 1555e9,
  memoryBytes: gib(40),
  launchSeconds: 5e-6,
  recordedAs: 'a100',
}
/** H200 NVL, the PCIe form. */
export const H200_NVL: Accelerator = {
  flopsPerSecond: { fp32: 60e12, tf32: 418e12, bf16: 836e12, fp16: 836e12 },
  bytesPerSecond: 4.8e12,
  memoryBytes: mib(143771),
  launchSeconds: 4e-6,
  recordedAs: 'h200',
}

// ---------------------------------------------------------------- servers

export const A100_SXM: Accelerator = { ...A100_PCIE, bytesPerSecond: 2039e9, memoryBytes: mib(81920) }
export const H100_SXM: Accelerator = {
  flopsPerSecond: { fp32: 67e12, tf32: 494.7e12, bf16: 989.4e12, fp16: 989.4e12 },
  fp64FlopsPerSecond: 33.5e12,
  bytesPerSecond: 3.35e12,
  memoryBytes: mib(81559),
  launchSeconds: 4e-6,
  recordedAs: 'h200',
}
export const H200_SXM: Accelerator = { ...H100_SXM, bytesPerSecond: 4.8e12, memoryBytes: mib(143771) }
/** One of the eight GPUs of an HGX B200. */
export const B200: Accelerator = {
  flopsPerSecond: { fp32: 75e12, tf32: 1125e12, bf16: 2250e12, fp16: 2250e12 },
  fp64FlopsPerSecond: 37e12,
  bytesPerSecond: 7.7e12,
  memoryBytes: mib(183359),
  launchSeconds: 4e-6,
  recordedAs: 'b200',
}
export const L4: Accelerator = {
  flopsPerSecond: { fp32: 30.3e12, tf32: 60e12, bf16: 121e12, fp16: 121e12 },
  fp64FlopsPerSecond: 0.473e12,
  bytesPerSecond: 300e9,
  memoryBytes: mib(23034),
  launchSeconds: 5e-6,
  recordedAs: 'rtx4090',
}
export const T4: Accelerator = {
  flopsPerSecond: { fp32: 8.1e12, fp16: 65e12 },
  fp64FlopsPerSecond: 0.253e12,
  bytesPerSecond: 320e9,
  memoryBytes: mib(15360),
  launchSeconds: 6e-6,
  recordedAs: 't4',
}

// ---------------------------------------------------------------- GeForce: half of the rate with sums in fp32

export const RTX_4090: Accelerator = {
  flopsPerSecond: { fp32: 82.6e12, tf32: 82.6e12, bf16: 165.2e12, fp16: 165.2e12 },
  fp64FlopsPerSecond: 1.29e12,
  bytesPerSecond: 1008e9,
  memoryBytes: mib(24564),
  launchSeconds: 5e-6,
  recordedAs: 'rtx4090',
}
export const RTX_3090: Accelerator = {
  flopsPerSecond: { fp32: 35.6e12, tf32: 35.6e12, bf16: 71e12, fp16: 71e12 },
  fp64FlopsPerSecond: 0.556e12,
  bytesPerSecond: 936e9,
  memoryBytes: mib(24576),
  launchSeconds: 5e-6,
  recordedAs: 'rtx4090',
}
