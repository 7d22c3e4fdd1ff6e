// Exchanges between ranks during compute: no plan touches, moves or frees them in flight; other plans are refused.
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { crossEntropy } from '../../dsl'
import { compile } from '../../staging/compile'
import { bytesOf, pagesIn } from '../../staging/core/bytes'
import { decodePlan, encodePlan } from '../../staging/plan/codec'
import { mayStartEarly } from '../../staging/graph/ranks'
import { isPermanent } from '../../staging/plan/instructions'
import type { Call, Plan, Residency } from '../../staging/plan/plan'
import { verify } from '../../staging/verify/verify'
import { machineNamed } from '../../src/machine/machine'
import { prepare } from '../../src/stage/prepare'
import { zooEntry } from '../../src/zoo'

const on = machineNamed('v100-nvlink-16g', { ranks: 2, network: 'ethernet-25g' })
const planned = (strategy: string, share = 1): Plan => {
  const model = zooEntry('resnet20-cifar')!.build([16, 3, 32, 32], 'train', {})
  assert.ok(E.isRight(on) && E.isRight(model))
  const prepared = prepare(model.right, on.right, { loss: crossEntropy })
  assert.ok(E.isRight(prepared))
  const of = (budgetBytes: number) => compile(prepared.right.graph, { strategy, machine: on.right, budgetBytes })
  const whole = of(2 ** 34)
  assert.ok(E.isRight(whole))
  const less = share === 1 ? whole : of(bytesOf(Math.ceil(share * whole.right.peakPages)))
  assert.ok(E.isRight(less), E.isLeft(less) ? JSON.stringify(less.left) : '')
  return less.right
}
const kept = planned('in-core')

const refusal = (plan: Plan): string => {
  const answer = verify(plan)
  assert.ok(E.isLeft(answer))
  return `${answer.left.rule}: ${answer.left.reason}`
}
const first = (plan: Plan, early = false): number =>
  plan.calls.findIndex((c) => c.beside && c.beside.until > 2 && mayStartEarly(c) === early)
const withCall = (plan: Plan, at: number, by: (c: Call) => Call): Plan => ({
  ...plan,
  calls: plan.calls.map((c, i) => (i === at ? by(c) : c)),
})

test('plans with exchanges beside compute pass the verifier with any transfers, and are restored from their files', () => {
  for (const plan of [kept, planned('swap:greedy', 0.8), planned('checkpoint:sqrt')]) {
    assert.ok(plan.calls.filter((c) => c.beside).length > 4)
    for (const c of plan.calls) assert.ok(c.beside ? c.attrs['beside'] === 1 || mayStartEarly(c) : c.attrs['beside'] !== 1)
    const again = decodePlan(encodePlan(plan))
    assert.ok(E.isRight(again), E.isLeft(again) ? JSON.stringify(again.left).slice(0, 300) : '')
    assert.equal(
      again.right.calls.map((c) => c.beside),
      plan.calls.map((c) => c.beside),
    )
  }
})

test('an exchange without a wait, or with a late one, is refused', () => {
  const at = first(kept)
  const { beside } = kept.calls[at]!
  const until = (point: number): Plan => withCall(kept, at, (c) => ({ ...c, beside: { ...beside!, until: point } }))
  assert.match(refusal(until(beside!.until + 1)), /^exchanged: it touches the exchange of call \d+, which is not finished$/)
  assert.match(refusal(until(at)), /^structure: its wait is at/)
  const alone = withCall(kept, at, ({ beside: _, ...c }) => c)
  assert.match(refusal(alone), /^structure: all_sums runs concurrently, but has no wait$/)
  const other = withCall(kept, 0, (c) => ({ ...c, beside: { until: 1, seconds: 0 } }))
  assert.match(refusal(other), /^structure: \w+ cannot run concurrently$/)
})

test('an early exchange is waited for before its values are used, or runs in order', () => {
  const at = first(kept, true)
  const { beside } = kept.calls[at]!
  const late = withCall(kept, at, (c) => ({ ...c, beside: { ...beside!, until: beside!.until + 1 } }))
  assert.match(refusal(late), /^exchanged: it touches the exchange of call \d+, which is not finished$/)
  const inTurn = withCall(kept, at, ({ beside: _, ...c }) => ({ ...c, seconds: beside!.seconds }))
  assert.ok(E.isRight(verify(inTurn)))
})

test('pages that move under an exchange are refused', () => {
  const forEver = isPermanent(kept)
  const [at, under] = kept.calls
    .flatMap(({ beside, ins: [share] }, call) => {
      const { storage, offset } = kept.places[share?.cell ?? 0]!
      const holds = (r: Residency): boolean => r.storage === storage && r.from <= pagesIn(offset) && pagesIn(offset) < r.to
      return kept.residencies.map((r, i) => (beside && holds(r) && !forEver(r) ? [call, i] : [-1, -1]))
    })
    .find(([call]) => call! >= 0)!
  const { beside } = kept.calls[at!]!
  const moved: Plan = {
    ...kept,
    residencies: kept.residencies.map((r, i) => (i === under ? { ...r, release: beside!.until - 1 } : r)),
  }
  assert.match(refusal(moved), /^exchanged: pages of '.*' move during the exchange of call \d+/)
})

test.run()
