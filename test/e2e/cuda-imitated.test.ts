// own process
// timeout 400
// The whole path of `--device cuda` on the plugin that imitates an asynchronous device on the host: staging with its
// workspaces and times, training by lanes, events and replayed graphs. Bits equal among strategies and tiers.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { addonFile, loadNative } from '../../src/device/native'
import { errorText } from '../../src/errors/errors'
import { identityOf } from '../../src/stage/identity'
import type { LocalMachine } from '../../src/machine/localmachine'
import { machineNamed } from '../../src/machine/machine'
import { stageNamed, type StagingOptions } from '../../src/cli/stage'
import { savePlan } from '../../src/stage/planfile'
import { conv2d, crossEntropy, flatten, linear, model, relu, seq } from '../../dsl'
import { devices } from '../../staging/devices'
import { fastest } from '../../staging/graph/machine'
import { opDefs } from '../../staging/ops/registry'
import type { Algorithms } from '../../staging/plan/plan'
import type { Staged } from '../../src/stage/staged'
import type { StageOptions } from '../../src/stage/stageoptions'
import { tryStage } from '../../src/stage/stage'
import { PAGE_BYTES } from '../../staging/core/bytes'
import type { TrainResult } from '../../src/train/result'
import { fewOrAll, fullTest, gateTest } from '../full'
import { inCoreLayout } from '../../staging/schedule/incore'
import { resident } from '../../staging/schedule/candidate'
import { bitsOf, overlapsOf } from '../property/overlaps'
import { classifier, net } from './models'
import { halfway, smallestBudget, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-imitated-'))
test.after(() => rmSync(root, { recursive: true }))
process.env.XDG_CACHE_HOME = join(root, 'cache')
const PLUGIN = join(dirname(addonFile()!), 'spillway_imitation.so')
process.env.SPILLWAY_CUDA = PLUGIN

const ON = { machine: 'cuda' } as const
/** The imitated device computes on one thread: half of the cpu's batch. */
const trunk = model([2, 3, 32, 32], net)
const STEPS = 2

let inCoreRun: Promise<TrainResult> | undefined
/** One in-core run, which several tests compare theirs with. */
const inCoreOnce = (): Promise<TrainResult> =>
  (inCoreRun ??= trained(trunk, staged(trunk, { ...ON, strategy: 'in-core' }), { steps: STEPS }))

test('without its plugin the device is refused with the reason', () => {
  process.env.SPILLWAY_CUDA = join(root, 'spillway_cuda.so')
  const machine = machineNamed('cuda')
  assert.ok(isLeft(machine) && machine.left.tag === 'DeviceFailed')
  assert.match(machine.left.reason, /the cuda device is not built .*spillway setup cuda/)
  process.env.SPILLWAY_CUDA = PLUGIN
})

test('the device reports its name', () => {
  assert.is(loadNative().deviceFacts('cuda').device, 'imitation')
  const link = loadNative().copyBandwidth(undefined, 'cuda')
  assert.ok(link.outBytesPerSecond > 1e6 && link.inBytesPerSecond > 1e6)
  assert.ok(isRight(machineNamed('cuda')))
})

gateTest('steps that load the next input have the bits of single steps, by graphs as well', async () => {
  const { plan, machine } = staged(trunk, { ...ON, strategy: 'in-core' })
  const { plain, overlapped } = overlapsOf(resident(inCoreLayout(plan.graph, machine)), machine, 2 * plan.peakPages)!
  const expected = await bitsOf('cuda', plain, [8])
  for (const p of fewOrAll(overlapped.slice(0, 1), overlapped))
    for (const runs of fewOrAll([[3, 1, 4]], [[8], [3, 1, 4]])) assert.equal(await bitsOf('cuda', p, runs), expected)
})

test('recompute, swap and spilled plans have the bits of in-core, also as graphs', async () => {
  const inCore = await inCoreOnce()
  assert.ok(inCore.losses.length === STEPS && inCore.losses.every(Number.isFinite))
  for (const strategy of ['checkpoint:sqrt', 'swap:greedy'] as const) {
    const plan = staged(trunk, { ...ON, strategy, budget: halfway(trunk, strategy, ON) })
    const r = await trained(trunk, plan, { steps: STEPS })
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
    assert.is(r.arenaPeakBytes, r.peakBytes)
    if (strategy !== 'swap:greedy') continue
    assert.ok(r.bytesOut > 0 && r.bytesIn > 0)
    for (const hostMemory of fewOrAll([3 * 2 ** 20], [0, 3 * 2 ** 20])) {
      const spilled = await trained(trunk, plan, { steps: STEPS, spill: join(root, 'spill'), hostMemory })
      assert.equal(
        [spilled.weightsSha256, spilled.bytesOut, spilled.withoutGraphs],
        [inCore.weightsSha256, r.bytesOut, undefined],
      )
      assert.ok(spilled.diskBytes > 0)
    }
  }
})

test('tiles agree with the whole, and with the cpu device, within rounding', async () => {
  const whole = await inCoreOnce()
  const tiled = await trained(trunk, staged(trunk, { ...ON, strategy: 'tiled', budget: smallestBudget(trunk, 'tiled', ON) }), {
    steps: STEPS,
  })
  const cpu = await trained(trunk, staged(trunk, { strategy: 'in-core' }), { steps: STEPS })
  for (const other of [tiled, cpu])
    whole.losses.forEach((l, i) =>
      assert.ok(Math.abs(other.losses[i]! - l) <= 1e-4 * Math.abs(l), `${other.losses} against ${whole.losses}`),
    )
})

const NARROW = { ...ON, precision: 'bf16' } as const

fullTest('activations in bf16: strategies have the same bits, tiles and fp32 are near', async () => {
  const inCore = await trained(trunk, staged(trunk, { ...NARROW, strategy: 'in-core' }), { steps: STEPS })
  for (const strategy of fewOrAll(['swap:greedy'] as const, ['checkpoint:sqrt', 'swap:greedy'] as const)) {
    const plan = staged(trunk, { ...NARROW, strategy, budget: halfway(trunk, strategy, NARROW) })
    const r = await trained(trunk, plan, { steps: STEPS })
    assert.equal([strategy, r.weightsSha256, r.losses], [strategy, inCore.weightsSha256, inCore.losses])
  }
  const tiled = await trained(
    trunk,
    staged(trunk, { ...NARROW, strategy: 'tiled', budget: smallestBudget(trunk, 'tiled', NARROW) }),
    { steps: STEPS },
  )
  const wide = await inCoreOnce()
  assert.is.not(wide.weightsSha256, inCore.weightsSha256)
  for (const other of [tiled, wide])
    inCore.losses.forEach((l, i) =>
      assert.ok(Math.abs(other.losses[i]! - l) <= 1e-2 * Math.abs(l), `${other.losses} against ${inCore.losses}`),
    )
})

gateTest(
  'tf32, the default, is part of the plan: its file keeps it, its run is another run, and another precision is refused',
  () => {
    const named = (o: StagingOptions): Staged => {
      const found = stageNamed('resnet20-cifar', o)
      if (isLeft(found)) throw new Error(JSON.stringify(found.left))
      return found.right.staged
    }
    const asked = { ...ON, batch: 2, strategy: 'in-core', algorithms: 'fixed' } as const
    const [wide, plan] = [named({ ...asked, precision: 'fp32' }), named(asked)]
    assert.equal([wide.plan.precision, plan.plan.precision], [undefined, 'tf32'])
    const file = join(root, 'tf32.json')
    savePlan(file, plan.plan)
    const again = named({ plan: file })
    assert.equal([again.plan.precision, again.machine.precision], ['tf32', 'tf32'])
    assert.equal(
      [wide, again].map((p) => identityOf(p, 1, 'none', undefined).algorithms),
      ['fixed', 'fixed, tf32'],
    )
    const refused = stageNamed('resnet20-cifar', { plan: file, precision: 'fp32' })
    assert.ok(isLeft(refused) && errorText(refused.left).startsWith('--precision cannot be used with --plan'))
  },
)

const CONVOLUTION = [
  'conv2d',
  { strideH: 1, strideW: 1, padTop: 1, padLeft: 1, padBottom: 1, padRight: 1, dilationH: 1, dilationW: 1, groups: 1 },
  {
    ins: [
      [1, 4, 6, 6],
      [4, 4, 3, 3],
    ],
    outs: [[1, 4, 6, 6]],
  },
] as const

const machineWith = (algorithms: Algorithms): LocalMachine => {
  const machine = machineNamed('cuda', { algorithms })
  if (isLeft(machine)) throw new Error(JSON.stringify(machine.left))
  return machine.right
}

test('the device reports the properties that staging declares', () => {
  const { kernels, ...said } = loadNative().describeDevice('cuda')
  const { dtype, precisions, gathersUpdates } = devices.cuda
  assert.equal({ ...said, name: 'cuda' }, { name: 'cuda', dtype, precisions, gathersUpdates })
  assert.ok(opDefs.every((op) => kernels.includes(op.kind)))
})

gateTest('the fastest repeatable algorithm is chosen, among all only by option, and kept for the next process', () => {
  process.env.XDG_CACHE_HOME = join(root, 'ways')
  const [kind, attrs, shapes] = CONVOLUTION
  const measured = machineWith('measured')
  const ways = measured.choices!(kind, attrs, shapes)
  assert.equal(
    ways.map((w) => w.way),
    [0, 2, 1],
  )
  const [direct, , second] = ways
  assert.is(second!.workspace, direct!.workspace + 4096)
  assert.is(fastest(measured, kind, attrs, shapes).way, 1)
  assert.is(fastest(machineWith('fastest'), kind, attrs, shapes).way, 3)
  assert.is(machineWith('fixed').choices, undefined)
  assert.equal(
    measured.choices!('relu', { slope: 0 }, { ins: [[1, 4, 6, 6]], outs: [[1, 4, 6, 6]] }).map((w) => w.way),
    [0],
  )

  measured.saveProfile()
  const [file] = readdirSync(join(root, 'ways', 'spillway'))
  const path = join(root, 'ways', 'spillway', file!)
  const profile = JSON.parse(readFileSync(path, 'utf8')) as { readonly seconds: Record<string, number> }
  const third = Object.keys(profile.seconds).filter((key) => key.startsWith('conv2d') && key.endsWith(' way 2'))
  assert.is(third.length, 1)
  writeFileSync(path, JSON.stringify({ ...profile, seconds: { ...profile.seconds, [third[0]!]: 1e-9 } }))
  assert.is(fastest(machineWith('measured'), kind, attrs, shapes).way, 2)
  process.env.XDG_CACHE_HOME = join(root, 'cache')
})

/** Scales the measured times of calls. */
const scaleProfile = (cache: string, by: (key: string) => number): void => {
  const [file] = readdirSync(join(cache, 'spillway'))
  const path = join(cache, 'spillway', file!)
  const profile = JSON.parse(readFileSync(path, 'utf8')) as { readonly seconds: Record<string, number> }
  const seconds = Object.fromEntries(Object.entries(profile.seconds).map(([key, s]) => [key, s * by(key)]))
  writeFileSync(path, JSON.stringify({ ...profile, seconds }))
}

gateTest('algorithms are part of the plan, and repeat the same bits', async () => {
  const fixed = await trained(classifier, staged(classifier, { ...ON, strategy: 'in-core' }), { steps: STEPS })
  process.env.XDG_CACHE_HOME = join(root, 'ways')
  const planned = (): Staged => staged(classifier, { ...ON, strategy: 'in-core', algorithms: 'measured' })
  planned()
  scaleProfile(join(root, 'ways'), (key) => (/ way 1( |$)/.test(key) ? 1e-3 : 1))
  const plan = planned()
  process.env.XDG_CACHE_HOME = join(root, 'cache')
  const ways = plan.plan.calls.filter((c) => c.kind.startsWith('conv2d')).map((c) => c.way)
  assert.ok(ways.includes(1), String(ways))
  assert.is((await trained(classifier, plan, { steps: STEPS })).weightsSha256, fixed.weightsSha256)
})

gateTest(
  'steps tell what their calls take: what is said of later plans follows, in later processes too, and which plan is chosen stays',
  async () => {
    process.env.XDG_CACHE_HOME = join(root, 'steps')
    const budget = 64 * 2 ** 20
    const planned = (): Staged => staged(classifier, { ...ON, budget, algorithms: 'measured' })
    planned()
    // Single calls have a thousand times their measured times: the basis of plans, before and after.
    scaleProfile(join(root, 'steps'), () => 1000)
    const before = planned()
    const inCore = (): Staged => staged(classifier, { ...ON, budget, strategy: 'in-core', algorithms: 'measured' })
    const kept = inCore()
    const seconds: number[] = []
    await trained(classifier, kept, {
      steps: 2,
      onProgress: (p) => {
        if (p.kind === 'step') seconds.push(p.seconds)
      },
    })
    const [again, after] = [inCore(), planned()]
    const sum = (p: Staged): number => p.plan.calls.reduce((n, c) => n + c.seconds, 0)
    const [, second] = seconds
    assert.ok(sum(kept) > 100 * second!, `${sum(kept)} s said, ${second} s taken`)
    assert.ok(sum(again) <= second! && sum(again) > 0.3 * second!, `${sum(again)} s said after a step of ${second} s`)
    const chosen = ({ plan }: Staged): string => JSON.stringify({ ...plan, calls: plan.calls.map((c) => ({ ...c, seconds: 0 })) })
    assert.ok(chosen(again) === chosen(kept) && chosen(after) === chosen(before), 'the same plans but for the seconds')
    assert.ok(sum(after) < sum(before), 'the calls that both plans make take what they took')
    process.env.XDG_CACHE_HOME = join(root, 'cache')
  },
)

test("the driver's count of device memory is reported", async () => {
  const r = await inCoreOnce()
  assert.ok(r.deviceMemory && r.deviceMemory.poolBytes > 0 && r.deviceMemory.poolBytes <= r.budgetBytes)
  assert.is((await trained(trunk, staged(trunk, { strategy: 'in-core' }), { steps: 1 })).deviceMemory, undefined)
})

fullTest('a classifier trains', async () => {
  const plan = tryStage(classifier, { ...ON, loss: crossEntropy })
  if (isLeft(plan)) throw new Error(JSON.stringify(plan.left))
  const r = await trained(classifier, plan.right, { steps: 8 })
  assert.ok(r.losses[7]! < r.losses[0]!, String(r.losses))
})

/** A weight of 4 MiB, and one of 2.25 MiB. */
const heavy = model([2, 256, 4, 4], seq(conv2d('c1', 256, 3), relu(), flatten(), linear('fc1', 256), relu(), linear('fc2', 4)))

gateTest('weights in parts train as in-core, up to rounding', async () => {
  const plan = (o: StageOptions) => tryStage(heavy, { ...ON, algorithms: 'fixed', ...o })
  const refused = plan({ budget: PAGE_BYTES, effort: 0.1 })
  if (!isLeft(refused) || refused.left.tag !== 'BudgetInfeasible') throw new Error('a page was enough')
  const [parts, whole] = [plan({ budget: refused.left.smallestBytes, effort: 0.1 }), plan({ strategy: 'in-core' })]
  if (isLeft(parts)) throw new Error(JSON.stringify(parts.left))
  if (isLeft(whole)) throw new Error(JSON.stringify(whole.left))
  assert.ok(parts.right.plan.graph.inParts)
  const [a, again, b] = [
    await trained(heavy, parts.right, { steps: STEPS }),
    await trained(heavy, parts.right, { steps: STEPS }),
    await trained(heavy, whole.right, { steps: STEPS }),
  ]
  assert.equal([a.losses, a.weightsSha256], [again.losses, again.weightsSha256])
  assert.is(a.arenaPeakBytes, a.peakBytes)
  a.losses.forEach((x, i) => assert.ok(Math.abs(x - b.losses[i]!) <= 1e-4 * b.losses[i]!, `${a.losses} ${b.losses}`))
})

test.run()
