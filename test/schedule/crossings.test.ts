// What each stretch decides for itself: the best there is in small cases, by trying all; and what it costs, by counting anew.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Graph, ValueId } from '../../staging/graph/graph'
import { opCosts } from '../../staging/schedule/chain'
import { Crossings, decisionsOf } from '../../staging/schedule/crossings'
import { alike, type Joint, jointOf, type Makes, mayMake, type Stretch } from '../../staging/schedule/joint'
import type { Moving } from '../../staging/schedule/passing'
import { machines } from '../../staging/sim/machines'
import { trainingGraph } from '../golden/golden'
import { Sketch } from '../graph/sketch'
import { trained } from '../tile/trained'

const machine = machines['v100-pcie-16g']!
/** Over a link that is so slow that much is worth making again, and not all. */
const over = (bytesPerSecond: number, bytes = Infinity): Moving => ({
  link: { ...machine.link, outBytesPerSecond: bytesPerSecond, inBytesPerSecond: bytesPerSecond, bytes },
  room: 0,
  weight: 1,
})
const jointFor = (g: Graph, leastBytes?: number): Joint => jointOf(g, opCosts(g, machine), leastBytes)
const twoNorms = (): Graph => {
  const s = new Sketch([2, 2, 16, 16])
  const first = s.norm(s.conv(s.image, 'c1', 4, 3, undefined, false), 'n1')
  return trained(s, s.norm(first, 'n2'))
}
const large = (): Graph => trainingGraph('resnet20-cifar', [8, 3, 512, 512])
const FINDS: Makes = () => false

const total = (j: Joint, moving: Moving, makes: Makes): number => new Crossings(j, moving, makes).total

/** What is needed in some stretch, whatever it makes again, and may be made again there. */
const choices = (j: Joint): readonly (readonly [Stretch, ValueId])[] =>
  [...j.forward, ...j.backward].flatMap((s) => {
    const own = new Set(s.ops.flatMap((id) => j.graph.ops[id]!.outs))
    const needed = new Set<ValueId>()
    const need = (v: ValueId): void => {
      if (own.has(v) || needed.has(v) || !mayMake(j, s, v)) return
      needed.add(v)
      for (const w of (j.makers.get(v) ?? j.gradientMakers.get(v))!.ins) need(w)
    }
    for (const id of s.ops) for (const v of j.graph.ops[id]!.ins) need(v)
    return [...needed].map((v) => [s, v] as const)
  })

for (const rate of [2e8, 1e9, 5e9])
  test(`no decisions are better than what is found, over ${rate} bytes a second`, () => {
    const j = jointFor(twoNorms(), 0)
    const all = choices(j)
    assert.ok(all.length >= 8 && all.length <= 16, `${all.length} choices`)
    let least = Infinity
    for (let bits = 0; bits < 2 ** all.length; bits++) {
      const makes: Makes = (s, v) => all.some(([t, w], i) => t === s && w === v && ((bits >> i) & 1) === 1)
      least = Math.min(least, total(j, over(rate), makes))
    }
    const found = total(j, over(rate), decisionsOf(j, over(rate), FINDS))
    assert.ok(found <= least * (1 + 1e-9), `${found} where ${least} is possible`)
  })

test('what they cost is kept up to date, and no more than to begin with', () => {
  const j = jointFor(large())
  const moving = over(3e9)
  const before = total(j, moving, FINDS)
  const crossings = new Crossings(j, moving, FINDS)
  crossings.anneal(20_000, before / 1000)
  assert.ok(crossings.total < 0.9 * before, `${crossings.total} of ${before}`)
  assert.ok(Math.abs(total(j, moving, crossings.decided()) - crossings.total) < 1e-9 * before)
})

test('stretches decide apart where that is better than alike', () => {
  const j = jointFor(large())
  const moving = over(3e9)
  const start = alike(j, new Set(j.mayGo))
  const decided = decisionsOf(j, moving, start)
  const of = (s: Stretch): ReadonlySet<ValueId> => new Set(j.graph.values.flatMap(({ id }) => (decided(s, id) ? [id] : [])))
  const made = j.backward.map(of)
  const apart = j.mayGo.filter((v) => made.some((m) => m.has(v)) && !made.every((m) => m.has(v)))
  assert.ok(apart.length > 0)
  assert.ok(total(j, moving, decided) < total(j, moving, start))
})

test('the same is decided each time', () => {
  const j = jointFor(large())
  const text = (makes: Makes): string =>
    [...j.forward, ...j.backward].map((s) => j.graph.values.map(({ id }) => Number(makes(s, id))).join('')).join()
  const decided = (): string => text(decisionsOf(j, over(3e9), FINDS))
  assert.is(decided(), decided())
})

test('no more stands than the lower tier has room for, where that can be', () => {
  const j = jointFor(large())
  const bytes = 2 ** 30
  const [roomy, tight] = [over(1e11), over(1e11, bytes)]
  const everything = total(j, tight, decisionsOf(j, roomy, FINDS))
  const fitting = total(j, tight, decisionsOf(j, tight, FINDS))
  assert.ok(fitting < everything)
  assert.is(fitting, total(j, { ...tight, link: { ...tight.link, bytes: Infinity } }, decisionsOf(j, tight, FINDS)))
})

test.run()
