// timeout 600
// The lower bound: no plan of any strategy is below it, on random networks and on one of the zoo; it grows as memory shrinks; it covers
// networks without norms, several ranks and a limited lower tier; a machine that is measured has none.
import { isLeft, isRight } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { batchNorm, conv2d, crossEntropy, globalAvgPool, linear, model, relu, residual, seq } from '../../dsl'
import { machineNamed } from '../../src/machine/machine'
import { leastSeconds } from '../../src/stage/least'
import { prepare } from '../../src/stage/prepare'
import { barriersOf, chosenOf } from '../../staging/bound/barriers'
import { lowerBoundOf } from '../../staging/bound/lowerbound'
import { compile } from '../../staging/compile'
import { bytesOf, mib } from '../../staging/core/bytes'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import type { Ref } from '../../staging/ops/op'
import { computeSeconds, mostPages } from '../../staging/schedule/bound'
import { inCoreLayout } from '../../staging/schedule/incore'
import { strategies } from '../../staging/planner/strategies'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { FULL, gateTest } from '../full'
import { trainingGraph } from '../golden/golden'
import { samePad, Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'

const machine = machines['v100-pcie-16g']!
const ROUNDING = 1e-9
const CHANNELS = 1024

const LAYERS = ['conv', 'conv', 'point', 'strided', 'relu', 'norm', 'add', 'pool', 'mean'] as const
interface Layer {
  readonly kind: (typeof LAYERS)[number]
  /** Its place before the last value. */
  readonly of: number
  readonly with: number
}

/** The mean over each image. */
const mean = (s: Sketch, x: Ref, name: string): Ref => {
  const [, , h, w] = s.b.shape(x)
  return s.op('global_avg_pool', { count: h! * w! }, [x], name)
}

const added = (s: Sketch, { kind }: Layer, x: Ref, other: Ref, name: string): Ref => {
  const grouped = { groups: CHANNELS }
  switch (kind) {
    case 'conv':
      return s.conv(x, name, CHANNELS, 3, { ...samePad(3), ...grouped }, false)
    case 'point':
      return s.conv(x, name, CHANNELS, 1, grouped, false)
    case 'strided':
      return s.conv(x, name, CHANNELS, 1, { ...grouped, strideH: 2 }, false)
    case 'relu':
      return s.relu(x, name)
    case 'norm':
      return s.norm(x, name)
    case 'add':
      return s.op('add', {}, [x, other], name)
    case 'pool':
      return s.op('max_pool', { kernelH: 2, kernelW: 2, strideH: 2, strideW: 2, padTop: 0, padLeft: 0, ceil: 0 }, [x], name)
    case 'mean':
      return mean(s, x, name)
  }
}

/** Values of a quarter of a page to eight pages; layers that do not fit their inputs are left out. */
const networkOf = (layers: readonly Layer[], batch: number, isNormed: boolean, readsOnce: boolean): Graph => {
  const s = new Sketch([batch, CHANNELS, 16, 16], 'random')
  // The next image can take the place of one that only the first op reads.
  const made: Ref[] = [readsOnce ? s.relu(s.image, 'begin') : s.image]
  const back = (k: number): Ref => made[Math.max(0, made.length - 1 - k)]!
  layers.forEach((l, i) => {
    const [x, other] = [back(l.of), back(l.with)]
    const [, , h, w] = s.b.shape(x)
    const fits = l.kind === 'add' ? s.b.shape(x).join() === s.b.shape(other).join() : h! > 1 && w! > 1
    if (fits) made.push(added(s, l, x, other, `l${i}`))
  })
  const [images, , rows, columns] = s.b.shape(back(0))
  const last = isNormed && images! * rows! * columns! > 1 ? s.norm(back(0), 'end') : back(0)
  return trained(s, s.conv(last, 'last', CHANNELS, 1, { groups: CHANNELS }, false))
}

const cases = fc.record({
  layers: fc.array(
    fc.record({ kind: fc.constantFrom(...LAYERS), of: fc.constantFrom(0, 0, 0, 1, 2), with: fc.nat({ max: 4 }) }),
    { minLength: 2, maxLength: 7 },
  ),
  batch: fc.constantFrom(1, 2, 4),
  isNormed: fc.constantFrom(true, true, false),
  readsOnce: fc.constantFrom(true, true, false),
  faster: fc.constantFrom(1, 10, 100),
  fullDuplex: fc.boolean(),
  tierPages: fc.constantFrom(Infinity, Infinity, 4, 10),
  share: fc.constantFrom(1, 0.7, 0.55, 0.45, 0.35),
})

const machineOf = ({ faster, fullDuplex, tierPages }: { faster: number; fullDuplex: boolean; tierPages: number }): Machine => ({
  ...machine,
  link: {
    ...machine.link,
    latencySeconds: 1e-7,
    fullDuplex,
    outBytesPerSecond: machine.link.outBytesPerSecond * faster,
    inBytesPerSecond: machine.link.inBytesPerSecond * faster,
    ...(Number.isFinite(tierPages) ? { bytes: bytesOf(tierPages) } : {}),
  },
})

const RUNS = FULL ? 100 : 5

test('no strategy is faster than the bound of a random network, in any budget', async () => {
  const least = await leastSeconds()
  let [planned, programmes] = [0, 0]
  fc.assert(
    fc.property(cases, ({ layers, batch, isNormed, readsOnce, share, ...link }) => {
      const graph = networkOf(layers, batch, isNormed, readsOnce)
      const on = machineOf(link)
      const budgetBytes = bytesOf(Math.max(1, Math.floor(mostPages(inCoreLayout(graph, on)) * share)))
      const { seconds, isCompute } = least(graph, on, budgetBytes)!
      const steps = strategies.flatMap((strategy) => {
        const plan = compile(graph, { strategy, machine: on, budgetBytes, algorithms: 'fixed' })
        return isLeft(plan) ? [] : [simulate(plan.right, on.link).makespanSeconds]
      })
      for (const step of steps) assert.ok(step >= seconds * (1 - ROUNDING), `${step} below ${seconds}`)
      planned += steps.length
      if (!isCompute && steps.length > 0) programmes++
    }),
    { numRuns: RUNS, seed: 7 },
  )
  // The property holds for plans with a bound above their compute.
  assert.ok(planned > 2 * RUNS && programmes >= RUNS / 10, `${planned} plans, ${programmes} bounds by programmes`)
})

const unit = <N extends string>(name: N) => seq(conv2d(`${name}.conv`, 64, 3, { pad: 1, bias: false }), batchNorm(`${name}.bn`))
const block = <N extends string>(name: N) =>
  seq(residual(seq(unit(`${name}.a`), relu(), unit(`${name}.b`)), unit(`${name}.shortcut`)), relu())

/** A small network with norms. */
const normed = (): Graph => {
  const body = seq(unit('stem'), relu(), block('r1'), block('r2'), block('r3'))
  const net = model([512, 3, 32, 32], seq(body, globalAvgPool('pool'), linear('head', 3)))
  const on = machineNamed('v100-pcie-16g')
  assert.ok(isRight(on))
  const prepared = prepare(net, on.right, { loss: crossEntropy })
  assert.ok(isRight(prepared))
  return prepared.right.graph
}

test('the bound grows as memory shrinks, and no plan of a network with norms is below it', async () => {
  const least = await leastSeconds()
  const graph = normed()
  const layout = inCoreLayout(graph, machine)
  const bounds = [2, 1 / 4, 1 / 8].map((share) => {
    const budgetBytes = bytesOf(Math.floor(mostPages(layout) * share))
    const { seconds } = least(graph, machine, budgetBytes)!
    const plan = compile(graph, { strategy: 'auto', machine, budgetBytes, effort: 0.3 })
    if (isRight(plan)) assert.ok(simulate(plan.right, machine.link).makespanSeconds >= seconds)
    return seconds / computeSeconds(layout)
  })
  bounds.forEach((b, i) => i > 0 && assert.ok(b >= bounds[i - 1]! * (1 - ROUNDING), `${bounds}`))
  assert.ok(bounds.at(-1)! > 1.05, `${bounds}`)
})

test('the chosen barriers are a chain with the last statistics of the forward pass', () => {
  const graph = trainingGraph('resnet20-cifar', [512, 3, 32, 32])
  const all = barriersOf(graph)
  assert.ok(all.ops.length > 20 && all.parts === 1)
  const six = chosenOf(graph, all, 6)
  assert.is(six.ops.length, 6)
  // The last statistics of the forward pass are one of them.
  assert.ok(six.ops.includes(all.ops.filter((op) => op.phase !== 'backward').at(-1)!))
  // Each needs the one before it.
  six.ops.forEach((op, i) => assert.is(six.before[op.id], i))
})

const plain = (batch: number): Graph => {
  const s = new Sketch([batch, 64, 128, 128])
  const layers = Array.from({ length: 6 }, (_, i) => i)
  const x = layers.reduce<Ref>((y, i) => s.relu(s.conv(y, `c${i}`, 64), `r${i}`), s.image)
  return trained(s, s.linear(mean(s, x, 'mean'), 'head', 4))
}

gateTest('without norms, a mean over each image is a barrier: the bound of one image exceeds its compute', async () => {
  const least = await leastSeconds()
  for (const batch of [1, 8]) {
    const graph = plain(batch)
    assert.ok(barriersOf(graph).ops.length > 0)
    assert.is(barriersOf(graph).parts, batch)
    // All memory may serve one image at a time.
    const budgetBytes = mib(10)
    const { seconds, isCompute } = least(graph, machine, budgetBytes)!
    assert.is(isCompute, false, `batch ${batch}`)
    const plan = compile(graph, { strategy: 'auto', machine, budgetBytes })
    if (isRight(plan)) assert.ok(simulate(plan.right, machine.link).makespanSeconds >= seconds)
  }
})

test('without any barrier, the bound is the compute alone', async () => {
  const least = await leastSeconds()
  const s = new Sketch([4, 2, 16, 16])
  const graph = trained(s, s.relu(s.conv(s.image, 'c1', 4), 'r1'))
  const bound = least(graph, machine, mib(4))!
  assert.is(bound.isCompute, true)
  assert.ok(Math.abs(bound.seconds / computeSeconds(inCoreLayout(graph, machine)) - 1) < 1e-9)
})

test('a smaller lower tier raises the bound', async () => {
  const least = await leastSeconds()
  const graph = normed()
  const budgetBytes = bytesOf(Math.floor(mostPages(inCoreLayout(graph, machine)) / 8))
  const within = (bytes?: number): number =>
    least(graph, bytes === undefined ? machine : { ...machine, link: { ...machine.link, bytes } }, budgetBytes)!.seconds
  assert.ok(within(mib(20)) > within() * 1.01, `${within(mib(20))} for ${within()}`)
})

test('a machine whose times are measured has no bound', () => {
  assert.is(lowerBoundOf(plain(1), { ...machine, simulated: false }, mib(64)), undefined)
})

test('exchanges between ranks may run beside the rest: no plan of theirs is below the bound', async () => {
  const least = await leastSeconds()
  const net = model(
    [64, 3, 64, 64],
    seq(unit('stem'), relu(), block('r1'), block('r2'), globalAvgPool('pool'), linear('head', 3)),
  )
  for (const network of ['nvlink-v100', 'ethernet-25g'] as const) {
    const on = machineNamed('v100-pcie-16g', { ranks: 4, network })
    assert.ok(isRight(on))
    const prepared = prepare(net, on.right, { loss: crossEntropy })
    assert.ok(isRight(prepared))
    const { graph } = prepared.right
    const plan = compile(graph, { strategy: 'auto', machine: on.right, budgetBytes: mib(4096) })
    assert.ok(isRight(plan) && plan.right.calls.some((c) => c.beside))
    const { seconds } = least(graph, on.right, mib(4096))!
    const { makespanSeconds } = simulate(plan.right, on.right.link)
    assert.ok(seconds <= makespanSeconds && seconds > 0.9 * makespanSeconds, `${seconds} for ${makespanSeconds} over ${network}`)
  }
})

test.run()
