// The written tape, read back by a reader of its own: header, views of tiles, which physical page every access reaches,
// transfers, instructions, bindings; records of an odd description.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { compileSegments } from '../../staging/compile'
import { bytesOf, mib, PAGE_BYTES, pagesIn } from '../../staging/core/bytes'
import { dtypeBytes, type Graph } from '../../staging/graph/graph'
import { attrNames } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import { instructions, isPermanent } from '../../staging/plan/instructions'
import type { Plan, View } from '../../staging/plan/plan'
import { Records } from '../../staging/plan/records'
import { toTape } from '../../staging/plan/tape'
import { machines } from '../../staging/sim/machines'
import { forwardOps } from '../../staging/tile/segments'
import { splitAt } from '../../staging/tile/cuts'
import { Sketch } from '../graph/sketch'
import { callsOf, planWith } from '../schedule/steps'
import { grid, segmentsOf, trained } from '../tile/trained'
import { checksumOf, readTape, type Tape, type TapeView } from './reader'

const machine = machines['v100-pcie-16g']!
const NONE = 0xffffffff

const planned = (g: Graph, cuts: readonly number[], over: ReturnType<typeof grid>, pages: number): Plan => {
  const groups = splitAt(
    forwardOps(g).map((o) => o.id),
    cuts,
  ).map((ops) => ({ ops, grid: over }))
  const options = { strategy: 'by hand', machine, algorithms: 'fixed' as const }
  const segments = segmentsOf(g, groups)
  const plan = compileSegments(g, segments, { ...options, budgetBytes: bytesOf(pages) })
  if (!isLeft(plan)) return plan.right
  if (plan.left.tag !== 'BudgetInfeasible') throw new Error(JSON.stringify(plan.left))
  const smallest = compileSegments(g, segments, { ...options, budgetBytes: plan.left.smallestBytes })
  if (isLeft(smallest)) throw new Error(JSON.stringify(smallest.left))
  return smallest.right
}

/** Large enough for bands of several pages that leave and return. */
const network = (): Graph => {
  const s = new Sketch([1, 2, 480, 130])
  const x = s.relu(s.norm(s.conv(s.image, 'a', 48, 3), 'n'), 'r')
  const y = s.op('dropout', { p: 0.25, key: 7 }, [s.conv(x, 'b', 48, 3, undefined, false)], 'drop')
  return trained(s, s.conv(s.op('add', {}, [y, x], 'sum'), 'c', 5, 1), 'cross-entropy')
}

const graph = network()
/** Bands and squares, each in no more memory than it needs: pages leave and come back. */
const plans: readonly Plan[] = [planned(graph, [2, 5, 7], grid(1, 6, 1), 1), planned(graph, [2, 7], grid(1, 3, 2), 1)]
const tapes: readonly Tape[] = plans.map((p) => readTape(toTape(p)))
const both = (f: (plan: Plan, tape: Tape) => void): void => plans.forEach((p, i) => f(p, tapes[i]!))

test('the plans move pages out and in', () =>
  both((plan) => {
    assert.ok(plan.residencies.filter((r) => r.swapOut).length >= 4)
    assert.ok(plan.residencies.filter((r) => r.swapIn?.from === 'tier').length >= 4)
  }))

test('header', () =>
  both((plan, tape) => {
    const bytes = toTape(plan)
    assert.equal(
      [tape.magic, tape.version, tape.floatType, tape.bytes, tape.pageBytes],
      ['SPILLWAY', 6, 0, bytes.length, 2097152],
    )
    assert.equal([tape.budgetPages, tape.peakPages, tape.tierBytes], [plan.budgetBytes / mib(2), plan.peakPages, plan.tierBytes])
    assert.is(tape.checksum, checksumOf(bytes))
    assert.is(tape.events, plan.residencies.filter((r) => r.swapOut).length + plan.residencies.filter((r) => r.swapIn).length)
    let end = 256
    for (const [i, s] of tape.sections.entries()) {
      assert.is(s.offset % 8, 0, `section ${i}`)
      assert.ok(s.offset >= end)
      end = s.offset + s.count * [16, 24, 16, 104, 56, 4, 8, 16, 48, 32, 1][i]!
    }
    assert.ok(end <= bytes.length && bytes.length < end + 8)
  }))

// ---------------------------------------------------------------- views

/** The place of an element of a value in the cell, from the cell's box: B, H, W, C from the outside in. */
const elementAt = (v: View, [b, c, h, w]: readonly number[]): number => {
  const size = (i: 0 | 1 | 2 | 3): number => v.held[i][1] - v.held[i][0]
  return (((b! - v.held[0][0]) * size(2) + (h! - v.held[2][0])) * size(3) + (w! - v.held[3][0])) * size(1) + (c! - v.held[1][0])
}

const corners = (v: View): number[][] =>
  [0, 1].flatMap((b) =>
    [0, 1].flatMap((c) =>
      [0, 1].flatMap((h) => [0, 1].map((w) => [b, c, h, w].map((high, i) => (high ? v.box[i]![1] - 1 : v.box[i]![0])))),
    ),
  )

test('views of tiles: box, origin and whole; each corner is at its place in the cell', () =>
  both((plan, tape) => {
    let tiles = 0
    plan.calls.forEach((call, p) => {
      const pairs = [...call.ins, ...call.outs].map((v, k) => [v, [...tape.calls[p]!.ins, ...tape.calls[p]!.outs][k]!] as const)
      for (const [v, t] of pairs) {
        const value = plan.graph.values[v.value]!
        if (
          value.shape.length !== 4 ||
          ['param', 'state'].includes(value.role) ||
          (value.gradOf !== undefined && plan.graph.values[value.gradOf]!.role === 'param')
        )
          continue
        assert.equal(
          [t.rank, t.dims, t.origin, t.extent],
          [4, v.box.map(([lo, hi]) => hi - lo), v.box.map(([lo]) => lo), value.shape],
        )
        assert.is(t.dtype, value.dtype === 'i32' ? 2 : 0)
        for (const at of corners(v)) {
          const inTape = t.offset / 4 + at.reduce((n, x, i) => n + (x - t.origin[i]!) * t.strides[i]!, 0)
          assert.is(
            inTape * dtypeBytes[value.dtype],
            plan.places[v.cell]!.offset + elementAt(v, at) * dtypeBytes[value.dtype],
            `${call.kind} ${p}`,
          )
        }
        if (call.tile > 0) tiles++
      }
    })
    assert.ok(tiles > 100)
  }))

test('parameters, their gradients and statistics are dense in their own order; plumbing moves weights as one run', () =>
  both((plan, tape) => {
    let weights = 0
    plan.calls.forEach((call, p) => {
      ;[...call.ins, ...call.outs].forEach((v, k) => {
        const value = plan.graph.values[v.value]!
        const t = [...tape.calls[p]!.ins, ...tape.calls[p]!.outs][k]!
        const ofWeights =
          ['param', 'state'].includes(value.role) ||
          (value.gradOf !== undefined && plan.graph.values[value.gradOf]!.role === 'param')
        if (value.shape.length === 4 && !ofWeights) return
        const flat = call.op < 0 && value.shape.length === 4
        const dims = flat ? [value.shape.reduce((n, d) => n * d, 1), 1, 1, 1] : [...value.shape, 1, 1, 1].slice(0, 4)
        assert.equal(t.dims, dims)
        assert.equal([t.offset, t.origin, t.extent], [plan.places[v.cell]!.offset, [0, 0, 0, 0], dims])
        assert.equal(t.strides, [dims[1]! * dims[2]! * dims[3]!, dims[2]! * dims[3]!, dims[3]!, 1])
        assert.is(t.rank, flat ? 1 : value.shape.length)
        weights++
      })
    })
    assert.ok(weights > 50)
  }))

test('calls: kind by wire number, attributes in the order of the op table, scratch, random key, place, cost', () =>
  both((plan, tape) => {
    assert.is(tape.calls.length, plan.calls.length)
    plan.calls.forEach((c, p) => {
      const t = tape.calls[p]!
      assert.equal(
        [t.kind, t.op, t.segment, t.tile, t.seconds],
        [opDef(c.kind).wire, c.op < 0 ? NONE : c.op, c.segment, c.tile, c.seconds],
      )
      assert.equal(
        t.attrs,
        attrNames(opDef(c.kind), c.attrs).map((f) => c.attrs[f]),
      )
      assert.equal(t.workspace?.dims ?? null, c.workspace ? [c.workspace.bytes / 4, 1, 1, 1] : null)
      const again = plan.segments[c.segment]!.phase === 'backward' && c.op >= 0 && plan.graph.ops[c.op]!.phase === 'forward'
      assert.is(t.flags, again ? 1 : 0)
    })
    assert.ok(tape.calls.some((t) => t.workspace) && tape.calls.some((t) => t.flops > 0))
  }))

test('a call that recomputes is marked', () => assert.ok(tapes[1]!.calls.some((t) => t.flags === 1)))

// ---------------------------------------------------------------- pages

/** The physical page and the residency that a page of a buffer shows. */
const shownBy = (tape: Tape): ReadonlyMap<string, { readonly phys: number; readonly residency: number }> => {
  const shown = new Map<string, { phys: number; residency: number }>()
  for (const m of tape.mappings)
    for (let i = 0; i < m.count; i++) {
      const key = `${m.buffer}:${m.vaPage + i}`
      assert.not(shown.has(key), `page ${key} is mapped twice`)
      shown.set(key, { phys: m.physPage + i, residency: m.residency })
    }
  return shown
}

const physicalPages = (plan: Plan, residency: number): number[] =>
  plan.residencies[residency]!.runs.flatMap((r) => Array.from({ length: r.count }, (_, i) => r.page + i))

/** First and last byte of a view inside its buffer. */
const span = (t: TapeView, elementBytes: number): readonly [number, number] => [
  t.offset,
  t.offset + (t.dims.reduce((n, d, i) => n + (d - 1) * t.strides[i]!, 0) + 1) * elementBytes,
]

test('every access of every call reaches the physical page that its storage has then', () =>
  both((plan, tape) => {
    const shown = shownBy(tape)
    let accesses = 0
    plan.calls.forEach((c, p) => {
      const reach = (cell: number, t: TapeView): void => {
        const storage = plan.places[cell]!.storage
        const [lo, hi] = span(t, 4)
        for (const page of [pagesIn(lo), pagesIn(hi - 1)]) {
          const i = plan.residencies.findIndex(
            (r) =>
              r.storage === storage && r.from <= page && page < r.to && r.acquire <= p && (p < r.release || isPermanent(plan)(r)),
          )
          assert.ok(i >= 0, 'the page is on the device')
          assert.equal(
            shown.get(`${t.buffer}:${page}`),
            { phys: physicalPages(plan, i)[page - plan.residencies[i]!.from], residency: i },
            `${c.kind} ${p}`,
          )
          accesses++
        }
      }
      const views = [...tape.calls[p]!.ins, ...tape.calls[p]!.outs]
      ;[...c.ins, ...c.outs].forEach((v, k) => reach(v.cell, views[k]!))
      if (c.workspace) reach(c.workspace.cell, tape.calls[p]!.workspace!)
    })
    assert.ok(accesses > 1000)
  }))

/** The pages of every transfer: those of its residency, in a buffer that shows them. */
const checkTransfers = (plan: Plan, tape: Tape): void => {
  const shown = shownBy(tape)
  for (const t of tape.transfers) {
    const r = plan.residencies[t.residency]!
    assert.equal(
      [t.offset, t.bytes],
      [bytesOf(r.from), Math.min(bytesOf(r.to), plan.storages[r.storage]!.bytes) - bytesOf(r.from)],
    )
    for (let page = r.from; page < r.to; page++)
      assert.equal(
        shown.get(`${t.buffer}:${page}`),
        { phys: physicalPages(plan, t.residency)[page - r.from], residency: t.residency },
        `residency ${t.residency}`,
      )
    if (t.from === 0) assert.equal([t.tierOffset, t.binding], [r.tierOffset, NONE])
    else assert.is(t.tierOffset, bytesOf(r.from), 'where the pages lie in the value')
  }
}

test('transfers: bytes, tier offsets, sources by binding', () =>
  both((plan, tape) => {
    checkTransfers(plan, tape)
    for (const t of tape.transfers.filter((x) => x.from === 1)) {
      const cell = plan.cells[plan.storages[plan.residencies[t.residency]!.storage]!.cells[0]!]!
      assert.is(tape.bindings[t.binding]!.name, plan.graph.values[cell.values[0]!]!.name)
    }
    assert.ok(tape.transfers.some((t) => t.from === 1) && tape.transfers.some((t) => t.bytes % PAGE_BYTES !== 0))
  }))

test('residencies and buffers', () =>
  both((plan, tape) => {
    assert.equal(
      tape.residencies,
      plan.residencies.map((r) => ({ pages: r.to - r.from, flags: isPermanent(plan)(r) ? 1 : 0 })),
    )
    for (const m of tape.mappings)
      assert.ok(m.vaPage + m.count <= tape.buffers[m.buffer]!.pages && m.physPage + m.count <= tape.peakPages)
    for (const b of tape.buffers) assert.ok(b.bytes > bytesOf(b.pages - 1) && b.bytes <= bytesOf(b.pages))
    assert.ok(tape.buffers.length > plan.storages.length, 'what leaves and returns is shown by more than one buffer')
  }))

test('a swap out that starts where other pages of its storage return copies from a buffer that shows it', () => {
  // Pages 2-3 leave at 2 and return at 5, the point where pages 0-1 are saved and released.
  const drafts = [
    { storage: 0, from: 0, to: 2, acquire: 0, release: 5, swapOut: { start: 5 }, tierOffset: 0 },
    { storage: 0, from: 2, to: 4, acquire: 0, release: 2, swapOut: { start: 2 }, tierOffset: bytesOf(2) },
    { storage: 0, from: 2, to: 4, acquire: 5, release: 8, swapIn: { ready: 6, from: 'tier' as const }, tierOffset: bytesOf(2) },
    { storage: 0, from: 0, to: 2, acquire: 7, release: 9, swapIn: { ready: 8, from: 'tier' as const }, tierOffset: 0 },
  ]
  const plan = planWith(drafts, callsOf(new Array<number>(9).fill(1)))
  const tape = readTape(toTape(plan))
  assert.is(tape.transfers.length, 4)
  checkTransfers(plan, tape)
})

test('the worked example: an era repeats the values that did not leave', () => {
  // Bands a and b are written; a leaves and returns, b stays.
  const drafts = [
    { storage: 0, from: 0, to: 1, acquire: 0, release: 2, swapOut: { start: 1 }, tierOffset: 0 },
    { storage: 0, from: 1, to: 2, acquire: 0, release: 5 },
    { storage: 0, from: 0, to: 1, acquire: 3, release: 5, swapIn: { ready: 4, from: 'tier' as const }, tierOffset: 0 },
  ]
  const plan = planWith(drafts, callsOf([1, 1, 1, 1, 1]))
  const tape = readTape(toTape(plan))
  const of = (storageFrom: number, acquire: number): number =>
    plan.residencies.findIndex((r) => r.from === storageFrom && r.acquire === acquire)
  const shows = [0, 1].map((buffer) =>
    tape.mappings
      .filter((m) => m.buffer === buffer)
      .map((m) => m.residency)
      .sort(),
  )
  assert.is(tape.buffers.length, 2)
  assert.equal(shows, [[of(0, 0), of(1, 0)].sort(), [of(0, 3), of(1, 0)].sort()])
})

// ---------------------------------------------------------------- instructions and bindings

test('the instruction list is that of the plan, with a transfer and an event for each copy', () =>
  both((plan, tape) => {
    const tags = {
      call: 1,
      acquire: 2,
      release: 3,
      swapOut: 4,
      swapIn: 5,
      waitSwapOut: 6,
      waitSwapIn: 6,
      mark: 7,
      exchange: 8,
      waitExchange: 6,
    } as const
    const events = new Map<string, number>()
    const list = instructions(plan)
    assert.is(tape.instrs.length, list.length)
    list.forEach((i, n) => {
      const t = tape.instrs[n]!
      assert.is(t.tag, tags[i.tag])
      if (i.tag === 'mark') assert.equal([t.a, t.b], [i.segment, i.tile])
      if (i.tag === 'call') assert.is(t.a, i.call)
      if (i.tag === 'acquire' || i.tag === 'release') assert.is(t.a, i.residency)
      if (i.tag === 'swapOut' || i.tag === 'swapIn') {
        assert.is(tape.transfers[t.a]!.residency, i.residency)
        assert.not([...events.values()].includes(t.b), 'an event is signalled once')
        events.set(`${i.tag === 'swapIn'}${i.residency}`, t.b)
      }
      if (i.tag === 'waitSwapOut' || i.tag === 'waitSwapIn')
        assert.equal([t.a, t.b], [events.get(`${i.tag === 'waitSwapIn'}${i.residency}`), i.tag === 'waitSwapIn' ? 1 : 0])
    })
    assert.is(events.size, tape.events)
  }))

test('bindings name parameters, state, fed values and the loss', () =>
  both((plan, tape) => {
    const roles = ['param', 'state', 'input', 'target', 'loss']
    const bound = plan.graph.values.filter((v) => roles.includes(v.role))
    assert.equal(
      tape.bindings.map((b) => [roles[b.role], b.name]),
      bound.map((v) => [v.role, v.name]),
    )
    tape.bindings.forEach((b, i) => {
      const v = bound[i]!
      assert.is(b.dtype, v.dtype === 'i32' ? 2 : 0)
      if (v.init) assert.equal([['none', 'uniform', 'normal', 'constant'][b.dist], b.a], [v.init.dist, v.init.a])
      const fed = v.role === 'input' || v.role === 'target'
      assert.is(b.view!.buffer === NONE, fed)
      assert.equal(b.view!.dims, [...v.shape, 1, 1, 1].slice(0, 4))
      if (fed) {
        const [, c, h, w] = v.shape as readonly [number, number, number, number]
        assert.equal(b.view!.strides, [h * w * c, 1, w * c, c], 'fed channels-last')
      }
    })
  }))

// ---------------------------------------------------------------- records

const odd = {
  fields: {
    small: { kind: 'number', width: 'u8' },
    flags: { kind: 'flags', width: 'u8', names: ['one', 'two'] },
    short: { kind: 'number', width: 'u16' },
    reserved: { kind: 'reserved', width: 'u32', times: 1 },
    pair: { kind: 'numbers', width: 'u64', times: 2 },
    real: { kind: 'number', width: 'f64' },
    tag: { kind: 'choice', width: 'u32', of: { type: 'T', title: 't', names: ['a', 'b'], first: 1 } },
    of: { kind: 'index', width: 'u32', of: 'views', optional: true },
  },
} as const

test('a record holds each field at its described place; reserved bytes are 0', () => {
  const r = new Records(odd)
  const flags = { one: false, two: true }
  assert.is(r.add({ small: 1, flags, short: 0x0403, pair: [2 ** 40 + 5, 0], real: 1.5, tag: 'b', of: null }), 0)
  const bytes = [1, 2, 3, 4, 0, 0, 0, 0, 5, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 248, 63]
  assert.equal([...r.done()], [...bytes, 2, 0, 0, 0, 255, 255, 255, 255])
  for (let i = 1; i < 1000; i++) r.add({ small: 0, flags, short: i, pair: [0, 2 ** 53 - 1], real: i, tag: 'a', of: i })
  const back = new DataView(r.done().buffer)
  assert.equal([r.count, r.size, r.done().length], [1000, 40_000, 40_000])
  for (const i of [1, 25, 26, 999])
    assert.equal([back.getUint16(40 * i + 2, true), back.getBigUint64(40 * i + 16, true)], [i, 2n ** 53n - 1n])
})

test('a number that its field cannot hold is refused', () => {
  const good = { small: 1, flags: { one: true, two: true }, short: 0, pair: [0, 0], real: 0, tag: 'a', of: 0 } as const
  for (const bad of [{ small: 256 }, { short: -1 }, { short: 0.5 }, { pair: [0, 2 ** 53] }, { of: Number.NaN }])
    assert.throws(() => new Records(odd).add({ ...good, ...bad }), /does not fit into/)
})

test.run()
