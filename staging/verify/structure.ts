// Compares the plan's lists with each other: ids are indices, views are inside their cells' boxes, cells inside their storages, calls agree with
// their graph ops. Invariant: after this check every index, box and point that the other checks read exists.
import { mapped } from '../core/mapped'
import { elementsOf } from '../core/box'
import { ALIGN_BYTES, alignUp, bytesOf, pagesFor } from '../core/bytes'
import { BOUND_ROLES, dtypeBytes, floatOf, type Graph, isFed, isPersistent, valueBytes } from '../graph/graph'
import { attrsCodec } from '../ops/op'
import { opDef } from '../ops/registry'
import {
  type Call,
  type Cell,
  type CellScope,
  type Plan,
  type Plumbing,
  type Residency,
  type Storage,
  tilesOf,
  type View,
} from '../plan/plan'
import { LIMITS, SECTOR_BYTES } from '../plan/wire'
import { soundBorder } from './border'
import type { Facts } from './facts'
import { broken, eachFault, type Fault, firstFault } from './failure'
import { boxText, inBox, isEmptyBox, volume } from './region'

const bad = (reason: string): Fault => broken('structure', reason)
const whole = (n: number): boolean => Number.isSafeInteger(n) && n >= 0
const PLUMBING: Readonly<Record<Plumbing, readonly [ins: number, outs: number]>> = {
  fill: [0, 1],
  copy: [1, 1],
  merge_sum: [1, 1],
  merge_moments: [1, 1],
}

// ---------------------------------------------------------------- cells and storages

const legalScopes = (plan: Plan, value: number): readonly CellScope[] => {
  const v = plan.graph.values[value]!
  if (isPersistent(v)) return ['persistent']
  if (isFed(v)) return ['fed', 'local']
  if (v.role === 'output') return ['output', 'local']
  // Losses are read after the step, so they may stay beside the parameters.
  return v.role === 'loss' ? ['persistent', 'whole', 'local'] : ['whole', 'local']
}

const soundCell =
  (plan: Plan) =>
  (c: Cell, i: number): Fault => {
    if (c.id !== i) return bad(`cell ${i} has id ${c.id}; the id must be its index`)
    if (!whole(c.bytes) || c.bytes === 0) return bad(`cell '${c.label}' has ${c.bytes} bytes`)
    const stray = c.values.find((v) => !plan.graph.values[v] || !legalScopes(plan, v).includes(c.scope))
    return stray === undefined ? undefined : bad(`cell '${c.label}' of scope ${c.scope} cannot hold value ${stray}`)
  }

const soundPlace =
  (plan: Plan) =>
  (c: Cell): Fault => {
    const place = plan.places[c.id]
    const storage = place && plan.storages[place.storage]
    if (!place || !storage) return broken('place', `cell '${c.label}' is in no storage`)
    if (!storage.cells.includes(c.id)) return broken('place', `storage '${storage.label}' does not list cell '${c.label}'`)
    if (!whole(place.offset) || place.offset % ALIGN_BYTES !== 0)
      return broken('place', `cell '${c.label}' starts at byte ${place.offset}; allowed: multiples of ${ALIGN_BYTES}`)
    return place.offset + c.bytes <= storage.bytes
      ? undefined
      : broken('place', `cell '${c.label}' ends at byte ${place.offset + c.bytes} of a storage of ${storage.bytes}`)
  }

const soundStorage =
  (plan: Plan) =>
  (s: Storage, i: number): Fault => {
    if (s.id !== i || !whole(s.bytes)) return bad(`storage ${i} has id ${s.id} and ${s.bytes} bytes`)
    const stray = s.cells.find((c) => plan.places[c]?.storage !== i)
    return stray === undefined
      ? undefined
      : broken('place', `storage '${s.label}' lists cell ${stray}, which is in another storage`)
  }

// ---------------------------------------------------------------- residencies

const soundPoints = (plan: Plan, r: Residency): string | undefined => {
  const end = plan.calls.length
  if (![r.acquire, r.release, r.swapIn?.ready ?? 0, r.swapOut?.start ?? 0].every(whole)) return 'a point is not a whole number'
  if (r.acquire >= r.release || r.release > end) return `acquired at ${r.acquire} and released at ${r.release} of ${end}`
  const isForNext = r.swapIn?.ready === end && r.release === end && !r.swapOut
  if (r.swapIn && !isForNext && (r.swapIn.ready < r.acquire || r.swapIn.ready >= r.release))
    return `its swap in is ready at ${r.swapIn.ready}`
  const earliest = r.swapIn ? r.swapIn.ready : r.acquire
  if (r.swapOut && (r.swapOut.start <= earliest || r.swapOut.start > r.release))
    return `its swap out starts at ${r.swapOut.start}; allowed: points after ${earliest}, up to its release at ${r.release}`
  return undefined
}

const soundResidency =
  (plan: Plan) =>
  (r: Residency, i: number): Fault => {
    const storage = plan.storages[r.storage]
    const name = (): string => `residency ${i} (pages [${r.from},${r.to}) of '${storage?.label}')`
    if (!storage || !whole(r.from) || !whole(r.to) || r.from >= r.to || r.to > pagesFor(storage.bytes))
      return bad(`${name()} has no pages`)
    const wrong = soundPoints(plan, r)
    if (wrong !== undefined) return bad(`${name()}: ${wrong}`)
    if (i > 0 && plan.residencies[i - 1]!.acquire > r.acquire)
      return bad(`${name()} is listed before one that is acquired earlier`)
    if (!r.runs.every((p) => whole(p.page) && whole(p.count) && p.count > 0)) return bad(`${name()} has an empty run of pages`)
    const pages = r.runs.reduce((n, p) => n + p.count, 0)
    if (pages !== r.to - r.from) return broken('pages', `${name()} has ${pages} physical pages for ${r.to - r.from}`)
    if ((!r.swapOut || r.swapOut.to === 'sink') && r.swapIn?.from !== 'tier') return undefined
    const bytes = Math.min(bytesOf(r.to), storage.bytes) - bytesOf(r.from)
    if (r.tierOffset === undefined || !whole(r.tierOffset) || r.tierOffset % SECTOR_BYTES !== 0)
      return broken('tier', `${name()} is swapped at offset ${r.tierOffset}; allowed: multiples of ${SECTOR_BYTES}`)
    const end = r.tierOffset + bytes
    if (end > plan.tierBytes) return broken('tier', `${name()} ends at byte ${end} of a lower tier of ${plan.tierBytes}`)
    const { hostBytes = end } = plan
    return r.tierOffset < hostBytes && hostBytes < end
      ? broken('tier', `${name()} is at bytes ${r.tierOffset} to ${end}, across the end of host memory at ${hostBytes}`)
      : undefined
  }

// ---------------------------------------------------------------- calls

const soundView =
  (facts: Facts, call: number) =>
  (v: View): Fault => {
    const cell = facts.plan.cells[v.cell]
    if (!facts.full[v.value]) return broken('operand', `there is no value ${v.value}`, facts.at(call))
    const operand = (reason: string): Fault => broken('operand', reason, facts.at(call, v.value))
    if (!cell?.values.includes(v.value)) return operand(`cell ${v.cell} never holds it`)
    const full = facts.full[v.value]!
    if (![...v.box, ...v.held].every((r) => whole(r[0]) && whole(r[1]))) return operand('its box has numbers that are not whole')
    if (isEmptyBox(v.box) || !inBox(v.held, v.box) || !inBox(full, v.held))
      return operand(`box ${boxText(v.box)} is not inside ${boxText(v.held)} inside ${boxText(full)}`)
    if (cell.scope !== 'local' && !inBox(v.held, full))
      return operand(`a ${cell.scope} cell must hold all of a value, not ${boxText(v.held)}`)
    const bytes = volume(v.held) * facts.elementBytes[v.value]!
    return bytes <= cell.bytes ? undefined : operand(`${bytes} bytes are held in cell '${cell.label}' of ${cell.bytes} bytes`)
  }

const matchesOp = (facts: Facts, c: Call, i: number): Fault => {
  const bad = (reason: string): Fault => broken('operand', reason, facts.at(i))
  if (c.op < 0) {
    const operands = PLUMBING[c.kind as Plumbing]
    if (!operands) return bad(`'${c.kind}' is neither a graph op nor plumbing`)
    if (!attrsCodec(opDef(c.kind)).is(c.attrs)) return bad(`${c.kind} has attributes that the op table does not allow`)
    return c.ins.length === operands[0] && c.outs.length === operands[1]
      ? undefined
      : bad(`${c.kind} has the wrong number of operands`)
  }
  const f = facts.ops[c.op]
  if (!f || f.op.kind !== c.kind) return bad(`${c.kind} is not the kind of op ${c.op}`)
  if (!f.def.fields || Object.keys(f.op.attrs).some((k) => f.op.attrs[k] !== c.attrs[k]))
    return bad(`the attributes of ${c.kind} and op ${c.op} differ`)
  const same = (views: readonly View[], ids: readonly number[]): boolean =>
    views.length === ids.length && ids.every((v, k) => views[k]!.value === v)
  if (!same(c.ins, f.op.ins) || !same(c.outs, f.op.outs)) return bad(`the operands of ${c.kind} and op ${c.op} differ`)
  return facts.bodies[c.segment]!.has(c.op) ? undefined : bad(`segment ${c.segment} does not list op ${c.op}`)
}

const soundCall =
  (facts: Facts) =>
  (c: Call, i: number): Fault => {
    const { plan } = facts
    const segment = plan.segments[c.segment]
    if (!segment || (i > 0 && plan.calls[i - 1]!.segment > c.segment))
      return broken('structure', `it belongs to segment ${c.segment}, out of order`, { call: i })
    if (c.tile < 0 || c.tile >= tilesOf(segment.grid))
      return broken('structure', `segment ${c.segment} has no tile ${c.tile}`, facts.at(i))
    const scratch = c.workspace && plan.cells[c.workspace.cell]
    if (
      c.workspace &&
      (scratch?.scope !== 'workspace' || c.workspace.bytes > scratch.bytes || c.workspace.bytes < dtypeBytes[floatOf(plan.graph)])
    )
      return broken('operand', `its workspace of ${c.workspace.bytes} bytes is not in a workspace cell of this size`, facts.at(i))
    const views = soundView(facts, i)
    return eachFault(c.ins, views) ?? eachFault(c.outs, views) ?? matchesOp(facts, c, i)
  }

/** Checks that all calls that touch a cell are between its stated first and last call. */
const soundLifetimes = (plan: Plan): Fault => {
  const inLife = (cell: number, call: number): Fault => {
    const { first, last, label } = plan.cells[cell]!
    return first <= call && call <= last ? undefined : bad(`call ${call} touches cell '${label}' outside its stated lifetime`)
  }
  return eachFault(plan.calls, ({ ins, outs, workspace }, i) => {
    const lives = (v: View): Fault => inLife(v.cell, i)
    return eachFault(ins, lives) ?? eachFault(outs, lives) ?? (workspace ? inLife(workspace.cell, i) : undefined)
  })
}

// ---------------------------------------------------------------- sources, sinks, homes and names

/** Checks that a storage with a source or a sink holds the bytes of one value only: a source and a sink transfer one value. */
const soundEnds =
  (plan: Plan) =>
  (r: Residency, i: number): Fault => {
    const fed = r.swapIn?.from === 'source'
    if (!fed && r.swapOut?.to !== 'sink') return undefined
    const { cells, bytes, label } = plan.storages[r.storage]!
    const cell = cells.length === 1 ? plan.cells[cells[0]!]! : undefined
    const does = fed ? 'reads from the data source' : 'outputs'
    if (cell?.scope !== (fed ? 'fed' : 'output') || cell.values.length !== 1 || plan.places[cell.id]!.offset !== 0)
      return bad(`residency ${i} ${does} '${label}', which is not one ${fed ? 'fed value' : 'output'}`)
    const value = plan.graph.values[cell.values[0]!]!
    return bytes <= valueBytes(value)
      ? undefined
      : bad(`residency ${i} ${does} ${bytes} bytes of '${value.name}', which has ${valueBytes(value)}`)
  }

/** Checks that a home holds whole parameters and states, side by side, and that no other home and no swapped page overlaps it. */
const soundHomes = (plan: Plan): Fault => {
  const homes = plan.storages
    .flatMap((s) => (s.home === undefined ? [] : [{ ...s, home: s.home }]))
    .sort((a, b) => a.home - b.home)
  if (homes.length === 0) return undefined
  const tier = (reason: string): Fault => broken('tier', reason)
  const unsound = eachFault(homes, (s, i) => {
    let end = 0
    for (const c of s.cells) {
      const { bytes, values } = plan.cells[c]!
      const { offset } = plan.places[c]!
      const value = values.length === 1 ? plan.graph.values[values[0]!]! : undefined
      if (!value || !isPersistent(value) || bytes !== valueBytes(value) || offset !== alignUp(end, SECTOR_BYTES))
        return bad(`storage '${s.label}' has a home, but is not whole parameters and states side by side`)
      end = offset + bytes
    }
    if (s.cells.length === 0 || end !== s.bytes) return bad(`storage '${s.label}' has a home of ${s.bytes} bytes for ${end}`)
    if (!whole(s.home) || s.home % SECTOR_BYTES !== 0 || s.home + s.bytes > plan.tierBytes)
      return tier(`the home of '${s.label}' has ${s.bytes} bytes at ${s.home} in a lower tier of ${plan.tierBytes}`)
    const { hostBytes = s.home } = plan
    if (s.home < hostBytes && hostBytes < s.home + s.bytes)
      return tier(`the home of '${s.label}' crosses the end of host memory at ${hostBytes}`)
    const next = homes[i + 1]
    return next && next.home < s.home + s.bytes ? tier(`the homes of '${s.label}' and '${next.label}' overlap`) : undefined
  })
  /** Returns the last home that begins before the byte `end`. */
  const before = (end: number): (typeof homes)[number] | undefined => {
    let [lo, hi] = [0, homes.length]
    while (lo < hi) {
      const middle = (lo + hi) >> 1
      if (homes[middle]!.home < end) lo = middle + 1
      else hi = middle
    }
    return homes[lo - 1]
  }
  return (
    unsound ??
    eachFault(plan.residencies, (r, i) => {
      const { home, bytes, label } = plan.storages[r.storage]!
      const name = (): string => `residency ${i} (pages [${r.from},${r.to}) of '${label}')`
      if (home !== undefined) {
        if (r.swapIn?.from === 'source' || r.swapOut?.to === 'sink') return tier(`${name()} is not swapped in from its home`)
        return r.tierOffset === home + bytesOf(r.from)
          ? undefined
          : tier(`${name()} is swapped at ${r.tierOffset}, but its home is at ${home}`)
      }
      if (r.tierOffset === undefined) return undefined
      const end = r.tierOffset + Math.min(bytesOf(r.to), bytes) - bytesOf(r.from)
      const met = before(end)
      return met && met.home + met.bytes > r.tierOffset ? tier(`${name()} is swapped over the home of '${met.label}'`) : undefined
    })
  )
}

/** Checks that storages with persistent values and without a home stay on the device, unmoved, from the first call to the last. */
const soundStays = (plan: Plan): Fault => {
  const persists = mapped(
    plan.storages,
    ({ cells, home }) => home === undefined && cells.some((c) => plan.cells[c]!.scope === 'persistent'),
  )
  return eachFault(plan.residencies, (r, i) => {
    if (!persists[r.storage] || (r.acquire === 0 && r.release === plan.calls.length && !r.swapIn && !r.swapOut)) return undefined
    const { label } = plan.storages[r.storage]!
    return broken('resident', `residency ${i} of '${label}' must stay on the device, unmoved, from the first call to the last`)
  })
}

const soundNames = (graph: Graph): Fault => {
  const float = floatOf(graph)
  const seen = new Set<string>()
  return eachFault(graph.values, (v) => {
    if (!(BOUND_ROLES as readonly string[]).includes(v.role)) return undefined
    const named = (reason: string): Fault => broken('graph', reason, { value: v.name })
    if (v.name === '' || seen.has(v.name)) return named(`its name is missing, or another ${v.role} has it`)
    seen.add(v.name)
    if (v.init && !Number.isFinite(v.init.a)) return named(`it starts at ${v.init.a}`)
    if (!isFed(v) && v.dtype !== float && !(v.role === 'output' && v.dtype === 'i32'))
      return named(`a ${v.role} is ${v.dtype}; allowed: ${float}`)
    return v.role === 'loss' && elementsOf(v.shape) !== 1 ? named('a loss must be one number') : undefined
  })
}

/** The checks allocate a word for every page. A plan with an absurd size must be refused before that exhausts the memory. */
const MOST_PAGES = LIMITS.virtualPages
const soundSize = (plan: Plan): Fault => {
  if (!whole(plan.peakPages) || plan.peakPages > LIMITS.poolPages)
    return bad(`a peak of ${plan.peakPages} pages; allowed: ${LIMITS.poolPages}`)
  if (!whole(plan.tierBytes) || plan.tierBytes > LIMITS.bytes) return bad(`a lower tier of ${plan.tierBytes} bytes`)
  const { hostBytes = 0 } = plan
  if (!whole(hostBytes) || hostBytes % SECTOR_BYTES !== 0 || hostBytes > plan.tierBytes)
    return bad(`a lower tier of ${plan.tierBytes} bytes with ${hostBytes} of host memory; allowed: multiples of ${SECTOR_BYTES}`)
  const pages = [...plan.storages, ...plan.cells].reduce((n, x) => n + pagesFor(x.bytes), 0)
  return pages <= MOST_PAGES ? undefined : bad(`cells and storages need ${pages} pages; allowed: ${MOST_PAGES}`)
}

export const soundStructure = (facts: Facts): Fault => {
  const { plan } = facts
  if (plan.places.length !== plan.cells.length) return bad(`${plan.places.length} places for ${plan.cells.length} cells`)
  return firstFault([
    () => soundSize(plan),
    () => soundNames(plan.graph),
    () => eachFault(plan.cells, soundCell(plan)),
    () => eachFault(plan.cells, soundPlace(plan)),
    () => eachFault(plan.storages, soundStorage(plan)),
    () => eachFault(plan.calls, soundCall(facts)),
    () => soundLifetimes(plan),
    () => eachFault(plan.residencies, soundResidency(plan)),
    () => eachFault(plan.residencies, soundEnds(plan)),
    () => soundStays(plan),
    () => soundHomes(plan),
    () => soundBorder(facts),
  ])
}
