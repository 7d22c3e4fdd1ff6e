// The machines that this process can plan for: its own devices, measured or with fixed numbers, and the named ones.
// In: a name. Out: a Machine whose workspaces are what the device's kernels ask for. Invariant: workspaces come from the
// kernels themselves, never from a measurement, so the memory of a plan does not depend on how fast the machine was.
import { cpus } from 'node:os'
import { type Either, left, right } from 'fp-ts/Either'
import { PAGE_BYTES } from '../staging/core/bytes'
import type { Link, Machine } from '../staging/graph/machine'
import type { AnyAttrs, CallShapes } from '../staging/ops/op'
import { opDef } from '../staging/ops/registry'
import { machines as namedMachines } from '../staging/sim/machines'
import { type SpillwayError, unknownName } from './errors'
import { nativeCall } from './machine/operands'
import { openProfile } from './machine/profile'
import { callBytes, timer } from './machine/timing'
import { availableBytes } from './memory'
import { type DeviceName, type Native, tryLoadNative } from './native'

export interface LocalMachine extends Machine {
  /** Keeps what was measured, for the next process. */
  readonly saveProfile: () => void
}

export interface MachineOptions {
  /** The lower tier: 'ram', or the folder of a spill file. */
  readonly spill?: string
  readonly threads?: number
  /** The plan's choice of algorithms is fixed: their workspace, not the fastest one's. */
  readonly fixed?: boolean
  /** Bytes a second of an imitated link. */
  readonly throttle?: number
}

export const DEVICES = ['cpu', 'ref', 'null'] as const
export const machineNames = (): readonly string[] => [...DEVICES, ...Object.keys(namedMachines)]

// ---------------------------------------------------------------- workspaces

type Float = Machine['dtype']
type Cost = (kind: string, attrs: AnyAttrs, s: CallShapes) => number

/** The same answer for the same call, as long as the machine lives: plans are made of equal calls. */
const remembered = (cost: Cost): Cost => {
  const known = new Map<string, number>()
  return (kind, attrs, s) => {
    const key = `${kind}|${Object.values(attrs).join()}|${s.ins.join(';')}|${s.outs.join(';')}`
    const before = known.get(key)
    if (before !== undefined) return before
    const answer = cost(kind, attrs, s)
    known.set(key, answer)
    return answer
  }
}

/** Scratch bytes as the device's kernel says. */
const asked = (native: Native, device: DeviceName, float: Float, fixed: boolean): Cost => remembered((kind, attrs, s) => {
  const c = nativeCall(kind, attrs, s, float)
  const bytes = native.query(device, c.wire, c.attrs, c.ins, c.outs, fixed)
  if (bytes < 0) throw new Error(`device ${device} refuses ${kind} of ${JSON.stringify(s)} with ${JSON.stringify(attrs)}`)
  return bytes
})

// ---------------------------------------------------------------- this machine's devices

/** What the process itself takes beside the device: Node, libraries, kernels' code. */
const OWN_BYTES = 512 * 1024 ** 2
const deviceBytes = (): number => Math.max(PAGE_BYTES, Math.floor((availableBytes() - OWN_BYTES) / PAGE_BYTES) * PAGE_BYTES)

/** A preallocated spill file with direct I/O; what slow cloud disks give, so that plans do not count on more. */
const DISK_BYTES_PER_SECOND = 1e9

const linkOf = (copyBytesPerSecond: number, o: MachineOptions): Link => {
  const capped = (rate: number): number => Math.min(rate, o.throttle ?? Infinity)
  const disk = o.spill !== undefined && o.spill !== 'ram'
  return disk
    ? { outBytesPerSecond: capped(DISK_BYTES_PER_SECOND), inBytesPerSecond: capped(DISK_BYTES_PER_SECOND), latencySeconds: 1e-4, fullDuplex: false }
    : { outBytesPerSecond: capped(copyBytesPerSecond), inBytesPerSecond: capped(copyBytesPerSecond), latencySeconds: 1e-5, fullDuplex: true }
}

const cpuMachine = (native: Native, o: MachineOptions): LocalMachine => {
  const profile = openProfile(native.deviceInfo().build, o.threads ?? cpus().length, () => native.copyBandwidth())
  const times = timer(profile.measurements, (c) => native.measure('cpu', c.wire, c.attrs, c.ins, c.outs), 'f32')
  return {
    name: 'cpu', device: 'cpu', dtype: 'f32', memoryBytes: deviceBytes(), link: linkOf(profile.copyBytesPerSecond, o),
    seconds: remembered((kind, attrs, s) => times.seconds(kind, attrs, s)),
    workspace: asked(native, 'cpu', 'f32', o.fixed ?? false),
    saveProfile: () => { if (times.isNew()) profile.save() },
  }
}

/** Fixed numbers: plans for these devices are the same on every machine. */
const FIXED_COPY_BYTES_PER_SECOND = 4e9
const fixedSeconds = (flopsPerSecond: number, float: Float) => (kind: string, attrs: AnyAttrs, s: CallShapes): number =>
  1e-6 + opDef(kind).flops(attrs, s) / flopsPerSecond + callBytes(s, float) / FIXED_COPY_BYTES_PER_SECOND

const plainMachine = (native: Native, device: 'ref' | 'null', o: MachineOptions): LocalMachine => {
  const dtype: Float = device === 'ref' ? 'f64' : 'f32'
  return {
    name: device, device, dtype, memoryBytes: deviceBytes(), link: linkOf(FIXED_COPY_BYTES_PER_SECOND, o),
    seconds: fixedSeconds(device === 'ref' ? 5e8 : 1e11, dtype),
    workspace: asked(native, device, dtype, o.fixed ?? false),
    saveProfile: () => {},
  }
}

export const machineNamed = (name: string, o: MachineOptions = {}): Either<SpillwayError, LocalMachine> => {
  if (Object.hasOwn(namedMachines, name)) return right({ ...namedMachines[name]!, saveProfile: () => {} })
  if (name !== 'cpu' && name !== 'ref' && name !== 'null') return left(unknownName('machine', name, machineNames()))
  const native = tryLoadNative()
  if (native._tag === 'Left') return left({ tag: 'DeviceFailed', reason: native.left })
  return right(name === 'cpu' ? cpuMachine(native.right, o) : plainMachine(native.right, name, o))
}
