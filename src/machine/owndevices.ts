// The machines of this computer's devices for training: cpu and cuda. In: the addon and options. Out: a LocalMachine, measured, or stated with fixed
// algorithms. Invariant: stated numbers depend on no measurement.
import { isRight } from 'fp-ts/Either'
import { bytesOf, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import { devices } from '../../staging/devices'
import type { Link } from '../../staging/graph/machine'
import { opDef, opDefs } from '../../staging/ops/registry'
import type { Algorithms } from '../../staging/plan/plan'
import { measuredApart } from '../device/apart'
import type { Native } from '../device/native'
import { SpillwayException } from '../errors/errors'
import { existingPart } from '../files/places'
import { statedGpu } from './gpurates'
import { fileSystemOf, isMeasurable, linkAt, roomOf, STATED_LINKS, tieredLink, type Tiers } from './links'
import type { LocalMachine, MachineOptions } from './localmachine'
import { deviceBytes } from './memory'
import { kernelsVersion } from './kernelsversion'
import { type KeptProfile, openProfile, type Speeds } from './profile'
import { statedSeconds } from './stated'
import { slowest, slowestLink } from './slowest'
import { profileOf, roughOf, taughtBy, timesOf, UNTAUGHT } from './taught'
import { type Tier, tierOf } from './tier'
import { CPU_SAMPLES, FAULTY_SECONDS, GPU_SAMPLES, sampleOf, timer } from './timing'
import { firstScratch, remembered, timedChoices, type Ways, waysOf } from './ways'

/** The first choice for each call, by stated times and links. */
const fixedMachine = (
  name: 'cpu' | 'cuda',
  o: MachineOptions,
  of: Pick<LocalMachine, 'memoryBytes' | 'seconds'> & { readonly ways: Ways; readonly memoryLink: Speeds },
): LocalMachine => {
  const tier = tierOf(o.spill)
  return {
    name,
    tier,
    device: devices[name],
    simulated: false,
    precision: o.precision ?? 'fp32',
    memoryBytes: of.memoryBytes,
    link: tieredLink(o, {
      memory: () => linkAt(of.memoryLink, o),
      disk: () => linkAt(STATED_LINKS.disk, o),
      ...lines(name, o),
    }),
    seconds: of.seconds,
    workspace: firstScratch(name, of.ways),
    ...UNTAUGHT,
  }
}

/** Disks differ too much to be planned for unseen, but a full one cannot be measured. */
const diskLink = (
  o: MachineOptions,
  profile: Pick<KeptProfile, 'link' | 'known'>,
  measured: (folder: string) => Speeds,
): Link => {
  const folder = existingPart(o.spill!)
  const name = fileSystemOf(folder)
  return linkAt(isMeasurable(folder) ? profile.link(name, () => measured(folder)) : (profile.known(name) ?? STATED_LINKS.disk), o)
}

const roomFor = (tier: Tier): ReturnType<typeof roomOf> => (tier.kind === 'disk' ? roomOf(tier.folder) : undefined)

/** On cpu the host's memory is the device's, so a disk takes all unless somebody says otherwise; and all copies are in line. */
const lines = (name: 'cpu' | 'cuda', { throttle }: MachineOptions): Pick<Tiers, 'apart' | 'besideDisk'> => ({
  apart: devices[name].isCard && throttle === undefined,
  ...(devices[name].isCard ? {} : { besideDisk: 0 }),
})

export const cpuMachine = (native: Native, o: MachineOptions): LocalMachine => {
  const threads = o.threads ?? native.deviceInfo().threads
  if (o.algorithms === 'fixed') {
    const ways = waysOf(native, 'cpu', { threads }, 1)
    return fixedMachine('cpu', o, {
      memoryBytes: deviceBytes(o),
      seconds: remembered(statedSeconds(threads)),
      ways,
      memoryLink: STATED_LINKS.memory,
    })
  }
  const measuring = o.measure ?? 'while'
  const { profile, times } = timesOf(native, threads, measuring)
  const timed = slowest(times, 'f32', CPU_SAMPLES, o.elsewhere)
  const tier = tierOf(o.spill)
  const link = tieredLink(o, {
    memory: () => {
      const measured = (): Speeds => native.copyBandwidth(undefined, 'cpu', threads)
      const stated = measuring === 'while' ? STATED_LINKS.memory : undefined
      return linkAt(
        isMeasurable(undefined) ? profile.link('memory', measured, stated) : (profile.known('memory') ?? STATED_LINKS.memory),
        o,
      )
    },
    disk: () => diskLink(o, profile, (folder) => native.copyBandwidth(folder, 'cpu', threads)),
    room: roomFor(tier),
    ...lines('cpu', o),
  })
  const ways = waysOf(native, 'cpu', { threads })
  return {
    name: 'cpu',
    tier,
    device: devices.cpu,
    simulated: false,
    precision: o.precision ?? 'fp32',
    memoryBytes: deviceBytes(o),
    sharesMemory: true,
    link: slowestLink(link, o.elsewhere),
    seconds: remembered((kind, attrs, s) => timed.seconds(kind, attrs, s)),
    workspace: firstScratch('cpu', ways),
    choices: timedChoices('cpu', ways, timed),
    ...(measuring === 'first' ? { unmeasured: () => cpuMachine(native, { ...o, measure: 'while' }) } : {}),
    ...taughtBy({ profile, times }, timed, link, o.elsewhere, (n = threads) => profileOf(native, n)),
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

/** The memory of the context, the libraries' handles, modules and graphs beside the pool. */
const CUDA_OWN_BYTES = 1024 ** 3
/** And NCCL's buffers: by its documentation 4 MiB (NCCL_BUFFSIZE) for each channel to another rank and from it. Their memory is not measured. */
const NCCL_RANK_BYTES = 2 * 8 * 4 * 1024 ** 2
const NCCL_MOST_BYTES = 2 * 1024 ** 3
const ncclBytes = (ranks = 1): number => Math.min(NCCL_MOST_BYTES, (ranks - 1) * NCCL_RANK_BYTES)

/** A library makes an engine to answer for it: after so long, calls that are new have its first choice alone. */
const ENGINES_PATIENCE_SECONDS = 30

/** The choices that a library has for a call: as it is, and as it is timed. */
const libraryWays = (first: Ways, all: Ways, algorithms: Algorithms): Ways => {
  let spent = 0
  return (kind, attrs, s) => {
    if (!opDef(kind).dense || spent > ENGINES_PATIENCE_SECONDS) return first(kind, attrs, s)
    const began = performance.now()
    const sample = sampleOf(kind, attrs, s, 'f32', GPU_SAMPLES)
    const timed = new Set(all(kind, sample.attrs, sample.s).map((w) => w.way))
    const ways = all(kind, attrs, s).filter((w) => w.way === 0 || (timed.has(w.way) && (w.repeats || algorithms === 'fastest')))
    spent += (performance.now() - began) / 1000
    return ways
  }
}

/** The wire numbers of operators that a library runs, with several engines for each. */
const LIBRARY: ReadonlySet<string | number> = new Set(opDefs.filter((def) => def.dense === true).map((def) => def.wire))

export const cudaMachine = (native: Native, o: MachineOptions): LocalMachine => {
  const facts = native.deviceFacts('cuda')
  const memoryBytes = Math.max(PAGE_BYTES, bytesOf(pagesIn(facts.freeBytes - CUDA_OWN_BYTES - ncclBytes(o.ranks))))
  // The precision of products of floats: with bf16 they stay floats.
  const precision = o.precision === 'tf32' ? 'tf32' : 'fp32'
  const first = orNowhere(waysOf(native, 'cuda', { precision }, 1))
  if (o.algorithms === 'fixed') {
    const { seconds, link } = statedGpu(facts, o.precision ?? 'fp32')
    return fixedMachine('cuda', o, { memoryBytes, seconds: remembered(seconds), ways: first, memoryLink: link })
  }
  const profile = openProfile(
    `${facts.device}, ${facts.driver}, ${facts.libraries}, ${precision}, kernels ${kernelsVersion()}`,
    0,
  )
  const times = timer(
    profile.measurements,
    (call, way) => {
      const measured = measuredApart({ device: 'cuda', ...call, way, precision })
      if (isRight(measured)) return measured.right
      // Another engine of the library may do; an own kernel has no alternative.
      if (LIBRARY.has(call.kind)) return { seconds: FAULTY_SECONDS, quiet: true }
      throw new SpillwayException({ tag: 'DeviceFailed', reason: `${call.kind} cannot be timed: ${measured.left}` })
    },
    'f32',
    GPU_SAMPLES,
    roughOf(profile),
  )
  const timed = slowest(times, 'f32', GPU_SAMPLES, o.elsewhere)
  const all = orNowhere(waysOf(native, 'cuda', { precision }))
  const choices = timedChoices('cuda', libraryWays(first, all, o.algorithms ?? 'measured'), timed)
  const tier = tierOf(o.spill)
  const link = tieredLink(o, {
    memory: () =>
      linkAt(
        isMeasurable(undefined)
          ? profile.link('pinned', () => native.copyBandwidth(undefined, 'cuda'))
          : (profile.known('pinned') ?? STATED_LINKS.memory),
        o,
      ),
    memoryBytes: deviceBytes(o),
    disk: () => diskLink(o, profile, (folder) => native.copyBandwidth(folder)),
    room: roomFor(tier),
    ...lines('cuda', o),
  })
  return {
    name: 'cuda',
    tier,
    device: devices.cuda,
    simulated: false,
    precision: o.precision ?? 'fp32',
    link: slowestLink(link, o.elsewhere),
    memoryBytes,
    seconds: remembered((kind, attrs, s) => {
      const seconds = timed.seconds(kind, attrs, s)
      return seconds < FAULTY_SECONDS ? seconds : Math.min(...choices(kind, attrs, s).map((choice) => choice.seconds))
    }),
    workspace: firstScratch('cuda', first),
    choices,
    ...taughtBy({ profile, times }, timed, link, o.elsewhere),
  }
}
