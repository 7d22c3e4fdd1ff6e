// Plan files: written ones are read back, and nothing else is.
import { isLeft, isRight } from 'fp-ts/Either'
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { mib } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import { hashText } from '../../staging/core/fnv'
import { compile } from '../../staging/compile'
import { decodePlan, encodePlan, PLAN_VERSION } from '../../staging/plan/codec'
import { foldedOf, unfolded } from '../../staging/plan/folded'
import { type Plan, precisionOf } from '../../staging/plan/plan'
import { planText } from '../../staging/plan/text'
import { machines } from '../../staging/sim/machines'
import { verify } from '../../staging/verify/verify'
import { FULL } from '../full'
import { type Case, cases, groupsOf, planOf, trainingOf } from '../property/plans'

const machine = machines['v100-pcie-16g']!
const small: Case['recipe'] = {
  image: [2, 1, 9, 7],
  end: 'map',
  fused: false,
  blocks: [
    { tag: 'conv', channels: 2, grouped: false, bias: true, window: { kernel: 3, stride: 1, dilation: 1, pads: [1, 1, 1, 1] } },
    { tag: 'norm' },
    { tag: 'relu', slope: 0.1 },
  ],
}
const tiledPlan = (): Plan => {
  const graph = trainingOf(small)
  return planOf(graph, groupsOf(graph, { grids: [{ B: 2, H: 3, W: 2 }], cutAfter: [3], squeeze: 0 }), 0, machine)!
}
/** Bands of a value of 32 MiB come and go. */
const swappedPlan = (): Plan => {
  const graph = trainingOf({ ...small, image: [1, 1, 4096, 1024] })
  return planOf(graph, groupsOf(graph, { grids: [{ B: 1, H: 64, W: 1 }], cutAfter: [1, 2, 3], squeeze: 1 }), 1, machine)!
}
const refusal = (text: string): string | undefined => {
  const p = decodePlan(text)
  return isLeft(p) ? renderError(p.left) : undefined
}
type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
type Path = readonly (string | number)[]

const child = (u: Json, key: string | number): Json => (u as Record<string, Json>)[key]!
/** The file with one field changed, and a checksum that fits. */
const edited = (text: string, path: Path, value: Json): string => {
  const file = JSON.parse(text) as Record<string, Json>
  const holder = path.slice(0, -1).reduce<Json>(child, file['plan']!) as Record<string, Json>
  holder[path.at(-1)!] = value
  const plan = JSON.stringify(file['plan'])
  return `{"format":"spillway-plan","version":${PLAN_VERSION},"checksum":"${hashText(plan)}","plan":${plan}}\n`
}
/** Paths of all numbers and words in it. */
const leavesOf = (u: Json, path: Path = []): readonly Path[] =>
  typeof u === 'object' && u !== null ? Object.keys(u).flatMap((k) => leavesOf(child(u, k), [...path, k])) : [path]

test('a plan file with more calls than memory holds is refused', () => {
  const text = encodePlan(tiledPlan())
  const refused = decodePlan(text, 20)
  assert.ok(isLeft(refused))
  assert.match(renderError(refused.left), /segments: they unroll into more than 20 calls, the limit of the memory/)
  assert.ok(isRight(decodePlan(text)))
})

test('a plan file stores many residencies as repeated rows without pages, and restores them', () => {
  const plan = swappedPlan()
  const { residencies, calls } = plan
  assert.ok(residencies.filter((r) => r.swapOut && r.tierOffset !== undefined).length > 4, 'some leave')
  const folded = foldedOf(residencies, calls.length, 0)!
  assert.is(foldedOf(residencies, calls.length), null, 'few are listed')
  assert.ok(folded.rows.length < residencies.length, `${folded.rows.length} rows of ${residencies.length}`)
  const back = unfolded(folded, calls.length)
  if (isLeft(back)) return assert.unreachable(back.left)
  assert.equal(back.right, residencies)
  const file = (of: object, others: readonly object[] = []): string =>
    edited(edited(encodePlan(plan), ['residencies'], others as unknown as Json), ['folded'], of as unknown as Json)
  const read = decodePlan(file(folded))
  if (isLeft(read)) return assert.unreachable(renderError(read.left))
  assert.equal(JSON.parse(JSON.stringify(read.right)), JSON.parse(JSON.stringify(plan)))
  const otherwise = residencies.map((r) => ({ ...r, runs: r.runs.map(({ page, count }) => ({ page: page + 1, count })) }))
  assert.is(foldedOf(otherwise, calls.length, 0), null, 'pages that pages.ts would not give')
  const row = folded.rows[0]!
  const refusals: readonly (readonly [object, RegExp])[] = [
    [{ ...folded, order: [folded.rows.length] }, /folded.*rows of 10 numbers/],
    [{ ...folded, rows: [[1, 2, 3]] }, /folded.*rows of 10 numbers/],
    [{ rows: [row.map((x, i) => (i === 3 ? -1 : x))], order: [0] }, /folded.*within/],
    [{ rows: [row.map((x, i) => (i === 2 ? 0 : x))], order: [0] }, /folded.*at least one page/],
    [{ rows: [row.map((x, i) => (i === 4 ? calls.length + 1 : x))], order: [0] }, /folded.*within/],
    [{ rows: [row.map((x, i) => (i === 0 ? -1 : x))], order: [0] }, /folded/],
    [{ rows: ['x'], order: [0] }, /folded/],
  ]
  for (const [damaged, words] of refusals) assert.match(refusal(file(damaged))!, words)
  assert.match(refusal(file(folded, residencies))!, /folded: there are residencies too/)
})

test('a plan file stores the slices of many tiles as differences, and restores them', () => {
  const text = encodePlan(swappedPlan())
  const segments = child(child(JSON.parse(text) as Json, 'plan'), 'segments') as readonly Json[]
  const at = segments.findIndex((s) => child(child(s, 'grid'), 'H') === 64)
  const path = ['segments', at, 'body', 0, 'slices', 0, 'H'] as const
  const differences = child(path.slice(1).reduce<Json>(child, segments as Json), 'differences') as readonly Json[]
  assert.ok(differences.length < 16, JSON.stringify(differences))
  const refusals: readonly (readonly [Json, RegExp])[] = [
    [[...differences, 1], /differences|a range has no end/],
    [[...differences, [1, 2]], /65 slices along H for 64 tiles/],
    [[...differences, [1, 2 ** 40]], /they exceed the limit of 8388608 numbers/],
    [[[1, 4], ...differences], /refers back before the first of 0 numbers/],
    [[-1, ...differences.slice(1)], /whole number from 0/],
    ['x', /differences/],
  ]
  for (const [damaged, words] of refusals) assert.match(refusal(edited(text, path, { differences: damaged }))!, words)
})

test('a plan file restores the plan with its calls and cells', () => {
  const plan = tiledPlan()
  const back = decodePlan(encodePlan(plan))
  if (isLeft(back)) return assert.unreachable(renderError(back.left))
  assert.equal(JSON.parse(JSON.stringify(back.right)), JSON.parse(JSON.stringify(plan)))
  assert.ok(plan.calls.length > 50)
  assert.ok(isRight(verify(back.right)))
})

test('a plan file states the precision of products, if it is reduced', () => {
  const plan = tiledPlan()
  const back = decodePlan(encodePlan({ ...plan, precision: 'tf32' }))
  assert.ok(isRight(back))
  assert.equal([precisionOf(back.right), precisionOf(plan)], ['tf32', 'fp32'])
  assert.match(planText(back.right).split('\n')[0]!, / · tf32$/)
  assert.match(refusal(edited(encodePlan(plan), ['precision'], 'bf16'))!, /precision.*"bf16" is not/)
})

test('plan files restore compiled plans of random networks and strategies', () => {
  fc.assert(
    fc.property(cases, fc.constantFrom('in-core', 'checkpoint:sqrt', 'swap:greedy'), ({ recipe }, strategy) => {
      const plan = compile(trainingOf(recipe), { strategy, budgetBytes: mib(64), machine })
      if (isLeft(plan)) throw new Error(renderError(plan.left))
      const back = decodePlan(encodePlan(plan.right))
      if (isLeft(back)) throw new Error(renderError(back.left))
      assert.equal(JSON.parse(JSON.stringify(back.right)), JSON.parse(JSON.stringify(plan.right)))
    }),
    { numRuns: FULL ? 30 : 15, seed: 1 },
  )
})

test('plan files restore tiled plans on forced grids', () => {
  fc.assert(
    fc.property(cases, ({ recipe, tiling }) => {
      const graph = trainingOf(recipe)
      const plan = planOf(graph, groupsOf(graph, tiling), tiling.squeeze, machine)
      fc.pre(plan !== undefined)
      const back = decodePlan(encodePlan(plan))
      if (isLeft(back)) throw new Error(renderError(back.left))
      assert.is(JSON.stringify(back.right.calls), JSON.stringify(plan.calls))
      assert.is(JSON.stringify(back.right.cells), JSON.stringify(plan.cells))
    }),
    { numRuns: FULL ? 30 : 15, seed: 2 },
  )
})

const DAMAGED = FULL ? 10_000 : 1000

test(`${DAMAGED} changed files are refused with an error`, () => {
  const bytes = Buffer.from(encodePlan(tiledPlan()))
  fc.assert(
    fc.property(
      fc.nat(bytes.length - 1),
      fc.integer({ min: 0, max: 7 }),
      fc.constantFrom('flip', 'cut', 'drop', 'double'),
      (at, bit, how) => {
        const head = bytes.subarray(0, at)
        const changed = {
          flip: () => Buffer.concat([head, Buffer.from([bytes[at]! ^ (1 << bit)]), bytes.subarray(at + 1)]),
          cut: () => head,
          drop: () => Buffer.concat([head, bytes.subarray(at + 1)]),
          double: () => Buffer.concat([head, bytes.subarray(at, at + 1), bytes.subarray(at)]),
        }[how]()
        if (changed.toString() === bytes.toString()) return
        const words = refusal(changed.toString())
        assert.ok(words !== undefined, `${how} at ${at} was accepted`)
        assert.match(words, /^not a plan file: [^:]+: ./)
      },
    ),
    { numRuns: DAMAGED, seed: 3 },
  )
})

/** Processor seconds; on a busy machine the same work takes several times as long. */
const AT_ONCE_SECONDS = 20

const CHANGES = FULL ? 2000 : 200

test('files with a right checksum and wrong contents are refused, or are plans that verify can judge', () => {
  const text = encodePlan(tiledPlan())
  const leaves = leavesOf((JSON.parse(text) as Record<string, Json>)['plan']!)
  assert.ok(leaves.length > 1000)
  let refused = 0
  const values: readonly Json[] = [-1, 0, 1, 2, 1.5, 7, 4096, 1e9, 2 ** 53, 1e308, null, 'x', [], {}, true]
  fc.assert(
    fc.property(fc.nat(leaves.length - 1), fc.constantFrom(...values), (i, value) => {
      const changed = edited(text, leaves[i]!, value)
      if (changed === text) return
      const p = decodePlan(changed)
      if (isLeft(p)) refused++
      else verify(p.right)
    }),
    { numRuns: CHANGES, seed: 4 },
  )
  assert.ok(refused > CHANGES / 2, `only ${refused} were refused by the codec`)
})

test("a text that would take its reader's memory or stack is refused at once, in words", () => {
  const nested = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
  const plan = encodePlan(tiledPlan())
  const withGraph = plan.replace(/"graph":\{/, () => `"graph":${nested},"other":{`)
  /** With a head that fits: the contents have to be checked. */
  const headed = (inside: string): string =>
    `{"format":"spillway-plan","version":${PLAN_VERSION},"checksum":"${hashText(inside)}","plan":${inside}}\n`
  const insideOf = (file: string): string => file.slice(file.indexOf('"plan":') + 7, -2)
  const quick = (text: string, words: RegExp): void => {
    const before = process.cpuUsage()
    assert.match(refusal(text)!, words)
    const { user, system } = process.cpuUsage(before)
    assert.ok((user + system) / 1e6 < AT_ONCE_SECONDS, `${(user + system) / 1e6} s`)
  }
  quick(nested, /file: it does not begin like a plan file/)
  quick('[],'.repeat(100_000_000), /file: it does not begin like a plan file/)
  quick(withGraph, /checksum/)
  quick(headed(nested), /plan: it nests lists and objects deeper than 64/)
  quick(headed(insideOf(withGraph)), /plan: it nests lists and objects deeper than 64/)
  quick(headed(`{"x":${'{"x":'.repeat(100_000)}1${'}'.repeat(100_000)}}`), /plan: .* deeper than 64/)
  quick(headed(`[${'[],'.repeat(9_000_000)}[]]`), /plan: it has more than \d+ lists and objects/)
  const brackets = edited(plan, ['segments', 0, 'name'], '['.repeat(900))
  assert.is(refusal(brackets), undefined, 'brackets and quotes inside words do not count')
  assert.is(refusal(edited(plan, ['segments', 0, 'name'], '"\\"[[{')), undefined)
})

test('words of a file that are shown are short and visible', () => {
  const text = encodePlan(tiledPlan())
  const paths: readonly Path[] = [
    ['machine'],
    ['strategy'],
    ['segments', 0, 'name'],
    ['storages', 0, 'label'],
    ['graph', 'name'],
    ['graph', 'values', 0, 'name'],
    ['graph', 'ops', 0, 'layer'],
  ]
  for (const path of paths)
    for (const forged of ['\u001b[2J', 'a\nb', '\u202egnp', 'a\u0000', '\u009b31m', 'a\u2028b', '\ud800', 'x'.repeat(1001)])
      assert.match(refusal(edited(text, path, forged))!, /is not a string of at most 1000 visible characters/)
  for (const path of paths.slice(0, 4)) assert.is(refusal(edited(text, path, 'Ünï · ×2 … (née) 图')), undefined)
})

test('refusals name the place and the fault', () => {
  const text = encodePlan(tiledPlan())
  for (const other of ['', '[]', '{"plan":1}', ` ${text}`])
    assert.match(refusal(other)!, /file: it does not begin like a plan file: {"format":"s/)
  assert.match(refusal(text.replace('spillway-plan', 'spillway-map'))!, /format: it is "spillway-map"; allowed: "spillway-plan"/)
  for (const part of [text.slice(0, -1), text.slice(0, 300), `${text} `])
    assert.match(refusal(part)!, /checksum: the file was changed after it was written/)
  const spaced = JSON.stringify(JSON.parse(text).plan, null, 1)
  assert.match(refusal(text.replace(/"checksum".*/s, `"checksum":"${hashText(spaced)}","plan":${spaced}}\n`))!, /checksum/)
  assert.match(refusal(text.replace(/"checksum".*/s, `"checksum":"${hashText('[')}","plan":[}\n`))!, /plan: it is not JSON/)
  assert.match(
    refusal(text.replace(`"version":${PLAN_VERSION}`, '"version":99'))!,
    new RegExp(`version: it is 99, but this version of spillway reads ${PLAN_VERSION}`),
  )
  assert.match(refusal(text.replace('"budgetBytes":', '"budgetBytes": '))!, /checksum/)
  const cases: readonly (readonly [Path, Json, RegExp])[] = [
    [['budgetBytes'], -1, /budgetBytes: -1 is not a whole number from 0/],
    [['segments', 0, 'phase'], 'sideways', /segments.0.phase: "sideways" is not "forward" . "recompute"/],
    [['segments', 0, 'body', 0, 'op'], 999, /segments: segment 0 .*there is no op 999/],
    [['segments', 0, 'grid', 'H'], 1e9, /more than \d+ calls/],
    [['segments', 0, 'body', 0, 'slices', 0, 'H', 0], [5, 5], /slice \[5,5\) along H/],
    [['places'], [], /places: there are 0 for \d+ cells/],
    [['costs'], {}, /segments: they cannot be unrolled: no cost is recorded/],
    [['graph', 'ops', 0, 'kind'], 'konv', /graph: .*konv/],
  ]
  for (const [path, value, words] of cases) assert.match(refusal(edited(text, path, value))!, words)
})

test.run()
