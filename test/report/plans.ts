// Hand-made plans for the report's tests: a chain of 3x3 convolutions, whole or in tiles, with or without recompute and
// swapping. In: sizes. Out: a plan, a timeline that plays it, and the stager's knowledge. The arithmetic is exact enough
// to check by hand: every call takes a second per 1e11 operations, and a copy runs at 1 GiB/s.
import { fullBox, type Box, type Range } from '../../staging/core/box'
import { alignUp, bytesOf, PAGE_BYTES, pagesFor } from '../../staging/core/bytes'
import { valueBytes, type Graph, type Op, type Phase, type Value, type ValueRole } from '../../staging/graph/graph'
import { asShape } from '../../staging/ops/op'
import { opDef } from '../../staging/ops/registry'
import type { Call, Cell, Grid, Plan, Residency, Segment, SegmentPhase, View } from '../../staging/plan/plan'
import type { Span, Timeline } from '../../staging/sim/timeline'
import type { Staging } from '../../src/report/facts'

export interface ChainOptions {
  readonly layers: number
  readonly size: number
  /** Rows of tiles of the forward segment. */
  readonly tiles?: number
  /** The first half of the forward runs again before the backward. */
  readonly recompute?: boolean
  /** The first layer’s output is swapped out and in. */
  readonly swap?: boolean
  readonly name?: string
}

const CHANNELS = 16
const CONV = { strideH: 1, strideW: 1, padTop: 1, padLeft: 1, padBottom: 1, padRight: 1, dilationH: 1, dilationW: 1, groups: 1 }
const SGD = { lr: 0.1, momentum: 0, weightDecay: 0, nesterov: 0 }
export const LINK = { outBytesPerSecond: 2 ** 30, inBytesPerSecond: 2 ** 30, latencySeconds: 0, fullDuplex: true }

// ---------------------------------------------------------------- the training graph

export const chainGraph = ({ layers, size, name = 'chain' }: ChainOptions): Graph => {
  const values: Value[] = []
  const ops: Op[] = []
  const value = (valueName: string, role: ValueRole, shape: readonly number[]): number =>
    values.push({ id: values.length, name: valueName, role, shape, dtype: 'f32' }) - 1
  const op = (
    kind: string,
    layer: string,
    phase: Phase,
    attrs: Op['attrs'],
    ins: readonly number[],
    outs: readonly number[],
  ): void => {
    ops.push({ id: ops.length, kind, layer, phase, attrs, ins, outs })
  }
  const shape = [1, CHANNELS, size, size]
  const count = { count: CHANNELS * size * size, weight: 1, constant: 0 }
  const xs = [value('image', 'input', shape)]
  const ws = Array.from({ length: layers }, (_, i) => value(`conv${i}.weight`, 'param', [CHANNELS, CHANNELS, 3, 3]))
  ws.forEach((w, i) => {
    xs.push(value(`conv${i}`, 'activation', shape))
    op('conv2d', `conv${i}`, 'forward', CONV, [xs[i]!, w], [xs[i + 1]!])
  })
  const target = value('target', 'target', shape)
  op('mse', 'loss', 'loss', count, [xs[layers]!, target], [value('loss', 'loss', [1])])
  let dy = value('d loss', 'gradient', shape)
  op('mse_bwd', 'loss', 'backward', count, [xs[layers]!, target], [dy])
  for (let i = layers - 1; i >= 0; i--) {
    const dw = value(`d conv${i}.weight`, 'gradient', [CHANNELS, CHANNELS, 3, 3])
    op('conv2d_bwd_weights', `conv${i}`, 'backward', CONV, [xs[i]!, dy], [dw])
    if (i > 0) {
      const dx = value(`d conv${i - 1}`, 'gradient', shape)
      op('conv2d_bwd_data', `conv${i}`, 'backward', CONV, [dy, ws[i]!], [dx])
      dy = dx
    }
    op('sgd', `conv${i}`, 'update', SGD, [ws[i]!, dw], [])
  }
  return { name, values, ops }
}

// ---------------------------------------------------------------- segments and calls

interface Part {
  readonly name: string
  readonly phase: SegmentPhase
  readonly grid: Grid
  readonly ops: readonly Op[]
}

const partsOf = (graph: Graph, { layers, tiles = 1, recompute = false }: ChainOptions): readonly Part[] => {
  const whole = { B: 1, H: 1, W: 1 }
  const forward = graph.ops.filter((o) => o.phase === 'forward')
  const rest = graph.ops.filter((o) => o.phase !== 'forward')
  return [
    { name: 'forward', phase: 'forward', grid: { B: 1, H: tiles, W: 1 }, ops: forward },
    ...(recompute
      ? [{ name: 'again', phase: 'recompute' as const, grid: whole, ops: forward.slice(0, Math.ceil(layers / 2)) }]
      : []),
    { name: 'backward', phase: 'backward', grid: whole, ops: rest },
  ]
}

/** Rows of tile `t`, with one row of halo on each side for each convolution that follows. */
const rows = (size: number, tiles: number, t: number, halo: number): Range => [
  Math.max(0, Math.floor((t * size) / tiles) - halo),
  Math.min(size, Math.floor(((t + 1) * size) / tiles) + halo),
]

const callsOf = (graph: Graph, parts: readonly Part[], size: number): readonly Call[] =>
  parts.flatMap((part, segment) =>
    Array.from({ length: part.grid.H }, (_, tile) =>
      part.ops.map((o, k): Call => {
        const box = (v: number, extra: number): Box => {
          const full = fullBox(asShape(graph.values[v]!.shape))
          const cut = part.grid.H > 1 && graph.values[v]!.role !== 'param'
          return cut ? [full[0], full[1], rows(size, part.grid.H, tile, part.ops.length - 1 - k + extra), full[3]] : full
        }
        const view = (v: number, extra: number): View => ({ cell: v, value: v, held: box(v, extra), box: box(v, extra) })
        const ins = o.ins.map((v) => view(v, 1))
        const outs = o.outs.map((v) => view(v, 0))
        const shape = (w: View): readonly number[] =>
          graph.values[w.value]!.shape.length === 4 && graph.values[w.value]!.role !== 'param'
            ? w.box.map((r) => r[1] - r[0])
            : graph.values[w.value]!.shape
        const flops = opDef(o.kind).flops(o.attrs, { ins: ins.map(shape), outs: outs.map(shape) })
        return { kind: o.kind, op: o.id, segment, tile, attrs: o.attrs, ins, outs, workspace: null, seconds: flops / 1e11 }
      }),
    ).flat(),
  )

// ---------------------------------------------------------------- cells and residencies

const scopeOf = (v: Value): Cell['scope'] =>
  v.role === 'param' || v.role === 'state' ? 'persistent' : v.role === 'input' || v.role === 'target' ? 'fed' : 'whole'

const cellsOf = (graph: Graph, calls: readonly Call[]): readonly Cell[] => {
  const first = graph.values.map(() => -1)
  const last = graph.values.map(() => -1)
  calls.forEach((c, p) =>
    [...c.ins, ...c.outs].forEach((w) => {
      if (first[w.cell]! < 0) first[w.cell] = p
      last[w.cell] = p
    }),
  )
  return graph.values.map((v) => ({
    id: v.id,
    label: v.name,
    scope: scopeOf(v),
    values: [v.id],
    bytes: valueBytes(v),
    segment: -1,
    first: first[v.id]!,
    last: last[v.id]!,
  }))
}

/** A storage for each cell; `moves` names the cell that goes to the lower tier while nobody reads it. */
const residenciesOf = (calls: readonly Call[], cells: readonly Cell[], moves: number): readonly Residency[] => {
  const touches = (cell: number): readonly number[] =>
    calls.flatMap((c, p) => ([...c.ins, ...c.outs].some((w) => w.cell === cell) ? [p] : []))
  return cells
    .flatMap((c): readonly Residency[] => {
      const base = { storage: c.id, from: 0, to: pagesFor(c.bytes), runs: [{ page: 0, count: pagesFor(c.bytes) }] }
      if (c.scope === 'persistent') return [{ ...base, acquire: 0, release: calls.length }]
      if (c.scope === 'fed')
        return [{ ...base, acquire: Math.max(0, c.first - 1), release: c.last + 1, swapIn: { ready: c.first, from: 'source' } }]
      if (c.id !== moves) return [{ ...base, acquire: c.first, release: c.last + 1 }]
      const uses = touches(c.id)
      const back = uses.findIndex((p, i) => i > 0 && p - uses[i - 1]! === Math.max(...uses.slice(1).map((q, j) => q - uses[j]!)))
      const away = uses[back - 1]!
      return [
        { ...base, acquire: c.first, release: away + 2, swapOut: { start: away + 1 }, tierOffset: 0 },
        { ...base, acquire: uses[back]! - 1, release: c.last + 1, swapIn: { ready: uses[back]!, from: 'tier' }, tierOffset: 0 },
      ]
    })
    .sort((a, b) => a.acquire - b.acquire)
}

const peakPages = (calls: readonly Call[], residencies: readonly Residency[]): number =>
  calls.reduce(
    (most, _, p) =>
      Math.max(
        most,
        residencies.reduce((n, r) => n + (r.acquire <= p && p < r.release ? r.to - r.from : 0), 0),
      ),
    0,
  )

export const chainPlan = (options: ChainOptions): Plan => {
  const graph = chainGraph(options)
  const parts = partsOf(graph, options)
  const calls = callsOf(graph, parts, options.size)
  const cells = cellsOf(graph, calls)
  const moved = options.swap ? graph.values.find((v) => v.name === 'conv0')!.id : -1
  const residencies = residenciesOf(calls, cells, moved)
  const peak = peakPages(calls, residencies)
  return {
    graph,
    strategy: 'hand-made',
    machine: 'bench',
    algorithms: 'fixed',
    budgetBytes: bytesOf(peak + 1),
    segments: parts.map(
      (p): Segment => ({ name: p.name, phase: p.phase, grid: p.grid, body: p.ops.map((o) => ({ op: o.id })), keeps: [] }),
    ),
    cells,
    calls,
    storages: cells.map((c) => ({ id: c.id, label: c.label, bytes: c.bytes, cells: [c.id] })),
    places: cells.map((c) => ({ storage: c.id, offset: 0 })),
    residencies,
    peakPages: peak,
    tierBytes: moved < 0 ? 0 : alignUp(valueBytes(graph.values[moved]!), PAGE_BYTES),
  }
}

// ---------------------------------------------------------------- playing it

/** Calls one after the other; a copy starts when its point comes and its stream is free. */
export const play = (plan: Plan): Timeline => {
  const spans: Span[] = []
  const free = { out: 0, in: 0 }
  const due = new Map<number, { end: number; cause: 'memory' | 'data' }[]>()
  const stall = { memory: 0, data: 0 }
  let now = 0
  const copy = (stream: 'out' | 'in', residency: number, wait: number): void => {
    const r = plan.residencies[residency]!
    const start = Math.max(now, free[stream])
    const end = start + plan.storages[r.storage]!.bytes / LINK.outBytesPerSecond
    free[stream] = end
    spans.push({ stream, start, end, residency, label: plan.storages[r.storage]!.label })
    due.set(wait, [...(due.get(wait) ?? []), { end, cause: stream === 'out' ? 'memory' : 'data' }])
  }
  for (let p = 0; p <= plan.calls.length; p++) {
    plan.residencies.forEach((r, i) => {
      if (r.swapOut?.start === p) copy('out', i, r.release)
      if (r.swapIn && r.acquire === p) copy('in', i, r.swapIn.ready)
    })
    for (const { end, cause } of due.get(p) ?? []) {
      stall[cause] += Math.max(0, end - now)
      now = Math.max(now, end)
    }
    const call = plan.calls[p]
    if (!call) break
    spans.push({ stream: 'compute', start: now, end: now + call.seconds, call: p, label: call.kind })
    now += call.seconds
  }
  const compute = plan.calls.reduce((n, c) => n + c.seconds, 0)
  return { makespanSeconds: now, computeSeconds: compute, stallSeconds: stall, spans, memory: [] }
}

export const stagingOf = (plan: Plan, inCoreBytes = bytesOf(plan.peakPages) * 2): Staging => ({
  allocator: 'pages',
  link: LINK,
  tier: 'memory',
  instructions: plan.calls.length * 2,
  planningSeconds: 0.01,
  measuringSeconds: 0,
  callTimes: undefined,
  inCore: { peakBytes: inCoreBytes, computeSeconds: play(plan).computeSeconds * 0.8 },
  bound: { seconds: play(plan).computeSeconds * 0.8, isCompute: true },
})
