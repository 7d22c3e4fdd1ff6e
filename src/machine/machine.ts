// The machines that this process can plan for: its own devices, measured or with fixed numbers, and the named ones.
// In: a name. Out: a Machine whose workspaces are what the device's kernels ask for. Invariant: workspaces come from the
// kernels themselves, never from a measurement, so the memory of a plan does not depend on how fast the machine was.
import { existsSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import { type Either, left, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { bytesOf, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import { DEVICES, type DeviceName, devices, isDevice, type Precision } from '../../staging/devices'
import type { Float } from '../../staging/graph/graph'
import type { Choice, Link, Machine } from '../../staging/graph/machine'
import type { AnyAttrs, CallShapes } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import type { Algorithms, Plan } from '../../staging/plan/plan'
import { machines as namedMachines } from '../../staging/sim/machines'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { onDevice, orThrow } from '../errors/exceptions'
import { callKey } from '../../staging/ops/callkey'
import { nativeCall } from './operands'
import { cpuBuild, type KeptProfile, openProfile, type Speeds } from './profile'
import { isQuiet } from './quiet'
import { asInSteps, learn } from './steptimes'
import { callBytes, CPU_SAMPLES, GPU_SAMPLES, type RoughTimes, sampleOf, type Timer, timer } from './timing'
import { availableBytes } from './memory'
import { type Tier, tierOf } from './tier'
import { type KernelRequest, type Native, type NativeWay, tryLoadNative } from '../device/native'
import { version } from '../files/version'

/** A machine that plans are made for, and what it learns from runs. */
export interface LocalMachine extends Machine {
  readonly tier: Tier
  /** A plan whose calls take what steps here have told that they take. */
  readonly asInSteps: (plan: Plan) => Plan
  /** Keeps what the calls of a plan took in a run's quickest quiet step, for what is said of plans to come. */
  readonly learnFromSteps: (plan: Plan, seconds: Float64Array, threads?: number) => void
  /** Keeps what was measured, for the next process. */
  readonly saveProfile: () => void
}

export interface MachineOptions {
  /** The lower tier: 'ram', or the folder of a spill file. @example stage(net, { spill: '/var/tmp' }) */
  readonly spill?: string
  readonly threads?: number
  /**
   * What plans may choose among: one way for each call, those that repeat bit for bit (default), or all there are.
   *
   * @example stage(net, { algorithms: 'fixed' })
   */
  readonly algorithms?: Algorithms
  /** Bytes a second of an imitated link. */
  readonly throttle?: number
  /**
   * bf16: activations and their gradients are stored so and multiplied with fp32 sums, where the device has it; tf32: products on cuda; default fp32.
   *
   * @example stage(net, { precision: 'bf16' })
   */
  readonly precision?: Precision
}

/**
 * The machines that plans can be made for: devices of this one, and named ones in simulation.
 *
 * @example machineNames().includes('v100-pcie-16g')
 */
export const machineNames = (): readonly string[] => [...DEVICES, ...Object.keys(namedMachines)]

// ---------------------------------------------------------------- workspaces

type Asked<A> = (kind: string, attrs: AnyAttrs, s: CallShapes) => A
type Cost = Asked<number>
type Ways = Asked<readonly NativeWay[]>

/** The same answer for the same call, as long as the machine lives: plans are made of equal calls. */
const remembered = <A>(cost: Asked<A>): Asked<A> => {
  const known = new Map<string, A>()
  return (kind, attrs, s) => {
    const key = callKey(kind, attrs, s)
    const before = known.get(key)
    if (before !== undefined) return before
    const answer = cost(kind, attrs, s)
    known.set(key, answer)
    return answer
  }
}

/** The ways of a call as the device describes them, at most so many; none where it takes no such call. */
const waysOf = (native: Native, device: DeviceName, o: Pick<KernelRequest, 'threads' | 'precision'>, most?: number): Ways =>
  remembered((kind, attrs, s) =>
    asked(() => native.ways({ device, ...nativeCall(kind, attrs, s, devices[device].dtype), ...o }, most)),
  )

/** Scratch bytes of the device's first choice. */
const firstScratch =
  (device: DeviceName, ways: Ways): Cost =>
  (kind, attrs, s) => {
    const [first] = ways(kind, attrs, s)
    if (!first) throw new Error(`device ${device} refuses ${kind} of ${JSON.stringify(s)} with ${JSON.stringify(attrs)}`)
    return first.workspace
  }

/** Every way to run a call, timed; what takes the least scratch first. */
const timedChoices = (ways: Ways, times: Timer): Asked<readonly Choice[]> =>
  remembered((kind, attrs, s) =>
    ways(kind, attrs, s)
      .map(({ way, workspace }): Choice => ({ way, seconds: times.seconds(kind, attrs, s, way), workspace }))
      .sort((a, b) => a.workspace - b.workspace),
  )

// ---------------------------------------------------------------- this machine's devices

/** What the process itself takes beside the device: Node, libraries, kernels' code. */
const OWN_BYTES = 512 * 1024 ** 2
const deviceBytes = (): number => Math.max(PAGE_BYTES, bytesOf(pagesIn(availableBytes() - OWN_BYTES)))

/** A link that is held back is not slowed by what computes beside it, nor does it copy all the time. */
const linkAt = (speeds: Speeds, o: MachineOptions): Link => {
  const capped = (rate: number): number => Math.min(rate, o.throttle ?? Infinity)
  return {
    ...(o.throttle === undefined ? { beside: speeds.beside } : {}),
    outBytesPerSecond: capped(speeds.outBytesPerSecond),
    inBytesPerSecond: capped(speeds.inBytesPerSecond),
    latencySeconds: 1e-5,
    fullDuplex: speeds.fullDuplex || o.throttle !== undefined,
  }
}

/** The file system that a folder is on, or will be once it is made. */
const fileSystemOf = (folder: string): string => {
  const stat = statSync(folder, { throwIfNoEntry: false })
  return stat ? `disk:${stat.dev}` : fileSystemOf(dirname(resolve(folder)))
}
const existing = (folder: string): string => (existsSync(folder) ? folder : existing(dirname(resolve(folder))))

interface Timed {
  readonly profile: KeptProfile
  readonly times: Timer
}
const timed = new Map<number, Timed>()

/** Whether the machine is quiet is asked once a process. */
const roughOf = ({ rough }: KeptProfile): RoughTimes => {
  let quiet: boolean | undefined
  return { seconds: rough, mayBeBetter: () => (quiet ??= isQuiet()) }
}

/** One profile a process for each number of threads: what was measured once, even with disturbance, is not measured again. */
const timesOf = (native: Native, threads: number): Timed => {
  const known = timed.get(threads)
  if (known) return known
  const profile = openProfile(cpuBuild(native.deviceInfo()), threads)
  const times = timer(
    profile.measurements,
    (call, way, inPlace) => native.measure({ device: 'cpu', ...call, way, threads, inPlace }),
    'f32',
    CPU_SAMPLES,
    roughOf(profile),
  )
  timed.set(threads, { profile, times })
  return { profile, times }
}

type Taught = Pick<LocalMachine, 'asInSteps' | 'learnFromSteps' | 'saveProfile'>

/** What is kept of a machine that is measured; steps of `n` threads have a profile of their own. */
const taughtBy = ({ profile, times }: Timed, link: Link, profileFor: (n?: number) => KeptProfile = () => profile): Taught => ({
  asInSteps: (plan) => asInSteps(profile.inSteps, plan),
  learnFromSteps: (plan, seconds, n) => {
    if (learn(profileFor(n).inSteps, plan, seconds, link)) profileFor(n).save()
  },
  saveProfile: () => {
    if (times.isNew() || profile.isNew()) profile.save()
  },
})

/** Plans go by fixed numbers. */
const UNTAUGHT: Taught = { asInSteps: (plan) => plan, learnFromSteps: () => {}, saveProfile: () => {} }

const cpuMachine = (native: Native, o: MachineOptions): LocalMachine => {
  const threads = o.threads ?? native.deviceInfo().threads
  const { profile, times } = timesOf(native, threads)
  const tier = tierOf(o.spill)
  const spill = tier.kind === 'disk' ? existing(tier.folder) : undefined
  const speeds = profile.link(spill === undefined ? 'memory' : fileSystemOf(spill), () =>
    native.copyBandwidth(spill, 'cpu', threads),
  )
  const link = linkAt(speeds, o)
  const ways = waysOf(native, 'cpu', { threads }, o.algorithms === 'fixed' ? 1 : undefined)
  return {
    name: 'cpu',
    tier,
    device: devices.cpu,
    simulated: false,
    precision: o.precision ?? 'fp32',
    memoryBytes: deviceBytes(),
    link,
    seconds: remembered((kind, attrs, s) => times.seconds(kind, attrs, s)),
    workspace: firstScratch('cpu', ways),
    ...(o.algorithms === 'fixed' ? {} : { choices: timedChoices(ways, times) }),
    ...taughtBy({ profile, times }, link, (n = threads) => timesOf(native, n).profile),
  }
}

// ---------------------------------------------------------------- the GPU

/** No kernel takes 2^31 elements or more: such a call fits no device, so its op is tiled. */
const FITS_NOWHERE = 2 ** 40

const orNowhere =
  (ways: Ways): Ways =>
  (kind, attrs, s) => {
    const found = ways(kind, attrs, s)
    return found.length > 0 ? found : [{ way: 0, name: 'none', repeats: true, workspace: FITS_NOWHERE }]
  }

/** What the context, the libraries' handles, modules and graphs take beside the pool. */
const CUDA_OWN_BYTES = 1024 ** 3

/** What a device that fails says, out of the middle of planning: `whilePlanning` makes it a value again. */
const asked = <A>(f: () => A): A => orThrow(onDevice(f))

/** A library makes an engine to answer for it: after so long, calls that are new have its first choice alone. */
const ENGINES_PATIENCE_SECONDS = 30

/** The choices that a library has for a call: as it is, and as it is timed. */
const libraryWays = (first: Ways, all: Ways, algorithms: Algorithms): Ways => {
  let spent = 0
  return (kind, attrs, s) => {
    if (!opDef(kind).dense || spent > ENGINES_PATIENCE_SECONDS) return first(kind, attrs, s)
    const began = performance.now()
    const timed = new Set(all(kind, attrs, sampleOf(kind, attrs, s, 'f32', GPU_SAMPLES)).map((w) => w.way))
    const ways = all(kind, attrs, s).filter((w) => w.way === 0 || (timed.has(w.way) && (w.repeats || algorithms === 'fastest')))
    spent += (performance.now() - began) / 1000
    return ways
  }
}

const cudaMachine = (native: Native, o: MachineOptions): LocalMachine => {
  const facts = native.deviceFacts('cuda')
  // What products of floats are: with bf16 they are left as they are.
  const precision = o.precision === 'tf32' ? 'tf32' : 'fp32'
  const profile = openProfile(
    `${facts.device}, ${facts.driver}, ${facts.libraries}, ${precision}, spillway ${version()}, build ${facts.build}`,
    0,
  )
  const times = timer(
    profile.measurements,
    (call, way) => asked(() => native.measure({ device: 'cuda', ...call, way, precision })),
    'f32',
    GPU_SAMPLES,
    roughOf(profile),
  )
  const first = orNowhere(waysOf(native, 'cuda', { precision }, 1))
  const all = orNowhere(waysOf(native, 'cuda', { precision }))
  const tier = tierOf(o.spill)
  const spill = tier.kind === 'disk' ? existing(tier.folder) : undefined
  const speeds =
    spill === undefined
      ? profile.link('pinned', () => native.copyBandwidth(undefined, 'cuda'))
      : profile.link(fileSystemOf(spill), () => native.copyBandwidth(spill))
  const link = linkAt(speeds, o)
  return {
    name: 'cuda',
    tier,
    device: devices.cuda,
    simulated: false,
    precision: o.precision ?? 'fp32',
    link,
    memoryBytes: Math.max(PAGE_BYTES, bytesOf(pagesIn(facts.freeBytes - CUDA_OWN_BYTES))),
    seconds: remembered((kind, attrs, s) => times.seconds(kind, attrs, s)),
    workspace: firstScratch('cuda', first),
    ...(o.algorithms === 'fixed' ? {} : { choices: timedChoices(libraryWays(first, all, o.algorithms ?? 'measured'), times) }),
    ...taughtBy({ profile, times }, link),
  }
}

/** Fixed numbers: plans for these devices are the same on every machine. */
const FIXED_COPY_BYTES_PER_SECOND = 4e9
const fixedSeconds =
  (flopsPerSecond: number, float: Float) =>
  (kind: string, attrs: AnyAttrs, s: CallShapes): number =>
    1e-6 + opDef(kind).flops(attrs, s) / flopsPerSecond + callBytes(kind, s, float) / FIXED_COPY_BYTES_PER_SECOND

const FIXED_LINK: Speeds = {
  outBytesPerSecond: FIXED_COPY_BYTES_PER_SECOND,
  inBytesPerSecond: FIXED_COPY_BYTES_PER_SECOND,
  fullDuplex: true,
  beside: { copies: 1, calls: 1 },
}

const plainMachine = (native: Native, device: 'ref' | 'null', o: MachineOptions): LocalMachine => {
  const { dtype } = devices[device]
  return {
    name: device,
    tier: tierOf(o.spill),
    device: devices[device],
    simulated: false,
    precision: o.precision ?? 'fp32',
    memoryBytes: deviceBytes(),
    link: linkAt(FIXED_LINK, o),
    seconds: fixedSeconds(device === 'ref' ? 5e8 : 1e11, dtype),
    workspace: firstScratch(device, waysOf(native, device, { threads: o.threads }, 1)),
    ...UNTAUGHT,
  }
}

/** Whether a device rounds to bf16 says whether it computes with it: the cpu device does where the processor multiplies bf16. */
export const hasBf16 = (native: Native, device: DeviceName): boolean => {
  const shapes: CallShapes = { ins: [[1, 1, 1, 1]], outs: [[1, 1, 1, 1]], bf16: true }
  return native.ways({ device, ...nativeCall('to_bf16', {}, shapes, devices[device].dtype) }, 1).length > 0
}

const hasPrecision = (native: Native, device: DeviceName, precision: Precision): Either<SpillwayError, void> => {
  const { precisions, bf16Needs } = devices[device]
  const has = (p: Precision): boolean => precisions.includes(p) && (p !== 'bf16' || hasBf16(native, device))
  if (precision === 'fp32' || has(precision)) return right(undefined)
  const others = DEVICES.filter((d) => devices[d].precisions.includes(precision))
  const reason = !precisions.includes(precision)
    ? `${precision} is of the ${others.join(', ')} device's products`
    : bf16Needs
      ? `this processor has no bf16 arithmetic (${bf16Needs})`
      : 'this build has no bf16 kernels for it'
  return left(usage(`precision '${precision}' is not legal on machine '${device}': ${reason}`, precisions.filter(has)))
}

const simulatedMachine = (name: string, o: MachineOptions): Either<SpillwayError, LocalMachine> =>
  o.precision !== undefined && o.precision !== 'fp32'
    ? left(usage(`precision '${o.precision}' is not legal on machine '${name}': times of named machines are fp32`, ['fp32']))
    : right({ ...namedMachines[name]!, tier: tierOf(o.spill), ...UNTAUGHT })

const isBuilt = (native: Native, name: DeviceName): Either<SpillwayError, void> => {
  const { devices } = native.deviceInfo()
  const reason = `this build has no device '${name}', only ${devices.join(', ')}: see 'spillway doctor'`
  // Whether there is cuda, its plugin says when it is opened.
  return name === 'cuda' || devices.includes(name) ? right(undefined) : left({ tag: 'DeviceFailed', reason })
}

const makers: Readonly<Record<DeviceName, (native: Native, o: MachineOptions) => LocalMachine>> = {
  cpu: cpuMachine,
  ref: (native, o) => plainMachine(native, 'ref', o),
  null: (native, o) => plainMachine(native, 'null', o),
  cuda: cudaMachine,
}

const deviceMachine = (name: DeviceName, o: MachineOptions): Either<SpillwayError, LocalMachine> =>
  pipe(
    tryLoadNative(),
    E.tap((native) => isBuilt(native, name)),
    E.tap((native) => E.flatten(onDevice(() => hasPrecision(native, name, o.precision ?? 'fp32')))),
    E.flatMap((native) => onDevice(() => makers[name](native, o))),
  )

export const machineNamed = (name: string, o: MachineOptions = {}): Either<SpillwayError, LocalMachine> =>
  Object.hasOwn(namedMachines, name)
    ? simulatedMachine(name, o)
    : isDevice(name)
      ? deviceMachine(name, o)
      : left(unknownName('machine', name, machineNames()))
