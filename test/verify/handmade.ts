// Three valid plans by hand: one whose tiles write and add, one whose tiles merge statistics, one that computes in place,
// swaps and reloads. In: nothing. Out: fresh copies, for tests to break.
import { must, Sketch, trainingFrom } from '../graph/sketch'
import type { Graph } from '../../staging/graph/graph'
import type { Range } from '../../staging/core/box'
import { PlanByHand, type MutablePlan } from './draft'

const trained = (s: Sketch, output: number): Graph => {
  const optimizer = { kind: 'sgd', lr: 0.1, momentum: 0, weightDecay: 0, nesterov: false } as const
  return must(trainingFrom(s.b.build(), output, { loss: 'mse', optimizer }))
}

/** image [1,1,8,4] -> c1 (3x3) -> r1 -> c2 (3x3) -> mean squared error, two tiles of four rows. */
export const tiledPlan = (): MutablePlan => {
  const s = new Sketch([1, 1, 8, 4])
  const r1 = s.op('relu', { slope: 0 }, [s.conv(s.image, 'c1', 1, 3, undefined, false)], 'r1')
  const d = new PlanByHand(trained(s, s.conv(r1, 'c2', 1, 3, undefined, false)))
  const tiles: readonly { readonly own: Range; readonly halo: Range; readonly wide: Range }[] = [
    { own: [0, 4], halo: [0, 5], wide: [0, 6] },
    { own: [4, 8], halo: [3, 8], wide: [2, 8] },
  ]

  d.segment('forward', 'forward', 2)
  const [c1, r1Local] = [d.cell('c1', 'local', 5), d.cell('r1', 'local', 5)]
  tiles.forEach((t, i) => {
    d.nextTile(i)
    d.run('c1', 'conv2d', [d.of('image', t.wide), d.of('c1.weight')], [d.local(c1, t.halo)])
    d.run('r1', 'relu', [d.local(c1, t.halo)], [d.local(r1Local, t.halo)])
    d.run('c2', 'conv2d', [d.local(r1Local, t.halo), d.of('c2.weight')], [d.of('c2', t.own)])
  })
  d.segment('loss', 'forward')
  d.run('loss', 'mse', [d.of('c2'), d.of('target')], [d.of('loss')])

  d.segment('backward', 'backward', 2)
  const [again, kept] = [d.cell('c1', 'local', 5), d.cell('r1', 'local', 5)]
  const [dy, dw2, dr, dc, dw1] = [
    d.cell('c2.grad', 'local', 4),
    d.cell('c2.weight.grad', 'local'),
    d.cell('r1.grad', 'local', 5),
    d.cell('c1.grad', 'local', 5),
    d.cell('c1.weight.grad', 'local'),
  ]
  const whole = (cell: number) => ({
    cell,
    value: d.graph.values.findIndex((v) => v.name === (cell === dw2 ? 'c2.weight.grad' : 'c1.weight.grad')),
  })
  d.plumb('fill', [], [d.of('c2.weight.grad')], { value: 0 })
  d.plumb('fill', [], [d.of('c1.weight.grad')], { value: 0 })
  tiles.forEach((t, i) => {
    d.nextTile(i)
    d.run('c1', 'conv2d', [d.of('image', t.wide), d.of('c1.weight')], [d.local(again, t.halo)])
    d.run('r1', 'relu', [d.local(again, t.halo)], [d.local(kept, t.halo)])
    d.run('loss', 'mse_bwd', [d.of('c2', t.own), d.of('target', t.own)], [d.local(dy, t.own)])
    d.run('c2', 'conv2d_bwd_weights', [d.local(kept, t.halo), d.local(dy, t.own)], [whole(dw2)])
    d.plumb('merge_sum', [whole(dw2)], [d.of('c2.weight.grad')])
    d.run('c2', 'conv2d_bwd_data', [d.local(dy, t.own), d.of('c2.weight')], [d.local(dr, t.halo)])
    d.run('r1', 'relu_bwd', [d.local(kept, t.halo), d.local(dr, t.halo)], [d.local(dc, t.halo)])
    d.run('c1', 'conv2d_bwd_weights', [d.of('image', t.wide), d.local(dc, t.halo)], [whole(dw1)])
    d.plumb('merge_sum', [whole(dw1)], [d.of('c1.weight.grad')])
  })
  d.segment('update', 'update')
  d.run('c2', 'sgd', [d.of('c2.weight'), d.of('c2.weight.grad')], [])
  d.run('c1', 'sgd', [d.of('c1.weight'), d.of('c1.weight.grad')], [])
  return d.finish()
}

/** image -> norm -> mean squared error; the statistics and their gradients are made of two tiles. */
export const normPlan = (): MutablePlan => {
  const s = new Sketch([1, 2, 8, 4])
  const d = new PlanByHand(trained(s, s.norm(s.conv(s.image, 'c', 2, 1, undefined, false), 'n')))
  const tiles: readonly Range[] = [
    [0, 4],
    [4, 8],
  ]
  d.segment('forward', 'forward')
  d.run('c', 'conv2d', [d.of('image'), d.of('c.weight')], [d.of('c')])
  d.segment('statistics', 'forward', 2)
  const part = d.cell('n.stats', 'local')
  const piece = { cell: part, value: d.value('n.stats') }
  tiles.forEach((rows, i) => {
    d.nextTile(i)
    d.run('n', 'bn_stats', [d.of('c', rows)], [piece])
    d.plumb('merge_moments', [piece], [d.of('n.stats')], { countX: 16, countY: 16 * i })
  })
  d.segment('apply', 'forward', 2)
  tiles.forEach((rows, i) => {
    d.nextTile(i)
    d.run('n', 'bn_apply', [d.of('c', rows), d.of('n.stats'), d.of('n.weight'), d.of('n.bias')], [d.of('n', rows)])
  })
  d.segment('loss', 'step')
  d.run('loss', 'mse', [d.of('n'), d.of('target')], [d.of('loss')])
  d.run('loss', 'mse_bwd', [d.of('n'), d.of('target')], [d.of('n.grad')])
  d.run('n', 'bn_bwd_reduce', [d.of('c'), d.of('n.grad'), d.of('n.stats')], [d.of('n.weight.grad'), d.of('n.bias.grad')])
  d.segment('spread', 'backward', 2)
  tiles.forEach((rows, i) => {
    d.nextTile(i)
    d.run(
      'n',
      'bn_bwd_data',
      [d.of('c', rows), d.of('n.grad', rows), d.of('n.stats'), d.of('n.weight'), d.of('n.weight.grad'), d.of('n.bias.grad')],
      [d.of('c.grad', rows)],
    )
  })
  d.segment('update', 'update')
  d.run('c', 'conv2d_bwd_weights', [d.of('image'), d.of('c.grad')], [d.of('c.weight.grad')])
  for (const name of ['n.weight', 'n.bias', 'c.weight']) update(d, name)
  d.run('n', 'bn_running', [d.of('n.stats'), d.of('n.running_mean'), d.of('n.running_var')], [])
  return d.finish()
}

/** The sgd op of one parameter: a layer may have several. */
const update = (d: PlanByHand, name: string): void => {
  const op = d.graph.ops.find((o) => o.kind === 'sgd' && d.graph.values[o.ins[0]!]!.name === name)!
  d.runOp(op.id, [d.of(name), d.of(`${name}.grad`)], [])
}

/**
 * image [1,1,1024,1024] (two pages) -> c1 (1x1) -> r1, in place -> c2 (1x1) -> mean squared error, untiled. r1 leaves for
 * the lower tier after c2 and returns for the backward; the image is loaded twice.
 */
export const swapPlan = (): MutablePlan => {
  const s = new Sketch([1, 1, 1024, 1024])
  const r1 = s.op('relu', { slope: 0 }, [s.conv(s.image, 'c1', 1, 1, undefined, false)], 'r1')
  const d = new PlanByHand(trained(s, s.conv(r1, 'c2', 1, 1, undefined, false)))
  const scratch = d.scratch(4096)
  d.segment('forward', 'forward')
  d.run('c1', 'conv2d', [d.of('image'), d.of('c1.weight')], [d.of('c1')], scratch)
  const inPlace = { cell: d.home('c1'), value: d.value('r1') }
  d.run('r1', 'relu', [d.of('c1')], [inPlace])
  d.run('c2', 'conv2d', [inPlace, d.of('c2.weight')], [d.of('c2')])
  d.run('loss', 'mse', [d.of('c2'), d.of('target')], [d.of('loss')])
  d.segment('backward', 'backward')
  d.run('loss', 'mse_bwd', [d.of('c2'), d.of('target')], [d.of('c2.grad')])
  d.run('c2', 'conv2d_bwd_weights', [inPlace, d.of('c2.grad')], [d.of('c2.weight.grad')])
  d.run('c2', 'conv2d_bwd_data', [d.of('c2.grad'), d.of('c2.weight')], [d.of('r1.grad')])
  d.run('c2', 'sgd', [d.of('c2.weight'), d.of('c2.weight.grad')], [])
  d.run('r1', 'relu_bwd', [inPlace, d.of('r1.grad')], [{ cell: d.home('r1.grad'), value: d.value('c1.grad') }])
  const dc = { cell: d.home('r1.grad'), value: d.value('c1.grad') }
  d.run('c1', 'conv2d_bwd_weights', [d.of('image'), dc], [d.of('c1.weight.grad')])
  d.run('c1', 'sgd', [d.of('c1.weight'), d.of('c1.weight.grad')], [])
  d.stay(
    d.home('c1'),
    { acquire: 0, release: 4, swapOut: { start: 2 }, tierOffset: 0 },
    { acquire: 4, release: 9, swapIn: { ready: 5, from: 'tier' }, tierOffset: 0 },
  )
  d.stay(
    d.home('image'),
    { acquire: 0, release: 1, swapIn: { ready: 0, from: 'source' } },
    { acquire: 8, release: 10, swapIn: { ready: 9, from: 'source' } },
  )
  return d.finish()
}
