// Networks of the zoo against PyTorch's first step (test/fixtures/zoo.json): output, loss and all gradients, from weights and data that both sides
// make by one formula. In: names of networks. Out: a test each. Invariant: both compute in double precision, so a difference is one of the
// computation, and not of rounding.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Either, isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { sgd } from '../../dsl'
import { zoo, zooEntry } from '../../src/zoo'
import type { Shape } from '../../staging/core/box'
import { type StageError, renderError } from '../../staging/core/errors'
import { training } from '../../staging/grad/grad'
import type { Graph, Value } from '../../staging/graph/graph'
import { labels, startOf, uniform } from '../fixtures/formula'
import { elaborated, mustModel } from '../dsl/forward'
import { FULL } from '../full'
import { evaluate, type Numbers } from './evaluate'

/** The norm of a tensor, then some of its elements. */
type Digest = readonly number[]
interface FirstStep {
  readonly input: Shape
  readonly output: Digest
  readonly loss: number
  /** The largest norm of a gradient. */
  readonly largest: number
  /** Gradients of at most 64 parameters, evenly over the network. */
  readonly gradients: Readonly<Record<string, Digest>>
}
const fixture = <T>(file: string): Readonly<Record<string, T>> =>
  JSON.parse(readFileSync(join(__dirname, '../fixtures', file), 'utf8'))
const steps = fixture<FirstStep>('zoo.json')

const rightOf = <T>(e: Either<StageError, T>): T => {
  if (isLeft(e)) throw new Error(renderError(e.left))
  return e.right
}

/** Dropout and stochastic depth off: their random bits are our own, not PyTorch's. */
const stepOf = (name: string, input: Shape): Graph => {
  const entry = zooEntry(name)!
  const g = rightOf(training(rightOf(elaborated(mustModel(name, input), name, entry.loss, sgd({ lr: 1 }))), { dtype: 'f64' }))
  return { ...g, ops: g.ops.map((o) => (/^drop(out|_images)/.test(o.kind) ? { ...o, attrs: { ...o.attrs, p: 0 } } : o)) }
}

/** The initial values; a norm's scale is beside its running mean. */
const startFor = (g: Graph): ((v: Value) => Numbers) => {
  const states = new Set(g.values.filter((v) => v.role === 'state').map((v) => v.name))
  const classes = g.values[g.ops.find((o) => o.phase === 'loss')!.ins[0]!]!.shape[1]!
  return ({ name, shape, role, dtype }) => {
    if (role === 'param') return startOf(name, shape, states.has(name.replace(/weight$/, 'running_mean')))
    if (role === 'input') return uniform('input', shape, 1)
    if (role !== 'target') throw new Error(`nothing says where '${name}' starts`)
    return dtype === 'i32'
      ? labels(
          'target',
          shape.reduce((n, d) => n * d),
          classes,
        )
      : uniform('target', shape, 1)
  }
}

const norm = (numbers: Numbers): number => {
  let squares = 0
  for (const x of numbers) squares += x * x
  return Math.sqrt(squares)
}

const digestOf = (name: string, numbers: Numbers, samples: number): Digest => [
  norm(numbers),
  ...Array.from(labels(name, samples, numbers.length), (i) => numbers[i]!),
]

/** How far apart, relative to the tensor's size: its norm, or the root mean square of its elements. `most` is the size below which all is rounding. */
const apart = (got: Digest, want: Digest, elements: number, rounding: number): number => {
  const scale = Math.max(want[0]!, rounding)
  return Math.max(
    ...want.map((w, i) => Math.abs(got[i]! - w) / (i === 0 ? scale : Math.max(Math.abs(w), scale / Math.sqrt(elements)))),
  )
}

const TOLERANCE = 1e-6

const compare = (name: string): void => {
  const want = steps[name]!
  const graph = stepOf(name, want.input)
  // A bias in front of a norm has no gradient but rounding.
  const rounding = 1e-6 * want.largest
  const expectedOf = (what: string): Digest | undefined =>
    what === 'output' ? want.output : what === 'loss' ? [want.loss] : want.gradients[what]
  const unseen = new Set(['output', 'loss', ...Object.keys(want.gradients)])
  evaluate(graph, startFor(graph), (what, numbers) => {
    const expected = expectedOf(what)
    if (expected === undefined) return
    const got = what === 'loss' ? [numbers[0]!] : digestOf(what, numbers, expected.length - 1)
    const error = apart(got, expected, numbers.length, what in want.gradients ? rounding : 0)
    assert.ok(error <= TOLERANCE, `${what}: ${got.slice(0, 4)}, PyTorch ${expected.slice(0, 4)}, ${error.toExponential(1)} apart`)
    unseen.delete(what)
  })
  assert.equal([...unseen], [])
}

test('every family has a network with a step', () => {
  const families = new Set(Object.keys(steps).map((name) => zooEntry(name)?.family))
  assert.equal([...families].sort(), [...new Set(zoo.filter((z) => z.loss !== undefined).map((z) => z.family))].sort())
})

export const stepsArePyTorchs = (names: readonly string[]): void => {
  for (const name of names) test(`${name}: output, loss and gradients of a step are PyTorch's`, () => compare(name))
}

/** Sums, values side by side, branches, and convolutions of a channel: these stand for all networks, unless all are asked for. */
const FEW = ['resnet20-cifar', 'resnet18', 'densenet121', 'googlenet', 'mobilenetv2', 'mobilenetv3-small', 'efficientnet-b0']
export const namesWithSteps: readonly string[] = Object.keys(steps).filter((n) => FULL || FEW.includes(n))
