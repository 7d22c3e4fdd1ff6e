// Machines that scripts register, for simulation. In: a name, and the peak rates of the machine. Out: the same as of the named ones: times are a
// roofline. Invariant: the name of a device or of another machine is refused; registering a name again replaces it.
import { type Known, optionsFor } from '../../staging/core/options'
import { known } from '../../staging/core/known'
import type { Machines } from '../../staging/core/names'
import { isDevice } from '../../staging/devices'
import { duplex, machines, type Simulated, simulatedOf } from '../../staging/sim/machines'
import { usage } from '../errors/errors'
import { orThrow } from '../errors/exceptions'
import * as E from 'fp-ts/Either'

/**
 * Rates of a simulated machine, as in its data sheet.
 *
 * @example
 * const rates: MachineRates = {
 *   flopsPerSecond: 3e13, bytesPerSecond: 9e11, memoryBytes: gib(24), linkBytesPerSecond: 2.5e10,
 * }
 */
export interface MachineRates {
  /** Single-precision operations per second. */
  readonly flopsPerSecond: number
  /** Bandwidth of the device memory, in bytes per second. */
  readonly bytesPerSecond: number
  /** Size of the device memory, in bytes. */
  readonly memoryBytes: number
  /** Bandwidth between the device and the host in each direction, in bytes per second. */
  readonly linkBytesPerSecond: number
  /** Time to start a call, in seconds. Default 5e-6. */
  readonly launchSeconds?: number | undefined
  /** TF32 operations per second of tensor cores. Default: the GPU has no TF32. */
  readonly tf32FlopsPerSecond?: number | undefined
  /** Operations in bf16 per second, with sums in fp32. Default: the GPU has no bf16. */
  readonly bf16FlopsPerSecond?: number | undefined
  /** Operations in fp16 per second, with sums in fp32. Default: the GPU has no fp16. */
  readonly fp16FlopsPerSecond?: number | undefined
}
const RATES = optionsFor<MachineRates>()(
  'registerMachine',
  'flopsPerSecond',
  'bytesPerSecond',
  'memoryBytes',
  'linkBytesPerSecond',
  'launchSeconds',
  'tf32FlopsPerSecond',
  'bf16FlopsPerSecond',
  'fp16FlopsPerSecond',
)

const rates = new Map<string, MachineRates>()
let made: Readonly<Record<string, Simulated>> = {}

/** Those that were registered, by name. */
export const ownMachines = (): Readonly<Record<string, Simulated>> => made
/** The registered rates, for another thread. */
export const ownRates = (): ReadonlyMap<string, MachineRates> => rates

const LAUNCH_SECONDS = 5e-6
const machineOf = (name: string, r: MachineRates): Simulated => {
  const { bytesPerSecond, memoryBytes, linkBytesPerSecond, launchSeconds = LAUNCH_SECONDS } = r
  const { flopsPerSecond: fp32, tf32FlopsPerSecond: tf32, bf16FlopsPerSecond: bf16, fp16FlopsPerSecond: fp16 } = r
  const flopsPerSecond = { fp32, ...(tf32 ? { tf32 } : {}), ...(bf16 ? { bf16 } : {}), ...(fp16 ? { fp16 } : {}) }
  return simulatedOf(name, { flopsPerSecond, bytesPerSecond, memoryBytes, launchSeconds }, duplex(linkBytesPerSecond))
}

const fault = (name: string, r: MachineRates): string | undefined => {
  if (name === '' || isDevice(name) || Object.hasOwn(machines, name))
    return `machine '${name}' cannot be registered: another machine or device has this name`
  const wrong = Object.entries(r).find(([, n]) => n !== undefined && !(typeof n === 'number' && n > 0 && n < Infinity))
  if (wrong) return `machine '${name}': ${wrong[0]} is ${wrong[1]}; allowed: numbers above 0`
  return Number.isSafeInteger(r.memoryBytes)
    ? undefined
    : `machine '${name}': memoryBytes is ${r.memoryBytes}; allowed: whole numbers`
}

/**
 * Registers your own simulated machine. Declare its name first: `declare module 'spillway' { interface Machines
 * { 'lab-24g': true } }`.
 *
 * @param name Name of the machine, for `stage` and `--machine`.
 * @param machine Its rates.
 * @example
 * registerMachine('lab-24g' as never, {
 *   flopsPerSecond: 3e13, bytesPerSecond: 9e11, memoryBytes: gib(24), linkBytesPerSecond: 2.5e10,
 * })
 */
export const registerMachine = <const O extends MachineRates>(name: keyof Machines, machine: Known<O, typeof RATES>): void => {
  const own: MachineRates = known(RATES, machine as O)
  const wrong = fault(name, own)
  orThrow(wrong === undefined ? E.right(undefined) : E.left(usage(wrong)))
  rates.set(name, own)
  made = { ...made, [name]: machineOf(name, own) }
}
