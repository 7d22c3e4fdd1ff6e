// Steps: shapes while typing, one set of weights for a net that is applied again, detached edges, and refusals in words.
import { type Either, isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  add,
  apply,
  asTrainable,
  batchNorm,
  conv2d,
  crossEntropy,
  detach,
  elaborate,
  fed,
  fedOf,
  joined,
  loss,
  minimize,
  mse,
  multiply,
  relu,
  seq,
  sgd,
  step,
} from '../../dsl'
import type { Net, Tensor, TrainingStep } from '../../dsl'
import { type GraphError, renderError } from '../../staging/core/errors'
import { training } from '../../staging/grad/grad'

const rightOf = <T>(e: Either<GraphError, T>): T => {
  if (isLeft(e)) throw new Error(renderError(e.left))
  return e.right
}
const optimizer = sgd({ lr: 0.1 })
const image = fed('image', [2, 3, 8, 8])
const over = (net: Net, of: Tensor = apply(net, image)): TrainingStep =>
  step(minimize('all', { over: net, optimizer, losses: { one: loss(mse, of, 1) } }))
const words = (s: TrainingStep): string => {
  const e = elaborate(s)
  if (isLeft(e)) return renderError(e.left)
  const t = training(e.right)
  return isLeft(t) ? renderError(t.left) : 'nothing is wrong'
}

test('shapes are known while typing and checked at run time', () => {
  const half = seq(conv2d('c', 6, 3, { stride: 2 }), relu())
  const shape: [2, 6, 4, 4] = apply(half, image).shape
  assert.equal(shape, [2, 6, 4, 4])
  const sideBySide: [2, 6, 8, 8] = joined(image, image).shape
  assert.equal(sideBySide, [2, 6, 8, 8])
  // A function that ignores the construction of its tensor keeps it in the types of its result.
  const twice = <M>(x: Tensor<[2, 6, 4, 4], M>) => joined(x, apply(seq(relu()), x))
  const channels: 12 = twice(apply(half, image)).shape[1]
  assert.is(channels, 12)
  const by: 'image' | undefined = twice(apply(half, image)).parts[0].made?.of[0].made?.by
  assert.is(by, undefined)
  assert.throws(
    // @ts-expect-error the second is half as large
    () => joined(image, apply(half, image)),
    /the first branch gives \[2,3,8,8\] but branch 2 gives \[2,6,4,4\]; only the channels may differ/,
  )
  assert.throws(
    // @ts-expect-error three channels do not divide into two groups
    () => apply(conv2d('c', 8, 3, { groups: 2 }), image),
    /layer 'c' \(conv2d\): 3 input channels do not divide into 2 groups/,
  )
})

test('tensors are added and multiplied where their shapes allow it', () => {
  const narrow = conv2d('c', 6, 3)
  const [x, gate, map] = [apply(narrow, image), fed('gate', [2, 6, 1, 1]), fed('map', [2, 1, 8, 8])]
  const shape: [2, 6, 8, 8] = add(multiply(multiply(x, gate), map), multiply(x, x)).shape
  assert.equal(shape, [2, 6, 8, 8])
  const s = over(narrow, add(multiply(multiply(x, gate), map), multiply(x, x)))
  const { graph, layers } = rightOf(elaborate(s))
  assert.equal(
    graph.ops.map((o) => [o.kind, o.layer, o.attrs['over']]),
    [
      ['conv2d', 'c', undefined],
      ['multiply', 'multiplied', 1],
      ['multiply', 'multiplied2', 2],
      ['multiply', 'multiplied3', 0],
      ['add', 'added', undefined],
    ],
  )
  assert.equal(
    layers.map((l) => l.name),
    ['c', 'multiplied', 'multiplied2', 'multiplied3', 'added'],
  )
  assert.equal(rightOf(asTrainable(s)), s)
  // @ts-expect-error six channels and three
  assert.throws(() => add(x, image), /a tensor of \[2,3,8,8\] cannot be added to one of \[2,6,8,8\]/)
  assert.throws(
    // @ts-expect-error a factor for each of three channels
    () => multiply(x, fed('three', [2, 3, 1, 1])),
    /a factor of \[2,3,1,1\] does not fit a tensor of \[2,6,8,8\]; allowed: that shape, or one value per channel/,
  )
  assert.match(
    words(over(narrow, multiply(x, detach(x)))),
    /multiplied: it takes one tensor both plain and detached; use one of them/,
  )
})

test('a net that is applied again has one set of weights', () => {
  const net = conv2d('c', 3, 3)
  const { graph, objectives } = rightOf(elaborate(over(net, apply(net, apply(net, image)))))
  assert.equal(
    graph.values.filter((v) => v.role === 'param').map((v) => v.name),
    ['c.weight', 'c.bias'],
  )
  assert.equal(
    graph.ops.map((o) => o.layer),
    ['c', 'c#2'],
  )
  assert.is(objectives[0]!.params.size, 2)
  const other = seq(conv2d('c', 3, 3))
  assert.is(words(over(net, apply(other, apply(net, image)))), "two values are named 'c.weight'; give each param its own name")
})

test('a detached value passes no gradient', () => {
  const [a, b] = [conv2d('a', 3, 3), conv2d('b', 3, 3)]
  const both = (held: boolean): TrainingStep => {
    const x = apply(a, image)
    return step(minimize('all', { over: [a, b], optimizer, losses: { one: loss(mse, apply(b, held ? detach(x) : x), 1) } }))
  }
  const updated = (s: TrainingStep): readonly string[] => {
    const e = rightOf(elaborate(s))
    const g = rightOf(training(e))
    return g.ops
      .filter((o) => o.phase === 'update')
      .map((o) => g.values[o.ins[0]!]!.name)
      .sort()
  }
  assert.equal(updated(both(false)), ['a.bias', 'a.weight', 'b.bias', 'b.weight'])
  assert.equal(updated(both(true)), ['b.bias', 'b.weight'])
})

test('each refusal names the legal values', () => {
  const [net, idle] = [conv2d('c', 4, 3), conv2d('idle', 4, 3)]
  assert.is(words(step()), 'not a model: step: it has no objectives')
  assert.match(
    words(step(minimize('all', { over: idle, optimizer, losses: { one: loss(mse, apply(net, image), 1) } }) as never)),
    /objective 'all': it trains a net of kind 'conv2d' that no loss depends on; allowed: nets that the step applies/,
  )
  assert.match(words(step(minimize('all', { over: net, optimizer, losses: {} }) as never)), /allowed: /)
  const twice = (name: string) => minimize(name, { over: net, optimizer, losses: { one: loss(mse, applied, 1) } })
  const applied = apply(net, image)
  assert.is(
    words(step(twice('a'), twice('b'))),
    "objective 'b': parameter 'c.weight' is already trained by objective 'a'; allowed: one objective for each parameter",
  )
  assert.is(words(step(twice('a'), twice('a'))), "two values are named 'a'; give each objective its own name")
  assert.match(
    words(step(minimize('all', { over: net, optimizer, losses: { one: loss(crossEntropy, applied, 1) } }))),
    /compares class labels with 1; allowed: a fed tensor of class labels/,
  )
  const normed = seq(conv2d('c', 3, 3), batchNorm('n'))
  assert.match(
    words(over(normed, apply(normed, apply(normed, image)))),
    /running statistics can change once per step; allowed: frozen norms, and norms per image/,
  )
})

test('classes are whole numbers, other targets are not', () => {
  const net = conv2d('c', 4, 3)
  const labels = fed('labels', [2, 1, 8, 8])
  const { graph } = rightOf(
    elaborate(step(minimize('all', { over: net, optimizer, losses: { one: loss(crossEntropy, apply(net, image), labels) } }))),
  )
  assert.equal(
    graph.values.filter((v) => v.role === 'target').map((v) => [v.name, v.dtype]),
    [['labels', 'i32']],
  )
})

test('an imported step keeps shared values and accepts other sizes', () => {
  const net = conv2d('c', 3, 3)
  const s = over(net, apply(net, apply(net, image)))
  const read = rightOf(asTrainable({ default: s }, { batch: 1, height: 16, width: 12 })) as TrainingStep
  assert.equal(
    fedOf(read).map((f) => f.shape),
    [[1, 3, 16, 12]],
  )
  assert.is(rightOf(elaborate(read)).graph.values.filter((v) => v.role === 'param').length, 2)
  const damaged = {
    ...s,
    objectives: [{ ...s.objectives[0]!, losses: { one: [{ loss: 'mse', of: { kind: 'made up' }, to: 1, weight: 1 }] } }],
  }
  const e = asTrainable(damaged)
  assert.ok(
    isLeft(e) && renderError(e.left).includes('is not a tensor of a step; allowed: fed, apply, joined, add, multiply, detach'),
  )
})

test('each field of a step from elsewhere is refused by its path', () => {
  const shared = conv2d('c', 3, 3)
  const s = over(shared, apply(shared, image))
  const [o] = s.objectives
  const cases: readonly (readonly [unknown, string])[] = [
    [{ kind: 'step', objectives: 3 }, 'step.objectives: 3 is not allowed in a step'],
    [{ ...s, objectives: [{ ...o, name: '' }] }, 'step.objectives[0].name: "" is not allowed in an objective'],
    [
      { ...s, objectives: [{ ...o, optimizer: { kind: 'lbfgs' } }] },
      'step.objectives[0].optimizer.kind: "lbfgs" is not allowed in an objective',
    ],
    [{ ...s, objectives: [{ ...o, losses: { one: 1 } }] }, 'step.objectives[0].losses.one: 1 is not allowed in an objective'],
    [
      { ...s, objectives: [{ ...o, losses: { one: [{ loss: 'mse', of: image, to: 1, weight: '1' }] } }] },
      'step.objectives[0].losses.one[0].weight: "1" is not allowed in a loss',
    ],
    [
      {
        ...s,
        objectives: [
          { ...o, losses: { one: [{ loss: 'mse', of: { kind: 'fed', name: 'x', shape: [1, 2] }, to: 1, weight: 1 }] } },
        ],
      },
      'step.objectives[0].losses.one[0].of.shape: ',
    ],
  ]
  for (const [u, said] of cases) {
    const e = asTrainable(u)
    assert.ok(
      isLeft(e) && renderError(e.left).startsWith(`not a model: ${said}`),
      isLeft(e) ? renderError(e.left) : 'it was accepted',
    )
  }
})

test.run()
