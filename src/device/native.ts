// The native addon, typed. The only file that loads it. In: nothing. Out: devices, single kernels, sessions. Invariant: for any arguments, the addon
// answers or throws an Error in words; it does not crash.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import type { Either } from 'fp-ts/Either'
import type { DeviceName, Precision } from '../../staging/devices'
import type { DType } from '../../staging/graph/graph'
import { type SpillwayError, SpillwayException } from '../errors/errors'
import { onDevice } from '../errors/exceptions'
import { packageFolder } from '../files/version'
import { endMeasuring } from './apart'

/** One operand of a single kernel. Dense where no strides are given: activations channels-last, others in natural order. */
export interface NativeOperand {
  readonly dims: readonly number[]
  /** When trailing dims are left out or padded; default: how many dims there are. */
  readonly rank?: number
  readonly dtype?: DType
  /** The place of the box in the whole value, and the whole value's dims; default: the box is the whole. */
  readonly origin?: readonly number[]
  readonly extent?: readonly number[]
  /** Elements between neighbours along each dim. */
  readonly strides?: readonly number[] | undefined
}

export interface NativeArray extends NativeOperand {
  /** bf16: its bits. */
  readonly data: Float32Array | Float64Array | Int32Array | Uint16Array | Uint8Array
  /** Elements before the first. */
  readonly offset?: number
}

/** One call of one kernel. Kinds by name or wire number. */
export interface KernelRequest<Operand = NativeOperand> {
  readonly device: DeviceName
  readonly kind: string | number
  readonly attrs: readonly number[]
  readonly ins: readonly Operand[]
  readonly outs: readonly Operand[]
  readonly way?: number | undefined
  readonly threads?: number | undefined
  readonly precision?: Precision | undefined
  /** For a measured call: the input whose bytes the first output takes over. */
  readonly inPlace?: number | undefined
  readonly step?: number
  readonly seed?: number | bigint
  readonly lrScale?: number
}

/** One way to run a call, as its device describes it. */
export interface NativeWay {
  /** Its meaning is the device's; 0 is its first choice. */
  readonly way: number
  /** For people. */
  readonly name: string
  /** Bit for bit. */
  readonly repeats: boolean
  /** Bytes of scratch. */
  readonly workspace: number
}

/** The abilities of a device, on any machine. */
export interface NativeDevice {
  readonly name: string
  readonly dtype: DType
  readonly precisions: readonly Precision[]
  /** The operators that it has, by name. */
  readonly kernels: readonly string[]
  readonly gathersUpdates: boolean
}

export interface DeviceInfo {
  readonly devices: readonly DeviceName[]
  /** That this process may keep busy: of its affinity mask, no more than its control groups' quota. */
  readonly cores: number
  /** A session's default: OMP_NUM_THREADS, else the cores. */
  readonly threads: number
  /** The linker's hash of the addon: another one means that kernels may have changed. */
  readonly build: string
  /** Version of oneDNN, when this build has the cpu device. */
  readonly oneDnn?: string
}

/** The facts of a device. */
export interface DeviceFacts {
  readonly device: string
  readonly driver: string
  readonly libraries: string
  /** The linker's hash of the code that runs on it. */
  readonly build: string
  readonly totalBytes: number
  readonly freeBytes: number
  readonly processors: number
  /** The compute capability of a GPU (90 for 9.0), else 0. */
  readonly capability: number
  readonly clockHz: number
  readonly memoryClockHz: number
  /** The width of its memory's bus. */
  readonly busBits: number
  /** Its address on the PCI bus, such as 0000:65:00.0. */
  readonly pci: string
}

export interface CopyBandwidth {
  readonly outBytesPerSecond: number
  readonly inBytesPerSecond: number
  readonly fullDuplex: boolean
  /** How many times as long a copy takes while threads compute, and a computation while something is copied. */
  readonly beside: { readonly copies: number; readonly calls: number }
}

// ---------------------------------------------------------------- data

/** A tensor inside a file. Shape: [N], [N,C], [N,H,W] or [N,C,H,W] ([N,H,W,C] with that layout); values are raw * scale + shift. */
export interface NativeFile {
  readonly path: string
  readonly byteOffset: number
  readonly dtype: 'f32' | 'f64' | 'f16' | 'u8' | 'i32' | 'i64'
  readonly shape: readonly number[]
  readonly layout?: 'NCHW' | 'NHWC'
  /** One number, or one for each channel. */
  readonly scale?: number | readonly number[]
  readonly shift?: number | readonly number[]
  /** For class labels: any other than 0 to classes - 1 and the ignored one ends the run. */
  readonly classes?: number
  readonly ignored?: number
}

/** The batches of a number of steps of one fed value, those of step s in place s mod slots. Its bytes may be shared with workers. */
export interface NativeSlots extends Pick<NativeFile, 'shape' | 'layout' | 'scale' | 'shift'> {
  readonly data: Uint8Array | Int32Array | Float32Array | Float64Array
  readonly dtype: 'u8' | 'i32' | 'f32' | 'f64'
}

/** Sample b of step s (from 1) is number ((s-1)*B + b) mod samples, or that of the given order, for any plan. */
export type NativeSource =
  | {
      readonly kind: 'synthetic'
      readonly seed?: number | bigint
      readonly samples: number
      readonly classes?: number
    }
  | {
      readonly kind: 'files'
      readonly files: Readonly<Record<string, NativeFile | readonly NativeFile[]>>
      /** The samples of each step of the run. */
      readonly order?: Uint32Array
    }
  | { readonly kind: 'slots'; readonly slots: number; readonly arrays: Readonly<Record<string, NativeSlots>> }
  /** Bands of rows of samples, each when it is asked for, to this last step: a sample of an array is a slot of one band. */
  | { readonly kind: 'bands'; readonly last: number; readonly arrays: Readonly<Record<string, NativeSlots>> }

/** Exactly the bytes of each output, as it is stored (B, H, W, C): memory that nobody else touches meanwhile, or a file. */
export type NativeSink = Readonly<Record<string, Uint8Array | { readonly path: string }>>

// ---------------------------------------------------------------- sessions

export interface SessionOptions {
  /** A DeviceName that this build has; default cpu. */
  readonly device?: string
  /** The lower tier is a file in this directory; default: memory. */
  readonly spill?: string
  /** The most host memory of the lower tier; the spill folder takes the rest. Default: all bytes that a GPU's lanes reach. */
  readonly hostBytes?: number
  readonly precision?: Precision
  readonly threads?: number | undefined
  /** Imitates a slower link; 0: as fast as it goes. */
  readonly throttle?: { readonly outBytesPerSecond?: number; readonly inBytesPerSecond?: number }
  /** Record the last step of each run. */
  readonly timeline?: boolean
}

export interface Binding {
  readonly name: string
  readonly role: 'param' | 'state' | 'input' | 'target' | 'loss' | 'output'
  readonly dtype: DType
  readonly shape: readonly number[]
}

export interface TapeFacts {
  readonly budgetBytes: number
  readonly peakBytes: number
  readonly tierBytes: number
  readonly instructions: number
  readonly calls: number
}

export interface RunRequest {
  readonly steps: number
  /** The first step of a training is 1. */
  readonly firstStep?: number
  readonly seed?: number | bigint
  /** Factors of the plan's learning rates, for each step of the run; default: the plan's. */
  readonly rates?: Float64Array
  readonly source: NativeSource
  /** The places of a prediction's outputs, by name: then it is one step. */
  readonly sink?: NativeSink
  readonly timeline?: boolean
  /** From this step on each call's operands are looked at; a number that is not finite ends the run. */
  readonly searchFrom?: number
  /** For one of several ranks: operators meet the others there, and before each step all agree to run it. */
  readonly communicator?: NativeCommunicator
  /** Seconds that a rank waits for others; default ten minutes, or twenty times its longest step. */
  readonly patience?: number
}

/** The ranks' answers before each step; the last of these in the list counts for all. */
export type Accord = 'goOn' | 'stop' | 'interrupted'

/** One rank. One call at a time, and all ranks the same calls in the same order. */
export interface NativeCommunicator {
  readonly rank: number
  readonly size: number
  readonly engine: string
  /** Each rank's bytes, in their order. */
  exchange(own: Uint8Array): Promise<readonly Uint8Array[]>
  /** The question of runs before each step. */
  agree(own: Accord): Promise<Accord>
  /** The seconds of a call that meets other ranks, and of its own part: all ranks ask for the same call at once, with the same answer. */
  measure(call: KernelRequest): Promise<{ readonly seconds: number; readonly aloneSeconds: number }>
  /** Ends waits for other ranks. */
  interrupt(): void
  /** Ends all ranks; with MPI this process, too. */
  abort(code: number): void
  /** All ranks have done their part. */
  close(): void
}

export type NativeProgress =
  | {
      readonly phase: 'segment'
      readonly step: number
      readonly segment: number
      readonly tile: number
      readonly seconds: number
    }
  | { readonly phase: 'step'; readonly step: number; readonly loss: number; readonly seconds: number }
  /** A band of sample b of a step is wanted in a slot of a value; `put(ticket)` says that it is there. */
  | {
      readonly phase: 'ask'
      readonly name: string
      readonly step: number
      readonly b: number
      readonly band: number
      readonly slot: number
      readonly ticket: number
    }

export interface StepMetrics {
  readonly seconds: number
  readonly loss: number
  /** Waits for swaps out (room in memory) and for swaps in (data to arrive). */
  readonly stallMemorySeconds: number
  readonly stallDataSeconds: number
  /** The part of the latter that waits for the data source. */
  readonly stallFeedSeconds: number
  /** Waits for exchanges with other ranks during compute, and the seconds of these. */
  readonly stallRanksSeconds: number
  readonly besideSeconds: number
  readonly kernelSeconds: number
  readonly recomputeSeconds: number
  /** The planned arithmetic of the calls, and the part of it that was skipped. */
  readonly flops: number
  readonly skippedFlops: number
  /** To and from the lower tier; and the bytes of the data source. */
  readonly bytesOut: number
  readonly bytesIn: number
  readonly bytesFed: number
  /** The bytes of the sink. */
  readonly bytesHanded: number
}

/** A call or a copy; seconds count from the start of the step. */
export interface NativeSpan {
  readonly stream: 'compute' | 'out' | 'in' | 'ranks'
  readonly instruction: number
  readonly call?: number
  readonly transfer?: number
  readonly start: number
  readonly end: number
}

export interface NativeTimeline {
  readonly spans: readonly NativeSpan[]
  readonly memory: readonly { readonly time: number; readonly pages: number }[]
}

/** Device memory, as its driver counts: before the pool, by the pool, and since (kernels loaded late, graphs). */
export interface DeviceMemory {
  readonly contextBytes: number
  readonly poolBytes: number
  readonly grownBytes: number
  /** Otherwise of all processes that use the device. */
  readonly ofProcess: boolean
}

/** The first number that a search met: of a call's operands, inputs first. */
export interface NativeNotFinite {
  readonly step: number
  readonly call: number
  readonly operand: number
  readonly at: readonly number[]
  readonly value: number
  /** By the call, of numbers that were finite. */
  readonly made: boolean
}

export interface Metrics {
  /** It ended before the last step because it was told to. */
  readonly cancelled: boolean
  /** It ended within a step: weights may be half updated, and the session can only be disposed of. */
  readonly torn: boolean
  /** Those that ran to their end. */
  readonly steps: readonly StepMetrics[]
  readonly secondsByKind: Readonly<Record<string, number>>
  /** By call, of the quickest step in whose way nothing else ran; a session's first is not counted. */
  readonly quietCallSeconds?: Float64Array
  readonly arenaPeakBytes: number
  readonly arenaFileBytes: number
  readonly diskBytes: number
  /** The bytes that operators sent to other ranks. */
  readonly sentBytes: number
  /** The ranks' agreement before a step that did not run. */
  readonly accord: Accord
  readonly deviceMemory?: DeviceMemory
  /** Why steps that the device could keep as graphs ran instruction by instruction. */
  readonly withoutGraphs?: string
  readonly notFinite?: NativeNotFinite
  readonly timeline?: NativeTimeline
}

export interface NativeSession {
  bindings(): readonly Binding[]
  facts(): TapeFacts
  /** Draws a parameter or state as the plan says, keyed by its name and the seed only. For a part: the name of the whole, and its first element there. */
  init(name: string, seed: number | bigint, of?: string, first?: number): void
  read(name: string): Uint8Array
  write(name: string, bytes: Uint8Array): void
  /** Rejects when a step fails. An exception in `progress` ends the run and comes out as its rejection. */
  run(request: RunRequest, progress?: (p: NativeProgress) => void): Promise<Metrics>
  /** The slots of a run's steps to this one are filled; or the band of this ticket is in its slot. */
  put(number: number): void
  /** After the step at hand, or (default) at once. */
  cancel(when?: 'step' | 'now'): void
  dispose(): void
}

export interface Measured {
  readonly seconds: number
  /** Nothing else ran in its way. */
  readonly quiet: boolean
}

export interface Native {
  deviceInfo(): DeviceInfo
  /** Throws where the device is not to be had. */
  describeDevice(device: DeviceName): NativeDevice
  /** Throws, in words, when the device cannot be used here: no plugin, driver, library or GPU. */
  deviceFacts(device: DeviceName): DeviceFacts
  /** The library that carries bytes between the devices of ranks, for people; nothing if the host does. Throws, in words, if it is missing. */
  carrier(device: DeviceName): string | undefined
  /** Measures memory, a spill file in the directory, or the link of a device of its own memory: takes about a second. */
  copyBandwidth(directory?: string, device?: DeviceName, threads?: number): CopyBandwidth
  /** The ways that plans may choose among, at most `most`, the device's first choice first; none if the call is not legal. */
  ways(request: KernelRequest, most?: number): readonly NativeWay[]
  /** How long a call takes in a step, on made-up values that the caches do not hold. */
  measure(request: KernelRequest): Measured
  /** Frees code that was compiled for queries and measurements, and the memory of the latter: before a session opens. */
  forget(): void
  runKernel(request: KernelRequest<NativeArray>): void
  /** Ranks that are threads of this process. */
  openThreadRanks(ranks: number): readonly NativeCommunicator[]
  /** This process's rank, by an engine's file. */
  openPluginRank(file: string): NativeCommunicator
  readonly Session: new (tape: Uint8Array, options?: SessionOptions) => NativeSession
}

// ---------------------------------------------------------------- loading

/** A platform package's facts for this one, in words; a file if it fits. */
export interface Prebuilt {
  readonly state: 'fits' | 'other' | 'unfit' | 'broken' | 'off' | 'missing'
  readonly name: string
  readonly words: string
  readonly file?: string
}

/** Set-up runs before there are types: the addon that belongs to the native sources of a package, or null. */
const setup = require(join(packageFolder(), 'scripts', 'setup', 'find.js')) as {
  findAddon: (root: string) => string | null
  findPrebuilt: (root: string) => Prebuilt | null
}

/** Undefined in a checkout, which builds its own. */
export const prebuilt = (): Prebuilt | undefined => setup.findPrebuilt(packageFolder()) ?? undefined

/** The addon that belongs to these sources and this processor; undefined where none is built. */
export const addonFile = (): string | undefined => setup.findAddon(packageFolder()) ?? undefined

/** Builds it, in a process of its own, whose output is on stderr. */
const builtAddon = (): string => {
  const { status } = spawnSync(process.execPath, [join(packageFolder(), 'scripts', 'setup.js'), '--addon'], {
    stdio: ['ignore', 2, 2],
  })
  const file = status === 0 ? addonFile() : undefined
  if (file === undefined) throw new SpillwayException({ tag: 'AddonMissing', reason: 'the build failed, see above' })
  return file
}

/** Node swallows errors of a native callback: such an error ends the run instead and becomes the rejection. */
const guardRun = (Raw: Native['Session']): Native['Session'] =>
  class extends Raw {
    override async run(request: RunRequest, progress: (p: NativeProgress) => void = () => {}): Promise<Metrics> {
      let thrown: { readonly error: unknown } | undefined
      const metrics = await super.run(request, (p) => {
        if (thrown) return
        try {
          progress(p)
        } catch (error) {
          thrown = { error }
          this.cancel('now')
        }
      })
      if (thrown) throw thrown.error
      return metrics
    }
  }

let loaded: Native | undefined

/** Throws, in words, when the addon can neither be found nor built, or does not load. */
export const loadNative = (): Native => {
  if (loaded) return loaded
  const raw = require(addonFile() ?? builtAddon()) as Native
  const forget = (): void => {
    endMeasuring()
    raw.forget()
  }
  loaded = { ...raw, forget, Session: guardRun(raw.Session) }
  return loaded
}

/** The same with the reason as a value. */
export const tryLoadNative = (): Either<SpillwayError, Native> => onDevice(loadNative)
