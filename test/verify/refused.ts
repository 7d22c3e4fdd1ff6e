// Breaking plans: edits that keep everything else consistent, and the check that the verifier refuses the result for the
// right reason. In: a valid plan, one edit, the rule that it breaks. Invariant: the plan verifies before the edit.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { bytesOf, pagesFor } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import type { Rule } from '../../staging/verify/failure'
import { verify } from '../../staging/verify/verify'
import type { MutablePlan } from './draft'

/** One test: the plan stands, and falls by `rule` (with these words) once edited. */
export const refuses = (
  name: string,
  rule: Rule,
  plan: () => MutablePlan,
  edit: (p: MutablePlan) => void,
  words?: RegExp,
): void => {
  test(`${rule}: ${name}`, () => {
    const p = plan()
    const before = verify(p)
    assert.ok(!isLeft(before), isLeft(before) ? renderError(before.left) : '')
    edit(p)
    const after = verify(p)
    if (!isLeft(after)) return assert.unreachable('the broken plan was accepted')
    assert.is(after.left.rule, rule, renderError(after.left))
    if (words) assert.match(renderError(after.left), words)
  })
}

type Points = { first: number; last: number }

const shiftPoints = (p: MutablePlan, at: number, by: number): void => {
  const moved = (point: number): number => (point > at ? point + by : point)
  for (const r of p.residencies) {
    r.acquire = moved(r.acquire)
    r.release = moved(r.release)
    if (r.swapIn) r.swapIn.ready = moved(r.swapIn.ready)
    if (r.swapOut) r.swapOut.start = moved(r.swapOut.start)
  }
}

/** Cells live as long as calls touch them, and their pages stay at least as long. */
const relive = (p: MutablePlan): void => {
  const lives = new Map<number, Points>()
  p.calls.forEach((c, i) => {
    const cells = [...c.ins, ...c.outs].map((v) => v.cell).concat(c.workspace ? [c.workspace.cell] : [])
    for (const cell of cells) lives.set(cell, { first: lives.get(cell)?.first ?? i, last: i })
  })
  for (const c of p.cells) Object.assign(c, lives.get(c.id) ?? {})
}

/** Every page is on the device all the time: only calls can be wrong. */
export const allResident = (p: MutablePlan): MutablePlan => {
  relive(p)
  let page = 0
  p.residencies = p.storages.map((s, storage) => {
    const count = pagesFor(s.bytes)
    const fed = p.cells[s.cells[0]!]!.scope === 'fed'
    const runs = [{ page, count }]
    page += count
    return {
      storage,
      from: 0,
      to: count,
      acquire: 0,
      release: p.calls.length,
      runs,
      ...(fed ? { swapIn: { ready: 0, from: 'source' as const } } : {}),
    }
  })
  p.peakPages = page
  p.budgetBytes = bytesOf(page)
  return p
}

export const removeCall = (p: MutablePlan, at: number): void => {
  p.calls.splice(at, 1)
  shiftPoints(p, at, -1)
  relive(p)
}
export const repeatCall = (p: MutablePlan, at: number): void => {
  p.calls.splice(at, 0, structuredClone(p.calls[at]!))
  shiftPoints(p, at, 1)
  relive(p)
}
export const swapCalls = (p: MutablePlan, a: number, b: number): void => {
  const [x, y] = [p.calls[a]!, p.calls[b]!]
  p.calls[a] = { ...y, segment: x.segment, tile: x.tile }
  p.calls[b] = { ...x, segment: y.segment, tile: y.tile }
  for (const c of p.calls)
    if (c.op >= 0 && !p.segments[c.segment]!.body.some((s) => s.op === c.op)) p.segments[c.segment]!.body.push({ op: c.op })
  relive(p)
}

/** The n-th call of this kind. */
export const call = (p: MutablePlan, kind: string, n = 0): MutablePlan['calls'][number] =>
  p.calls.filter((c) => c.kind === kind)[n]!
export const indexOf = (p: MutablePlan, kind: string, n = 0): number => p.calls.indexOf(call(p, kind, n))
/** The n-th stay of the cell with this label (the n-th cell, when several have it). */
export const stay = (p: MutablePlan, label: string, n = 0): MutablePlan['residencies'][number] =>
  p.residencies.filter((r) => p.storages[r.storage]!.label === label)[n]!
export const rows = (v: { box: MutablePlan['calls'][number]['ins'][number]['box'] }, lo: number, hi: number): void => {
  v.box[2] = [lo, hi]
}
