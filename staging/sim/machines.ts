// Named machines, for simulation: the accelerators of the papers, and later ones, from published figures. In: peak rates, capacities, links. Out:
// Machines whose op times are a roofline. The op table bounds their workspaces; for asked convolutions, cuDNN's answer does. Invariant: nothing here
// is measured on the machine at hand, so plans made for these names are the same everywhere.
import { gib, mib } from '../core/bytes'
import { elementsOf } from '../core/box'
import { devices } from '../devices'
import { dtypeBytes } from '../graph/graph'
import type { Link, Machine } from '../graph/machine'
import type { BuiltInMachines } from '../core/names'
import type { AnyAttrs, CallShapes } from '../ops/op'
import { opDef } from '../ops/registry'
import { askedScratch } from './asked'

/** The peak rates of a machine. */
export interface Accelerator {
  /** Single-precision peak without tensor cores, and the memory's. */
  readonly flopsPerSecond: number
  /** Double-precision peak without tensor cores; absent: never the bound. */
  readonly fp64FlopsPerSecond?: number
  readonly bytesPerSecond: number
  /** The driver's total memory. */
  readonly memoryBytes: number
  /** From starting a kernel to the next. */
  readonly launchSeconds: number
}

/** The share of the peaks that convolutions and element-wise kernels reach: long-run figures of cuDNN training. */
const COMPUTE_EFFICIENCY = 0.6
const MEMORY_EFFICIENCY = 0.8

// Peaks: NVIDIA's data sheets and white papers of each product; memory: nvidia-smi's total.
const P100_SXM2: Accelerator = { flopsPerSecond: 10.6e12, bytesPerSecond: 732e9, memoryBytes: mib(16280), launchSeconds: 8e-6 }
const V100_SXM2_16G: Accelerator = {
  flopsPerSecond: 15.7e12,
  bytesPerSecond: 900e9,
  memoryBytes: mib(16160),
  launchSeconds: 6e-6,
}
const V100_SXM2_32G: Accelerator = { ...V100_SXM2_16G, memoryBytes: mib(32510) }
const V100_PCIE: Accelerator = { ...V100_SXM2_16G, flopsPerSecond: 14e12 }
// GeForce GTX TITAN X (Maxwell), at its base clock.
const TITAN_X: Accelerator = { flopsPerSecond: 6.1e12, bytesPerSecond: 336.5e9, memoryBytes: mib(12207), launchSeconds: 8e-6 }
const RTX_2080TI: Accelerator = { flopsPerSecond: 13.4e12, bytesPerSecond: 616e9, memoryBytes: mib(11019), launchSeconds: 6e-6 }
const A100_PCIE: Accelerator = { flopsPerSecond: 19.5e12, bytesPerSecond: 1555e9, memoryBytes: gib(40), launchSeconds: 5e-6 }
// H200 NVL, the PCIe form.
const H200_NVL: Accelerator = { flopsPerSecond: 60e12, bytesPerSecond: 4.8e12, memoryBytes: mib(143771), launchSeconds: 4e-6 }

export const duplex = (bytesPerSecond: number): Link => ({
  outBytesPerSecond: bytesPerSecond,
  inBytesPerSecond: bytesPerSecond,
  latencySeconds: 1e-5,
  fullDuplex: true,
})

// POWER8 servers: two NVLink 1.0 bricks of 20 GB/s a direction between host and GPU, 85 % of it usable.
const NVLINK_1 = duplex(0.85 * 40e9)
// Paper 1's POWER9: two NVLink 2.0 bricks, 25 GB/s a direction each. Paper 2's: three, 75 GB/s a direction.
const NVLINK_2_PAIR = duplex(0.85 * 50e9)
const NVLINK_2_TRIPLE = duplex(0.85 * 75e9)
// Paper 5 measures 12.2 GB/s on 16 lanes of PCIe 3.0; later generations double.
const PCIE_3 = duplex(12.2e9)
const PCIE_4 = duplex(24.4e9)
const PCIE_5 = duplex(48.8e9)

const bytesMoved = (s: CallShapes): number =>
  [...s.ins, ...s.outs].reduce((n, shape) => n + elementsOf(shape), 0) * (s.bf16 ? dtypeBytes.bf16 : dtypeBytes.f32)

/** Double-precision operations of the cuda device's sums for norms: an addition and a conversion for 16 terms of each of two sums. */
const FP64_AN_ELEMENT = 4 / 16
const isNormSum = (kind: string): boolean => /(?:norm|bn)\w*_(?:stats|bwd_reduce|bwd_weights)$/.test(kind)
const fp64Operations = (kind: string, s: CallShapes): number => (isNormSum(kind) ? FP64_AN_ELEMENT * elementsOf(s.ins[0]!) : 0)

const roofline =
  (a: Accelerator) =>
  (kind: string, attrs: AnyAttrs, s: CallShapes): number =>
    a.launchSeconds +
    Math.max(
      opDef(kind).flops(attrs as never, s) / (COMPUTE_EFFICIENCY * a.flopsPerSecond),
      bytesMoved(s) / (MEMORY_EFFICIENCY * a.bytesPerSecond),
      // A multiply-add counts as two operations of the peak; an instruction takes as long.
      (2 * fp64Operations(kind, s)) / (a.fp64FlopsPerSecond ?? Number.POSITIVE_INFINITY),
    )

/** The scratch for cuBLAS in a product (native/cuda/linear.cpp), on a line of its own. */
const PRODUCT_SCRATCH = mib(32) + 256
const isProduct = (kind: string): boolean => kind === 'linear' || kind.startsWith('linear_bwd')

/** The op table's bounds, for GPUs. */
const bounded: Machine['workspace'] = (kind, attrs, s) => {
  const bytes = opDef(kind).workspace?.(attrs as never, s, dtypeBytes.f32) ?? 0
  return isProduct(kind) ? Math.min(bytes, PRODUCT_SCRATCH) : bytes
}

/** A machine that exists in simulation. */
export const simulatedOf = (name: string, a: Accelerator, link: Link, asked = askedScratch(name)): Machine => ({
  name,
  device: devices.cuda,
  simulated: true,
  precision: 'fp32',
  memoryBytes: a.memoryBytes,
  link,
  seconds: roofline(a),
  workspace: (kind, attrs, s) => asked(kind, attrs, s) ?? bounded(kind, attrs, s),
})

/** The rates of an H200 NVL, without the zeros that its data sheet counts. */
const TENSOR_CORES = { tf32: 418e12, bf16: 836e12 }

/** The stated rates of an unmeasured GPU at hand: those of an H200, in the precision of its products. */
export const statedGpu = (tf32: boolean) => {
  const at = (flopsPerSecond: number): Machine['seconds'] => roofline({ ...H200_NVL, flopsPerSecond })
  const floats = at(tf32 ? TENSOR_CORES.tf32 : H200_NVL.flopsPerSecond)
  const bf16 = at(TENSOR_CORES.bf16)
  const seconds: Machine['seconds'] = (kind, attrs, s) => (s.bf16 ? bf16 : floats)(kind, attrs, s)
  return { seconds, link: { ...PCIE_5, beside: { copies: 1, calls: 1 } } }
}

const of = (name: keyof BuiltInMachines, a: Accelerator, link: Link): Machine => simulatedOf(name, a, link)
const all: readonly Machine[] = [
  of('p100-nvlink-16g', P100_SXM2, NVLINK_1),
  of('v100-nvlink-16g', V100_SXM2_16G, NVLINK_2_PAIR),
  of('v100-nvlink-32g', V100_SXM2_32G, NVLINK_2_TRIPLE),
  of('v100-pcie-16g', V100_PCIE, PCIE_3),
  of('titanx-pcie-12g', TITAN_X, PCIE_3),
  of('2080ti-pcie-11g', RTX_2080TI, PCIE_3),
  of('a100-pcie-40g', A100_PCIE, PCIE_4),
  of('h200-pcie-141g', H200_NVL, PCIE_5),
]

export const machines: Readonly<Record<string, Machine>> = Object.fromEntries(all.map((m) => [m.name, m]))
