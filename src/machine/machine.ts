// The machines that this process can plan for: its own devices, measured or with fixed numbers, and the named ones. In: a name. Out: a Machine with
// the workspaces of the device's kernels. Invariant: workspaces come from the kernels themselves, never from a measurement, so the memory of a plan
// does not depend on the speed of the machine.
import * as E from 'fp-ts/Either'
import { type Either, left, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { DEVICES, type DeviceName, devices, isDevice, type Precision } from '../../staging/devices'
import type { MachineName, Machines } from '../../staging/core/names'
import type { Float } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import type { AnyAttrs, CallShapes } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import { simulated as namedMachines } from '../../staging/sim/machines'
import { MEASURED, networkNamed, NETWORKS, overNetwork } from '../../staging/sim/networks'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { onDevice } from '../errors/exceptions'
import { folderPlace } from '../files/places'
import { nativeCall } from './operands'
import { cpuMachine, cudaMachine } from './owndevices'
import { linkAt, STATED_DISK, STATED_LINKS, tieredLink } from './links'
import { type LocalMachine, type MachineOptions, PRECISIONS } from './localmachine'
import { ownMachines } from './ownmachines'
import { deviceBytes } from './memory'
import { hasOnGpu } from './gpurates'
import { takeOwnGpu } from '../ranks/gpu'
import type { Speeds } from './profile'
import { UNTAUGHT } from './taught'
import { callBytes } from './timing'
import { firstScratch, waysOf } from './ways'
import { tierOf } from './tier'
import { type Native, tryLoadNative } from '../device/native'

/**
 * Returns the names of all machines: the devices of this computer and the simulated machines.
 *
 * @example machineNames().includes('v100-pcie-16g')
 */
export const machineNames = (): readonly MachineName[] => [
  ...DEVICES,
  ...(Object.keys({ ...namedMachines, ...ownMachines() }) as (keyof Machines)[]),
]

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
    memoryBytes: deviceBytes(o),
    link: tieredLink(o, { memory: () => linkAt(FIXED_LINK, o), disk: () => linkAt(FIXED_LINK, o), besideDisk: 0, apart: false }),
    seconds: fixedSeconds(device === 'ref' ? 5e8 : 1e11, dtype),
    workspace: firstScratch(device, waysOf(native, device, { threads: o.threads }, 1)),
    ...UNTAUGHT,
  }
}

/** A device that rounds to bf16 computes with it: the cpu device does if the processor multiplies bf16. */
export const hasBf16 = (native: Native, device: DeviceName): boolean => {
  const shapes: CallShapes = { ins: [[1, 1, 1, 1]], outs: [[1, 1, 1, 1]], half: 'bf16' }
  return native.ways({ device, ...nativeCall('to_bf16', {}, shapes, devices[device].dtype) }, 1).length > 0
}

/** A card has the precisions of its generation; a processor has bf16 if it multiplies bf16. */
const computesIn = (native: Native, device: DeviceName, precision: Precision): boolean =>
  devices[device].isCard ? hasOnGpu(native.deviceFacts(device), precision) : precision !== 'bf16' || hasBf16(native, device)

const hasPrecision = (native: Native, device: DeviceName, precision: Precision): Either<SpillwayError, void> => {
  const { precisions, bf16Needs, isCard } = devices[device]
  const has = (p: Precision): boolean => precisions.includes(p) && computesIn(native, device, p)
  if (precision === 'fp32' || has(precision)) return right(undefined)
  const others = DEVICES.filter((d) => devices[d].precisions.includes(precision))
  const reason = !precisions.includes(precision)
    ? `${precision} is only for the ${others.join(', ')} device`
    : isCard
      ? `this GPU has no ${precision} products`
      : bf16Needs
        ? `this processor has no bf16 arithmetic (${bf16Needs})`
        : 'this build has no bf16 kernels for it'
  return left(usage(`precision '${precision}' is not allowed on machine '${device}': ${reason}`, precisions.filter(has)))
}

const simulatedMachine = (name: string, o: MachineOptions): Either<SpillwayError, LocalMachine> => {
  const at = namedMachines[name] ?? ownMachines()[name]!
  const { precision = 'fp32' } = o
  const has = PRECISIONS.filter((p) => at[p])
  const machine = has.includes(precision) ? at[precision] : undefined
  return machine
    ? right(withTiers(machine, o))
    : left(usage(`precision '${precision}' is not allowed on machine '${name}': this GPU has no ${precision} products`, has))
}

/** All the host memory and disk that somebody might buy, unless they are said. */
const withTiers = (machine: Machine, o: MachineOptions): LocalMachine => ({
  ...machine,
  tier: tierOf(o.spill),
  link: tieredLink(o, { memory: () => machine.link, disk: () => linkAt(STATED_LINKS.disk, {}), room: STATED_DISK, apart: true }),
  ...UNTAUGHT,
})

const isBuilt = (native: Native, name: DeviceName): Either<SpillwayError, void> => {
  const built = native.deviceInfo().devices
  const reason = `this build has no device '${name}', only ${built.join(', ')}: run 'spillway doctor'`
  return devices[name].isCard || built.includes(name) ? right(undefined) : left({ tag: 'DeviceFailed', reason })
}

const makers: Readonly<Record<DeviceName, (native: Native, o: MachineOptions) => LocalMachine>> = {
  cpu: cpuMachine,
  ref: (native, o) => plainMachine(native, 'ref', o),
  null: (native, o) => plainMachine(native, 'null', o),
  cuda: cudaMachine,
}

/** The spill folder is checked before anything is measured there. */
const spillPlace = ({ spill }: MachineOptions): Either<SpillwayError, void> => {
  const tier = tierOf(spill)
  return tier.kind === 'disk' ? folderPlace('spill directory', tier.folder) : right(undefined)
}

/** As in PyTorch: products on a GPU round their factors to TF32 if it has that. */
const defaultPrecision = (native: Native, device: DeviceName): Precision =>
  devices[device].isCard && computesIn(native, device, 'tf32') ? 'tf32' : 'fp32'

const deviceMachine = (name: DeviceName, o: MachineOptions): Either<SpillwayError, LocalMachine> =>
  pipe(
    spillPlace(o),
    E.tap(() => right(takeOwnGpu())),
    E.flatMap(tryLoadNative),
    E.tap((native) => isBuilt(native, name)),
    E.bindTo('native'),
    E.bind('precision', ({ native }) => onDevice(() => o.precision ?? defaultPrecision(native, name))),
    E.tap(({ native, precision }) => E.flatten(onDevice(() => hasPrecision(native, name, precision)))),
    E.flatMap(({ native, precision }) => onDevice(() => makers[name](native, { ...o, precision }))),
  )

const divisors = (n: number): readonly number[] => Array.from({ length: n }, (_, i) => i + 1).filter((d) => n % d === 0)

/** One of several that train together. */
const among =
  ({ ranks = 1, bands = 1, band = 0, network, over, norms, shard = 'none' }: MachineOptions) =>
  (machine: LocalMachine): Either<SpillwayError, LocalMachine> => {
    if (ranks % bands !== 0)
      return left(
        usage(
          ranks === 1
            ? `${bands} bands need ${bands} ranks or a multiple of it: use --ranks ${bands} for plan; start train with mpirun, or with --engine threads`
            : `the number of bands must divide the number of ranks: ${ranks} ranks, ${bands} bands; allowed: ${divisors(ranks).join(', ')}`,
        ),
      )
    if (bands > 1 && norms === 'local')
      return left(usage("norms 'local' cannot be used with bands, which split rows and not the batch"))
    const lonely =
      network !== undefined
        ? `network '${network}' needs`
        : norms !== undefined
          ? `norms '${norms}' needs`
          : shard === 'none'
            ? undefined
            : `shard '${shard}' needs`
    if (ranks === 1) return lonely === undefined ? right(machine) : left(usage(`${lonely} ${LONELY}`))
    const cut = bands > 1 ? { bands: { at: band % bands, of: bands } } : {}
    const one = { ...machine, ranks, ...cut, ...(norms === 'local' ? { norms } : {}), ...(shard === 'none' ? {} : { shard }) }
    if (network === MEASURED)
      return left(
        usage(`network '${MEASURED}' is measured between running processes: mpirun -n ${ranks} npx spillway plan …`, NETWORKS),
      )
    const between = network === undefined ? over : networkNamed(network)
    return right(between === undefined ? one : overNetwork(between, ranks)(one))
  }
const LONELY = 'several ranks: use --ranks for plan; start train with mpirun, or with --engine threads'

export const machineNamed = (name: string, o: MachineOptions = {}): Either<SpillwayError, LocalMachine> =>
  pipe(
    soundTiers(o),
    E.flatMap(() => machineBy(name, o)),
    E.flatMap(among(o)),
  )

const isSize = (n: number | undefined): boolean => n === undefined || (Number.isSafeInteger(n) && n >= 0)

const soundTiers = ({ spill, hostMemory, spillWritesPerStep }: MachineOptions): Either<SpillwayError, void> => {
  for (const [name, bytes] of Object.entries({ hostMemory, spillWritesPerStep }))
    if (!isSize(bytes)) return left(usage(`${name} is ${bytes}; allowed: a whole number of bytes`))
  return spillWritesPerStep !== undefined && tierOf(spill).kind === 'memory'
    ? left(usage("a limit on spill writes needs a spill folder: add --spill DIR (spill: 'DIR')"))
    : right(undefined)
}

const machineBy = (name: string, o: MachineOptions): Either<SpillwayError, LocalMachine> =>
  Object.hasOwn(namedMachines, name) || Object.hasOwn(ownMachines(), name)
    ? simulatedMachine(name, o)
    : isDevice(name)
      ? deviceMachine(name, o)
      : left(unknownName('machine', name, machineNames()))
