// The abilities of each device, stated once: passes, planners and the command line read them here and know no device by its name. In: nothing. Out: a
// declaration for each device. A machine carries that of its device; a simulated machine carries that of the device it imitates, so that it plans the
// very graphs that run there. Invariant: the addon says the same of its devices.
import type { DeviceName } from './core/names'
import type { Half } from './core/halves'

/**
 * bf16, fp16: activations and their gradients are stored so and multiplied as such, with a loss scale in fp16; tf32: products of floats round their
 * factors on the way.
 */
export type Precision = 'fp32' | 'tf32' | 'bf16' | 'fp16'
/** The stored type of activations in the 16-bit precisions. */
export const HALF_IN: Readonly<Partial<Record<Precision, Half>>> = { bf16: 'bf16', fp16: 'f16' }
/** The other way round. */
export const PRECISION_OF = { bf16: 'bf16', f16: 'fp16' } as const satisfies Readonly<Record<Half, Precision>>

export interface DeviceDeclaration {
  readonly name: DeviceName
  /** The float type of values: the reference device computes and stores doubles. */
  readonly dtype: 'f32' | 'f64'
  readonly precisions: readonly Precision[]
  /** The processor feature that bf16 needs; the addon knows if this processor has it. */
  readonly bf16Needs?: string
  /** Has the operators that rewriting makes. */
  readonly fused: boolean
  /** Updates many small parameters in one launch. */
  readonly gathersUpdates: boolean
  /** Its convolutions take weights in a layout of their own, and find them so where a step lays them out. */
  readonly laysWeights: boolean
  /** It is a card of its own memory and libraries, behind a plugin: only opening the plugin tells if there is one. */
  readonly isCard: boolean
}

export type { DeviceName }

const cpu: DeviceDeclaration = {
  name: 'cpu',
  dtype: 'f32',
  precisions: ['fp32', 'bf16', 'fp16'],
  bf16Needs: 'avx512_bf16',
  fused: true,
  gathersUpdates: false,
  laysWeights: false,
  isCard: false,
}

export const devices: Readonly<Record<DeviceName, DeviceDeclaration>> = {
  cpu,
  /** Computes everything naively, in double precision. */
  ref: {
    name: 'ref',
    dtype: 'f64',
    precisions: ['fp32', 'bf16', 'fp16'],
    fused: true,
    gathersUpdates: false,
    laysWeights: false,
    isCard: false,
  },
  /** The cpu, but that nothing is computed. */
  null: { ...cpu, name: 'null' },
  cuda: {
    name: 'cuda',
    dtype: 'f32',
    precisions: ['fp32', 'tf32', 'bf16', 'fp16'],
    fused: true,
    gathersUpdates: true,
    laysWeights: true,
    isCard: true,
  },
}

export const DEVICES = Object.keys(devices) as readonly DeviceName[]
export const isDevice = (name: string): name is DeviceName => Object.hasOwn(devices, name)
