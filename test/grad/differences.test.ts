// The wiring of the gradient pass against finite differences: random networks of linear (with weights of its own or another
// layer's), relu, add, concat,
// slices and shuffles of channels on [B,C,1,1], one objective or two, run by a few lines of arithmetic that stand here. Kernels have their own tests; this one is about who gets which gradient.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { elementsOf } from '../../staging/core/box'
import { training } from '../../staging/grad/grad'
import type { Graph, Op } from '../../staging/graph/graph'
import type { Ref } from '../../staging/ops/op'
import { must, Sketch, trainingFrom } from '../graph/sketch'

type Tensor = readonly number[]
type Kernel = (op: Op, ins: readonly Tensor[], shapes: readonly (readonly number[])[]) => readonly Tensor[]

const zip =
  (f: (a: number, b: number) => number) =>
  (a: Tensor, b: Tensor): Tensor =>
    a.map((v, i) => f(v, b[i]!))
const plus = zip((a, b) => a + b)
const range = (n: number): number[] => [...Array(n).keys()]
/** c[i][j] = sum over k of a(i, k) * b(k, j). */
const product = (
  n: number,
  inner: number,
  m: number,
  a: (i: number, k: number) => number,
  b: (k: number, j: number) => number,
): Tensor => range(n).flatMap((i) => range(m).map((j) => range(inner).reduce((s, k) => s + a(i, k) * b(k, j), 0)))
const channels = (x: Tensor, c: number, from: number, to: number): readonly Tensor[] =>
  range(x.length / c).map((i) => x.slice(i * c + from, i * c + to))

const shuffled = (x: Tensor, c: number, groups: number): Tensor =>
  channels(x, c, 0, c).flatMap((p) => range(c).map((i) => p[(i % groups) * (c / groups) + Math.floor(i / groups)]!))

const kernels: Readonly<Record<string, Kernel>> = {
  linear: (_, [x, w, b], [xs, ws]) => {
    const [o, c] = ws as [number, number]
    return [
      product(
        xs![0]!,
        c,
        o,
        (i, k) => x![i * c + k]!,
        (k, j) => w![j * c + k]!,
      ).map((v, i) => v + b![i % o]!),
    ]
  },
  linear_bwd_data: (_, [dy, w], [dys, ws]) => {
    const [o, c] = ws as [number, number]
    return [
      product(
        dys![0]!,
        o,
        c,
        (i, k) => dy![i * o + k]!,
        (k, j) => w![k * c + j]!,
      ),
    ]
  },
  linear_bwd_weights: (_, [x, dy], [xs, dys]) => {
    const [batch, c] = xs as [number, number]
    const o = dys![1]!
    return [
      product(
        o,
        batch,
        c,
        (i, k) => dy![k * o + i]!,
        (k, j) => x![k * c + j]!,
      ),
      range(o).map((j) => range(batch).reduce((s, k) => s + dy![k * o + j]!, 0)),
    ]
  },
  relu: (op, [x]) => [x!.map((v) => (v > 0 ? v : v * op.attrs.slope!))],
  relu_bwd: (op, [y, dy]) => [y!.map((v, i) => dy![i]! * (v > 0 ? 1 : op.attrs.slope!))],
  add: (_, ins) => [ins.reduce(plus)],
  grad_sum: (_, ins) => [ins.reduce(plus)],
  concat: (_, ins, shapes) => [
    range(shapes[0]![0]!).flatMap((i) => ins.flatMap((x, k) => channels(x, shapes[k]![1]!, 0, shapes[k]![1]!)[i]!)),
  ],
  slice_channels: (op, [dy], shapes) => [
    channels(dy!, shapes[0]![1]!, op.attrs.from!, op.attrs.from! + shapes.at(-1)![1]!).flat(),
  ],
  take_channels: (op, [x], shapes) => [channels(x!, shapes[0]![1]!, op.attrs.from!, op.attrs.from! + op.attrs.count!).flat()],
  put_channels: (op, [dy], shapes) => [
    channels(dy!, shapes[0]![1]!, 0, shapes[0]![1]!).flatMap((part) => {
      const pixel = Array<number>(op.attrs.channels!).fill(0)
      pixel.splice(op.attrs.from!, part.length, ...part)
      return pixel
    }),
  ],
  shuffle_channels: (op, [x], shapes) => [shuffled(x!, shapes[0]![1]!, op.attrs.groups!)],
  shuffle_channels_bwd: (op, [dy], shapes) => [shuffled(dy!, shapes[0]![1]!, shapes[0]![1]! / op.attrs.groups!)],
  param_grad_sum: (_, ins) => [ins.reduce(plus)],
  mse: (op, [x, t]) => [
    [(op.attrs.weight! * x!.reduce((s, v, i) => s + (v - (t?.[i] ?? op.attrs.constant!)) ** 2, 0)) / op.attrs.count!],
  ],
  mse_bwd: (op, [x, t]) => [x!.map((v, i) => (2 * op.attrs.weight! * (v - (t?.[i] ?? op.attrs.constant!))) / op.attrs.count!)],
}

/** Every value of a step, updates left out. */
const run = (g: Graph, leaves: ReadonlyMap<number, Tensor>): Map<number, Tensor> => {
  const at = new Map(leaves)
  for (const op of g.ops.filter((o) => o.phase !== 'update')) {
    const outs = kernels[op.kind]!(
      op,
      op.ins.map((v) => at.get(v)!),
      [...op.ins, ...op.outs].map((v) => g.values[v]!.shape),
    )
    for (const [i, v] of op.outs.entries()) at.set(v, outs[i]!)
  }
  return at
}

/** Instructions (kind, first operand, second operand) over the values so far. */
const programs = fc.array(
  fc.tuple(
    fc.constantFrom('linear', 'again', 'relu', 'add', 'concat', 'take', 'shuffle'),
    fc.nat(100),
    fc.nat(100),
    fc.integer({ min: 1, max: 3 }),
  ),
  { minLength: 1, maxLength: 9 },
)

type Program = readonly (readonly [string, number, number, number])[]

interface Drawn {
  readonly s: Sketch
  readonly made: readonly Ref[]
  readonly out: Ref
}

/** All channels from one on; or all, shuffled in as many groups as they divide into. */
const channelsOf = (s: Sketch, kind: 'take' | 'shuffle', x: Ref, b: number, layer: string): Ref => {
  const c = s.shape(x)[1]!
  const groups = [2, 3, 5, 7].find((n) => c % n === 0) ?? 1
  return kind === 'take'
    ? s.op('take_channels', { from: b % c, count: c - (b % c) }, [x], layer)
    : s.op('shuffle_channels', { groups }, [x], layer)
}

const drawn = (program: Program): Drawn => {
  const s = new Sketch([2, 3, 1, 1])
  const made: Ref[] = [s.linear(s.image, 'stem', 3)]
  const weights: (readonly [Ref, Ref])[] = []
  const linear = (x: Ref, layer: string, width: number): Ref => {
    const pair = [s.weight(`${layer}.weight`, [width, s.shape(x)[1]!]), s.weight(`${layer}.bias`, [width])] as const
    weights.push(pair)
    return s.op('linear', {}, [x, ...pair], layer)
  }
  for (const [i, [kind, a, b, width]] of program.entries()) {
    const x = made[a % made.length]!
    const like = made.filter((v) => s.shape(v)[1] === s.shape(x)[1])
    const fitting = weights.filter(([w]) => s.shape(w)[1] === s.shape(x)[1])
    const layer = `${kind}${i}`
    made.push(
      kind === 'linear' || (kind === 'again' && fitting.length === 0)
        ? linear(x, layer, width)
        : kind === 'again'
          ? s.op('linear', {}, [x, ...fitting[b % fitting.length]!], layer)
          : kind === 'relu'
            ? s.op('relu', { slope: 0.3 }, [x], layer)
            : kind === 'add'
              ? s.op('add', {}, [x, like[b % like.length]!], layer)
              : kind === 'take' || kind === 'shuffle'
                ? channelsOf(s, kind, x, b, layer)
                : s.op('concat', {}, [x, made[b % made.length]!, s.image], layer),
    )
  }
  // Everything leads to the output.
  return { s, made, out: made.length === 1 ? made[0]! : s.op('concat', {}, made, 'all') }
}

const plain = { kind: 'sgd', lr: 0.1, momentum: 0, weightDecay: 0, nesterov: false } as const

const network = (program: Program): Graph => {
  const { s, out } = drawn(program)
  return must(trainingFrom(s.b.build(), out, { loss: 'mse', dtype: 'f64', optimizer: plain }))
}

/** Two objectives, each over every other parameter; one of them also pulls two values together, the second held. */
const twoObjectives = (program: Program): Graph => {
  const { s, made, out } = drawn(program)
  const forward = s.b.build()
  const params = forward.values.flatMap((v) => (v.role === 'param' ? [v.id] : []))
  const last = made[made.length - 1]!
  const like = made.find((v) => s.shape(v)[1] === s.shape(last)[1])!
  return must(
    training(
      {
        graph: forward,
        detached: [],
        objectives: [
          {
            name: 'even',
            optimizer: plain,
            updates: {},
            params: new Map(params.filter((_, i) => i % 4 < 2).map((v) => [v, plain])),
            terms: [
              { name: 'even.out', loss: 'mse', of: out, to: { constant: 1 }, weight: 0.5 },
              { name: 'even.pull', loss: 'mse', of: last, to: { value: like, detached: true }, weight: 2 },
            ],
          },
          {
            name: 'odd',
            optimizer: plain,
            updates: {},
            params: new Map(params.filter((_, i) => i % 4 >= 2).map((v) => [v, plain])),
            terms: [{ name: 'odd.out', loss: 'mse', of: out, to: { constant: -1 }, weight: 3 }],
          },
        ],
      },
      { dtype: 'f64' },
    ),
  )
}

/** Holds each gradient against the slope of the losses that it is the gradient of; computed targets stay as they are. */
const slopesOf = (g: Graph, lossesOf: (param: string) => readonly string[], random: () => number): void => {
  const made = new Set(g.ops.flatMap((o) => o.outs))
  const leaves = new Map(g.values.filter((v) => !made.has(v.id)).map((v) => [v.id, range(elementsOf(v.shape)).map(random)]))
  const at = run(g, leaves)
  const loss = (names: readonly string[], changed: Map<number, Tensor>): number => {
    const now = run(g, changed)
    const held = (op: Op): number =>
      kernels.mse!(
        op,
        [
          now.get(op.ins[0]!)!,
          ...(op.ins[1] === undefined ? [] : [made.has(op.ins[1]) ? at.get(op.ins[1])! : now.get(op.ins[1])!]),
        ],
        [],
      )[0]![0]!
    return g.ops.filter((o) => o.phase === 'loss' && names.includes(o.layer)).reduce((n, o) => n + held(o), 0)
  }
  for (const update of g.ops.filter((o) => o.phase === 'update')) {
    const [w, dw] = update.ins as [number, number]
    const names = lossesOf(g.values[dw]!.name)
    const direction = leaves.get(w)!.map((_, i) => ((i * 7 + 3) % 5) - 2)
    const slope = direction.reduce((s, d, i) => s + d * at.get(dw)![i]!, 0)
    const eps = 1e-6
    const moved = (sign: number): number =>
      loss(
        names,
        new Map(leaves).set(
          w,
          leaves.get(w)!.map((v, i) => v + sign * eps * direction[i]!),
        ),
      )
    const [up, here, down] = [moved(1), loss(names, leaves), moved(-1)]
    const kink = Math.abs(up - here - (here - down)) > 1e-3 * Math.abs(up - down) + 1e-10
    if (!kink)
      assert.ok(Math.abs((up - down) / (2 * eps) - slope) <= 1e-5 * (1 + Math.abs(slope)), `${g.values[w]!.name}: ${slope}`)
  }
}

const numbers = fc.infiniteStream(fc.integer({ min: -900, max: 900 }))

test("each parameter's gradient is the slope of the loss", () => {
  fc.assert(
    fc.property(programs, numbers, (program, random) => {
      slopesOf(
        network(program),
        () => ['loss'],
        () => (random.next().value as number) / 1000,
      )
    }),
    { numRuns: 150, seed: 17 },
  )
})

test('with two objectives it is the slope of its own, constants held', () => {
  fc.assert(
    fc.property(
      programs.filter((p) => p.some(([kind]) => kind === 'linear')),
      numbers,
      (program, random) => {
        const g = twoObjectives(program)
        const of = (gradient: string): readonly string[] =>
          gradient.includes('.grad.even') ? ['even.out', 'even.pull'] : ['odd.out']
        slopesOf(g, of, () => (random.next().value as number) / 1000)
      },
    ),
    { numRuns: 150, seed: 18 },
  )
})

test('the kernels of this test equal the op table', () => {
  const g = network([
    ['relu', 0, 0, 1],
    ['concat', 0, 1, 1],
    ['add', 1, 1, 1],
    ['linear', 2, 0, 2],
    ['again', 2, 0, 2],
    ['take', 2, 1, 1],
    ['shuffle', 2, 0, 1],
  ])
  assert.equal(new Set(g.ops.filter((o) => o.phase !== 'update').map((o) => o.kind)), new Set(Object.keys(kernels)))
})

test.run()
