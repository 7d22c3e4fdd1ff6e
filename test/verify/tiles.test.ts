// Reads and writes of calls: halos, coverage, contributions, order. All pages stay on the device here.
import { isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { verify } from '../../staging/verify/verify'
import type { MutablePlan } from './draft'
import { normPlan, swapPlan, tiledPlan } from './handmade'
import { allResident, call, indexOf, refuses, removeCall, rows, swapCalls } from './refused'

const tiled = (): MutablePlan => allResident(tiledPlan())
const norm = (): MutablePlan => allResident(normPlan())
const inPlace = (): MutablePlan => allResident(swapPlan())
/** Edits that move calls: pages stay put. */
const moved =
  (edit: (p: MutablePlan) => void) =>
  (p: MutablePlan): void => {
    edit(p)
    allResident(p)
  }

test('the plans by hand are valid, with pages that move and with permanent pages', () => {
  for (const plan of [tiledPlan, normPlan, swapPlan, tiled, norm, inPlace]) assert.ok(isRight(verify(plan())))
})

// ---------------------------------------------------------------- halos

refuses('an image slice one row short', 'halo', tiled, (p) => rows(call(p, 'conv2d').ins[0]!, 0, 5), /must hold \[0,6\)/)
refuses('a halo one row short in the backward', 'halo', tiled, (p) => rows(call(p, 'conv2d_bwd_weights', 2).ins[0]!, 4, 8))
refuses(
  'a gradient slice that loses its border row',
  'halo',
  tiled,
  (p) => rows(call(p, 'conv2d_bwd_data', 1).outs[0]!, 4, 8),
  /must hold \[3,8\)/,
)
refuses('element-wise operands of different rows', 'halo', tiled, (p) => rows(call(p, 'relu_bwd').ins[0]!, 0, 4))
refuses(
  'some channels of a whole statistic',
  'halo',
  norm,
  (p) => {
    call(p, 'bn_apply').ins[1]!.box[0] = [0, 1]
  },
  /must be whole/,
)
refuses('some channels of a convolution', 'halo', norm, (p) => {
  call(p, 'conv2d_bwd_weights').ins[1]!.box[1] = [0, 1]
})
refuses('columns of an image for a kernel that wants no gaps', 'dense', tiled, (p) => {
  const c = call(p, 'conv2d')
  c.ins[0]!.box[3] = [0, 3]
  for (const v of c.outs) v.box[3] = [0, 2]
})

// ---------------------------------------------------------------- order and provenance

refuses(
  'a reader before its writer',
  'unwritten',
  inPlace,
  moved((p) => swapCalls(p, 0, 1)),
)
refuses(
  'the value before it was overwritten in place',
  'unwritten',
  inPlace,
  moved((p) => swapCalls(p, 1, 2)),
)
refuses('rows that this tile did not compute', 'unwritten', tiled, (p) => {
  removeCall(p, indexOf(p, 'relu', 1))
  allResident(p)
})
refuses('an accumulator that nobody zeroed', 'unwritten', tiled, (p) => {
  removeCall(p, indexOf(p, 'fill'))
  allResident(p)
})
refuses(
  'an accumulator of which a part was zeroed',
  'unwritten',
  tiled,
  (p) => {
    call(p, 'fill').outs[0]!.box[2] = [0, 2]
  },
  /before they are zeroed/,
)
refuses(
  'a weight after its update',
  'updated',
  inPlace,
  moved((p) => swapCalls(p, indexOf(p, 'conv2d_bwd_data'), indexOf(p, 'sgd'))),
)
refuses(
  'a result over an operand that the op still reads',
  'in-place',
  inPlace,
  moved((p) => {
    const c = call(p, 'conv2d', 1)
    c.outs[0]!.cell = c.ins[0]!.cell
    p.cells[c.ins[0]!.cell]!.values.push(c.outs[0]!.value)
  }),
  /overwrites input 0/,
)
refuses('in place of a box that lies elsewhere', 'in-place', tiled, (p) => {
  const c = call(p, 'relu')
  p.cells[c.ins[0]!.cell]!.values.push(c.outs[0]!.value)
  c.outs[0]!.cell = c.ins[0]!.cell
  c.outs[0]!.held[2] = [0, 4]
  rows(c.outs[0]!, 0, 4)
  rows(c.ins[0]!, 0, 4)
  allResident(p)
})

// ---------------------------------------------------------------- contributions

refuses('a statistic before the last tile', 'incomplete', norm, (p) => {
  removeCall(p, 4)
  removeCall(p, 3)
  allResident(p)
})
refuses(
  'a weight gradient without the last tile',
  'incomplete',
  tiled,
  (p) => {
    removeCall(p, indexOf(p, 'merge_sum', 2))
    allResident(p)
  },
  /its segment ends before it is complete/,
)
refuses(
  'a weight is updated between the tiles of its gradient',
  'incomplete',
  tiled,
  moved((p) => swapCalls(p, indexOf(p, 'merge_sum', 2), indexOf(p, 'sgd'))),
  /read before it is complete/,
)
refuses('a contribution added twice', 'twice', tiled, (p) => {
  p.calls.splice(indexOf(p, 'merge_sum', 2), 0, structuredClone(call(p, 'merge_sum', 0)))
  allResident(p)
})
refuses(
  'tiles of the gradient overlap by a row',
  'twice',
  tiled,
  (p) => {
    for (const c of p.calls) if (c.segment === 2 && c.tile === 1) for (const v of [...c.ins, ...c.outs]) widen(p, v)
  },
  /counted twice/,
)
refuses(
  'the partial sum of another tile',
  'twice',
  tiled,
  (p) => {
    const c = call(p, 'merge_sum', 2)
    removeCall(p, indexOf(p, 'conv2d_bwd_weights', 2))
    c.ins[0]!.value = call(p, 'merge_sum', 0).ins[0]!.value
    allResident(p)
  },
  /partial sum of tile 0/,
)
refuses(
  'moments are merged with wrong counts',
  'operand',
  norm,
  (p) => {
    call(p, 'merge_moments', 1).attrs['countY'] = 8
  },
  /allowed: 16 into 16/,
)
refuses('moments are added like sums', 'operand', norm, (p) => {
  Object.assign(call(p, 'merge_moments', 1), { kind: 'merge_sum', attrs: {} })
})
refuses('statistics of rows that another tile took', 'operand', norm, (p) => rows(call(p, 'bn_stats', 1).ins[0]!, 3, 8))
refuses('statistics of the same rows twice', 'twice', norm, (p) => rows(call(p, 'bn_stats', 1).ins[0]!, 0, 4))

/** A row more of everything, where the value has one. */
const widen = (p: MutablePlan, v: MutablePlan['calls'][number]['ins'][number]): void => {
  const value = p.graph.values[v.value]!
  if (value.role === 'param' || value.shape.length < 4 || value.shape[2] !== 8) return
  v.box[2] = [Math.max(0, v.box[2][0] - 1), v.box[2][1]]
  if (v.held[2][0] > 0) {
    v.held[2] = [v.held[2][0] - 1, v.held[2][1]]
    p.cells[v.cell]!.bytes = Math.max(p.cells[v.cell]!.bytes, (v.held[2][1] - v.held[2][0]) * 16)
    p.storages[v.cell]!.bytes = 192
  }
}

// ---------------------------------------------------------------- coverage

refuses(
  'a tile of a whole value is missing',
  'coverage',
  tiled,
  (p) => {
    for (let i = 0; i < 3; i++) removeCall(p, 3)
    allResident(p)
  },
  /no tile wrote/,
)
refuses(
  'a tile of a whole value is written twice',
  'coverage',
  tiled,
  (p) => {
    rows(call(p, 'conv2d', 3).outs[0]!, 3, 8)
    for (const c of p.calls.slice(3, 6))
      for (const v of [...c.ins, ...c.outs]) if (v !== c.outs[0] || c !== p.calls[5]) widen(p, v)
  },
  /second time/,
)
refuses('an accumulator is zeroed twice', 'coverage', tiled, (p) => {
  p.calls.splice(9, 0, structuredClone(call(p, 'fill')))
  allResident(p)
})

test.run()
