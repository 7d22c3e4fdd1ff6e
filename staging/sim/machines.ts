// Named machines, for simulation, from published figures. In: accelerators, links. Out: machines whose op times are a roofline, in each precision of
// the GPU. Their workspaces are the recorded scratch of cuDNN, or the bounds of the op table. Invariant: no figure is measured on the present
// machine, so plans for these names are the same everywhere.
import { mib } from '../core/bytes'
import { elementsOf } from '../core/box'
import { devices, type Precision } from '../devices'
import { dtypeBytes } from '../graph/graph'
import type { Link, Machine } from '../graph/machine'
import type { BuiltInMachines } from '../core/names'
import { type CallShapes, inputDef, type OpDef } from '../ops/op'
import { opDef } from '../ops/registry'
import {
  A100_PCIE,
  A100_SXM,
  type Accelerator,
  B200,
  H100_SXM,
  H200_NVL,
  H200_SXM,
  L4,
  P100_SXM2,
  RTX_2080TI,
  RTX_3090,
  RTX_4090,
  T4,
  TITAN_X,
  V100_PCIE,
  V100_SXM2_16G,
  V100_SXM2_32G,
} from './accelerators'
import { recordedScratch } from './cudnnscratch'

/** The share of the peaks that convolutions and element-wise kernels reach, from long runs of cuDNN training. */
export const COMPUTE_EFFICIENCY = 0.6
export const MEMORY_EFFICIENCY = 0.8
/** The share of the tensor cores' peak in weight gradients, which sum over all pixels. Source: the H100's profile in tf32 (test/sim/h100.test.ts). */
const WEIGHT_GRADIENT_EFFICIENCY = 0.34

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
/** Returns the rate in one direction of 16 lanes, by generation. */
export const pcieBytesPerSecond = (generation: number): number => 12.2e9 * 2 ** (generation - 3)

const bytesMoved = (s: CallShapes): number =>
  [...s.ins, ...s.outs].reduce((n, shape) => n + elementsOf(shape), 0) * (s.half ? dtypeBytes[s.half] : dtypeBytes.f32)

/**
 * Returns the bytes moved to convert a product's weight to 16 bits: it reads one type, writes the other, and reads that. The conversion is a separate
 * launch, unless the step lays the weight out.
 */
const convertedBytes = (def: OpDef, s: CallShapes): number => {
  const weights = [
    ...s.ins.filter((_, i) => inputDef(def, i).role === 'whole'),
    ...s.outs.filter((_, i) => def.outs[i]?.role === 'whole'),
  ]
  return weights.reduce((n, shape) => n + elementsOf(shape), 0) * (dtypeBytes.f32 + dtypeBytes.bf16)
}

/** Double-precision operations per element of the cuda device's sums for norms: an addition and a conversion per 16 terms of each of two sums. */
const FP64_AN_ELEMENT = 4 / 16
const isNormSum = (kind: string): boolean => /(?:norm|bn)\w*_(?:stats|bwd_reduce|bwd_weights)$/.test(kind)
const fp64Operations = (kind: string, s: CallShapes): number => (isNormSum(kind) ? FP64_AN_ELEMENT * elementsOf(s.ins[0]!) : 0)

/** Returns times by the peaks: products at the rate of their precision, all other ops at the rate of fp32 or of the memory. */
export const roofline = (a: Accelerator, precision: Precision): Machine['seconds'] => {
  const { fp32, [precision]: tensor = fp32 } = a.flopsPerSecond
  const usable = MEMORY_EFFICIENCY * a.bytesPerSecond
  const onCores = COMPUTE_EFFICIENCY * fp32
  // A multiply-add counts as two operations of the peak. An fp64 instruction takes as long as a multiply-add.
  const fp64 = (a.fp64FlopsPerSecond ?? Number.POSITIVE_INFINITY) / 2
  const onTensorCores = precision === 'fp32' ? 0 : COMPUTE_EFFICIENCY * tensor
  return (kind, attrs, s) => {
    const def = opDef(kind)
    const isTensor = def.dense === true && onTensorCores > 0 && (s.half !== undefined || precision === 'tf32')
    const ofGradient = kind.endsWith('_bwd_weights') ? WEIGHT_GRADIENT_EFFICIENCY / COMPUTE_EFFICIENCY : 1
    const flopsPerSecond = isTensor ? Math.max(ofGradient * onTensorCores, onCores) : onCores
    const converting = isTensor && s.half && !s.laid ? a.launchSeconds + convertedBytes(def, s) / usable : 0
    return (
      a.launchSeconds +
      converting +
      Math.max(def.flops(attrs as never, s) / flopsPerSecond, bytesMoved(s) / usable, fp64Operations(kind, s) / fp64)
    )
  }
}

/** The scratch of cuBLAS for a product (native/cuda/linear.cpp), with one aligned line. */
const PRODUCT_SCRATCH = mib(32) + 256
const isProduct = (kind: string): boolean => kind === 'linear' || kind.startsWith('linear_bwd')

/** The op table's bounds, for GPUs. */
const bounded: Machine['workspace'] = (kind, attrs, s) => {
  const bytes = opDef(kind).workspace?.(attrs as never, s, dtypeBytes.f32) ?? 0
  return isProduct(kind) ? Math.min(bytes, PRODUCT_SCRATCH) : bytes
}

/** A machine in simulation, by the precision of its plans. A precision is absent if the GPU lacks it. */
export type Simulated = Readonly<Partial<Record<Precision, Machine>>> & { readonly fp32: Machine }

export const simulatedOf = (name: string, a: Accelerator, link: Link): Simulated => {
  const at = (precision: Precision): Machine => {
    const recorded = recordedScratch(a.recordedAs, precision)
    return {
      name,
      device: devices.cuda,
      simulated: true,
      precision,
      memoryBytes: a.memoryBytes,
      link,
      seconds: roofline(a, precision),
      workspace: (kind, attrs, s) => recorded(kind, attrs, s) ?? bounded(kind, attrs, s),
    }
  }
  const { fp32: _, ...others } = a.flopsPerSecond
  const has = Object.keys(others) as (keyof typeof others)[]
  return { fp32: at('fp32'), ...Object.fromEntries(has.map((precision) => [precision, at(precision)])) }
}

const all: Readonly<Record<keyof BuiltInMachines, readonly [Accelerator, Link]>> = {
  'p100-nvlink-16g': [P100_SXM2, NVLINK_1],
  'v100-nvlink-16g': [V100_SXM2_16G, NVLINK_2_PAIR],
  'v100-nvlink-32g': [V100_SXM2_32G, NVLINK_2_TRIPLE],
  'v100-pcie-16g': [V100_PCIE, PCIE_3],
  'titanx-pcie-12g': [TITAN_X, PCIE_3],
  '2080ti-pcie-11g': [RTX_2080TI, PCIE_3],
  'a100-pcie-40g': [A100_PCIE, PCIE_4],
  'h200-pcie-141g': [H200_NVL, PCIE_5],
  'a100-sxm-80g': [A100_SXM, PCIE_4],
  'h100-sxm-80g': [H100_SXM, PCIE_5],
  'h200-sxm-141g': [H200_SXM, PCIE_5],
  b200: [B200, PCIE_5],
  'rtx-3090-24g': [RTX_3090, PCIE_4],
  'rtx-4090-24g': [RTX_4090, PCIE_4],
  'l4-24g': [L4, PCIE_4],
  't4-16g': [T4, PCIE_3],
}

/** The simulated machines in each precision of the GPU, by name. */
export const simulated: Readonly<Record<string, Simulated>> = Object.fromEntries(
  Object.entries(all).map(([name, [a, link]]) => [name, simulatedOf(name, a, link)]),
)
/** The simulated machines in fp32, by name. */
export const machines: Readonly<Record<string, Machine>> = Object.fromEntries(
  Object.entries(simulated).map(([name, { fp32 }]) => [name, fp32]),
)
