// timeout 300
// Joint plans: where loops end, what they make again, and what small budgets gain by them.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compile, compileSegments } from '../../staging/compile'
import { bytesOf, mib, pagesIn } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Graph, ValueId } from '../../staging/graph/graph'
import { type Segment, tilesOf } from '../../staging/plan/plan'
import { auto, refineAuto } from '../../staging/search/auto'
import { computeSeconds, mostPages } from '../../staging/schedule/bound'
import { opCosts } from '../../staging/schedule/chain'
import { inCoreLayout } from '../../staging/schedule/incore'
import type { Ref } from '../../staging/ops/op'
import {
  inPieces,
  type Joint,
  jointOf,
  jointSegments,
  type Limits,
  withAdvancedOps,
  type Shape,
} from '../../staging/schedule/joint'
import { jointSmall } from '../../staging/schedule/jointsearch'
import { machines } from '../../staging/sim/machines'
import { simulate } from '../../staging/sim/simulate'
import { trainingGraph } from '../golden/golden'
import { Sketch } from '../graph/sketch'
import { opNames, trained, valueNamed } from '../tile/trained'

const machine = machines['v100-pcie-16g']!
const WHOLE: Limits = { forward: Infinity, backward: Infinity }
/** Small tiles: parts of the batch, and bands. */
const SMALL: Limits = { forward: 5000, backward: 5000 }

const twoNorms = (): Graph => {
  const s = new Sketch([4, 2, 16, 16])
  const first = s.relu(s.norm(s.conv(s.image, 'c1', 4, 3, undefined, false), 'n1'), 'r1')
  return trained(s, s.relu(s.norm(s.conv(first, 'c2', 4, 3, undefined, false), 'n2'), 'r2'))
}

/** Each segment's tiles and ops, updates aside; every plan is verified. */
const outline = (
  g: Graph,
  gone: readonly string[],
  limits: Shape & Limits,
  order: (j: Joint) => Joint = (j) => j,
): readonly string[] => {
  const named = (names: readonly string[]): ReadonlySet<ValueId> => new Set(names.map((n) => valueNamed(g, n)))
  const made = jointSegments(order(jointOf(g, opCosts(g, machine), 0)), named(gone), limits)
  if (isLeft(made)) throw new Error(`${made.left.layer} along ${made.left.dim}: ${made.left.why}`)
  const plan = compileSegments(g, made.right, { strategy: 'by hand', budgetBytes: mib(512), machine })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  const text = (s: Segment): string =>
    opNames(
      g,
      s.body.map((b) => b.op),
    ).join(' ')
  return made.right.filter((s) => s.phase !== 'update').map((s) => `${s.phase} ${tilesOf(s.grid)}: ${text(s)}`)
}

test('results are produced in pieces, unless two rows of a gradient are added into one', () => {
  const s = new Sketch([4, 2, 16, 16])
  const pads = { padTop: 3, padBottom: 3, padLeft: 3, padRight: 3 }
  const image = s.conv(s.image, 'c1', 4, 3)
  const padded = s.op('reflect_pad', pads, [image], 'reflect')
  const larger = s.op('upsample', { mode: 0, inH: 22, inW: 22, outH: 44, outW: 44 }, [padded], 'larger')
  const g = trained(s, s.maxPool(s.conv(larger, 'c2', 4, 1), 'pool', 2))
  const apart = (kind: string): boolean => inPieces(g, g.ops.find((op) => op.kind === kind)!)
  assert.is(apart('max_pool_bwd'), true)
  for (const kind of ['reflect_pad_bwd', 'upsample_bwd']) assert.is(apart(kind), false, kind)
})

test('the worked example: loops end at norms, and recompute the values between norms and kept values', () => {
  assert.equal(outline(twoNorms(), ['n1', 'r1', 'c2', 'n2', 'r2'], SMALL), [
    'forward 8: c1:conv2d n1:bn_stats',
    'forward 12: n1:bn_apply r1:relu c2:conv2d n2:bn_stats',
    'forward 12: n2:bn_apply r2:relu loss:mse',
    'backward 20: n1:bn_apply r1:relu c2:conv2d n2:bn_apply r2:relu loss:mse_bwd r2:relu_bwd n2:bn_bwd_reduce',
    'backward 20: n1:bn_apply r1:relu c2:conv2d n2:bn_bwd_data c2:conv2d_bwd_weights c2:conv2d_bwd_data r1:relu_bwd n1:bn_bwd_reduce',
    'backward 16: n1:bn_bwd_data c1:conv2d_bwd_weights',
  ])
})

test('an op that reads a large value joins an earlier loop with the same input', () => {
  const s = new Sketch([4, 2, 16, 16])
  const x = s.relu(s.norm(s.conv(s.image, 'c0', 4), 'n0'), 'r0')
  const halves = { strideH: 2, strideW: 2 }
  const first = s.relu(s.norm(s.conv(x, 'c1', 4, 3, { ...halves, padTop: 1, padLeft: 1 }), 'n1'), 'r1')
  const branch = s.norm(s.conv(first, 'c2', 4), 'n2')
  const shortcut = s.norm(s.conv(x, 'c3', 4, 1, halves), 'n3')
  const sum = s.op('add', {}, [branch, shortcut], 'sum')
  assert.equal(outline(trained(s, sum), [], SMALL, (j) => withAdvancedOps(j, 0)).slice(0, 4), [
    'forward 8: c0:conv2d n0:bn_stats',
    'forward 12: n0:bn_apply r0:relu c1:conv2d n1:bn_stats c3:conv2d n3:bn_stats',
    'forward 4: n1:bn_apply r1:relu c2:conv2d n2:bn_stats',
    'forward 8: n2:bn_apply n3:bn_apply sum:add loss:mse',
  ])
})

test('if no value leaves, no op is recomputed', () => {
  const ops = outline(twoNorms(), [], WHOLE).flatMap((line) => line.split(' ').slice(2))
  assert.is(new Set(ops).size, ops.length)
})

test('with the option, loops also end where all crossing values are kept', () => {
  const s = new Sketch([4, 2, 16, 16])
  const first = s.relu(s.conv(s.image, 'c1', 4, 3, undefined, false), 'r1')
  const g = trained(s, s.relu(s.conv(first, 'c2', 4, 3, undefined, false), 'r2'))
  assert.is(outline(g, [], SMALL).length, 2)
  const cut = outline(g, [], { ...SMALL, cut: true })
  assert.ok(cut.length > 2, cut.join('; '))
  assert.ok(outline(g, ['c1', 'r1', 'c2'], { ...SMALL, cut: true }).length < cut.length)
})

test('a loop holds at most its limit of weights and gradients, unless one op exceeds it; ops without weights join', () => {
  const s = new Sketch([4, 2, 16, 16])
  const conv = (x: Ref, layer: string): Ref => s.relu(s.conv(x, layer, 2, 3, undefined, false), `r${layer}`)
  const g = trained(s, conv(conv(conv(s.image, 'a'), 'b'), 'c'))
  const weight = 4 * 2 * 2 * 9
  const loops = (whole: number): readonly string[] => outline(g, [], { ...SMALL, whole })
  assert.is(loops(Infinity).length, 2)
  assert.equal(loops(2 * weight), [
    'forward 8: a:conv2d ra:relu b:conv2d rb:relu',
    'forward 8: c:conv2d rc:relu loss:mse',
    'backward 12: loss:mse_bwd rc:relu_bwd c:conv2d_bwd_weights c:conv2d_bwd_data rb:relu_bwd',
    'backward 8: b:conv2d_bwd_weights b:conv2d_bwd_data ra:relu_bwd',
    'backward 4: a:conv2d_bwd_weights',
  ])
  const ops = (lines: readonly string[]): readonly string[] => lines.flatMap((line) => line.split(' ').slice(2)).sort()
  assert.equal(ops(loops(1)), ops(loops(Infinity)))
  assert.is(loops(1).length, 3 + 5)
})

test('of the gradients of branches that are summed up, the small ones wait', () => {
  const s = new Sketch([4, 2, 16, 16])
  const trunk = s.relu(s.conv(s.image, 'c0', 16, 3, undefined, false), 'r0')
  const branch = (i: number) => s.norm(s.conv(trunk, `c${i}`, 2, 3, undefined, false), `n${i}`)
  const g = trained(s, s.op('add', {}, [branch(1), branch(2)], 'sum'))
  const lines = outline(g, [], SMALL)
  const last = lines.find((line) => line.includes('grad_sum'))!
  assert.match(last, 'c1:conv2d_bwd_data')
  assert.match(last, 'c2:conv2d_bwd_data')
})

const resnet = trainingGraph('resnet20-cifar', [512, 3, 32, 32])
const planned = (pages: number, joint: boolean) =>
  compile(resnet, {
    strategy: 'auto',
    machine,
    budgetBytes: bytesOf(pages),
    method: joint ? { planner: auto, refiner: refineAuto, small: jointSmall } : { planner: auto },
  })

test('in a small part of its memory a network with norms is faster by far, in a plan that verify accepts', () => {
  const pages = Math.floor(mostPages(inCoreLayout(resnet, machine)) / 8)
  const compute = computeSeconds(inCoreLayout(resnet, machine))
  const ratio = (joint: boolean): number => {
    const plan = planned(pages, joint)
    if (isLeft(plan)) return Infinity
    assert.ok(plan.right.peakPages <= pages)
    return simulate(plan.right, machine.link).makespanSeconds / compute
  }
  const [without, withJoint] = [ratio(false), ratio(true)]
  assert.ok(withJoint < 0.9 * without, `${withJoint} for ${without}`)
})

test('if no mixture fits, the joint search runs, however short the stalls of the smallest tiles', () => {
  const vgg = trainingGraph('vgg13', [128, 3, 224, 224])
  const plan = compile(vgg, { strategy: 'auto', machine, budgetBytes: mib(4012) })
  if (isLeft(plan)) throw new Error(renderError(plan.left))
  const ratio = simulate(plan.right, machine.link).makespanSeconds / computeSeconds(inCoreLayout(vgg, machine))
  assert.ok(ratio < 1.01, `${ratio}`)
})

test('the smallest budget that it names works, and a page less does not', () => {
  const smallest = (pages: number): number => {
    const refused = planned(pages, true)
    if (isLeft(refused) && refused.left.tag === 'BudgetInfeasible') return pagesIn(refused.left.smallestBytes)
    throw new Error(`${pages} pages are refused`)
  }
  const least = smallest(1)
  assert.ok(!isLeft(planned(least, true)))
  assert.is(smallest(least - 1), least)
})

test.run()
