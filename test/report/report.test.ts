import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { gateTest } from '../full'
import { conv2d, maxPool, model, relu, seq } from '../../dsl'
import { niceStep } from '../../src/report/charts'
import {
  axisSeconds,
  showCount,
  showPercent,
  showRatio,
  showSeconds,
  showShape,
  showSize,
  significant,
} from '../../src/report/format'
import { reportHtml } from '../../src/report/html'
import { type Bar, coalesce, lanesOf, stallsOf } from '../../src/report/lanes'
import { holdersAt, KINDS, memorySeries, pagesByKind, totalPages, worstCall } from '../../src/report/memory'
import { embedJson, escapeHtml } from '../../src/report/page'
import { stage } from '../../src/stage/stage'
import { measuredTimeline } from '../../src/report/measured'
import { summary } from '../../src/report/summary'
import { layerRows, segmentRows } from '../../src/report/tables'
import { traceJson } from '../../src/report/trace'
import { factsOf, planJson, type Staging } from '../../src/report/facts'
import { explain } from '../../src/report/words'
import { type Plan, tilesOf } from '../../staging/plan/plan'
import { simulate } from '../../staging/sim/simulate'
import { instructions } from '../../staging/plan/instructions'
import type { Span } from '../../staging/sim/timeline'
import { chainPlan, LINK, play, stagingOf } from './plans'

const everything = { layers: 6, size: 512, tiles: 4, recompute: true, swap: true }
const html = (plan: Plan): string => reportHtml(plan, play(plan), stagingOf(plan))

// ---------------------------------------------------------------- numbers as text

test('numbers have one format everywhere', () => {
  assert.equal([0, 3e-9, 4.56e-5, 0.0123, 1.5, 61.2, 900, 9000].map(showSeconds), [
    '0 s',
    '3.00 ns',
    '45.6 µs',
    '12.3 ms',
    '1.50 s',
    '61.2 s',
    '15.0 min',
    '2.5 h',
  ])
  assert.equal([0, 0.0001, 0.0123, 0.5, 0.997, 1, 1.5].map(showPercent), [
    '0 %',
    '<0.1 %',
    '1.2 %',
    '50 %',
    '99.7 %',
    '100 %',
    '150 %',
  ])
  assert.is(showCount(138357544), '138\u202f357\u202f544')
  assert.is(significant(12345, 3), '12345')
  assert.equal(
    [0, 0.2, 1.4].map((t) => axisSeconds(t, 1.46)),
    ['0 s', '0.2 s', '1.4 s'],
  )
  assert.equal(
    [7, 30, 1200].map((n) => niceStep(n, 10)),
    [1, 5, 200],
  )
})

// ---------------------------------------------------------------- memory

test('the kinds add up to the planned peak at the worst call, and to nothing more anywhere', () => {
  const plan = chainPlan(everything)
  const pages = pagesByKind(plan)
  const totals = plan.calls.map((_, p) => totalPages(pages, p))
  assert.is(Math.max(...totals), plan.peakPages)
  assert.is(totals[worstCall(plan, pages)], plan.peakPages)
  const held = holdersAt(plan, worstCall(plan, pages), 3).reduce((n, h) => n + h.bytes, 0)
  assert.is(held / (2 * 1024 * 1024), plan.peakPages)
  plan.calls.forEach((_, p) => {
    const expected = plan.residencies.reduce((n, r) => n + (r.acquire <= p && p < r.release ? r.to - r.from : 0), 0)
    assert.is(totals[p], expected)
  })
})

test('a shortened memory series keeps the peak', () => {
  const plan = chainPlan({ layers: 4, size: 512, tiles: 100 })
  const series = memorySeries(plan, play(plan), 20)
  assert.ok(series.length <= 20)
  assert.is(Math.max(...series.map((p) => p.pages.reduce((a, b) => a + b, 0))), plan.peakPages)
  assert.is(series[0]!.pages.length, KINDS.length)
})

// ---------------------------------------------------------------- time

test('stalls by cause sum to the stalls of the timeline', () => {
  const plan = chainPlan(everything)
  const timeline = play(plan)
  const sum = (cause: string): number =>
    stallsOf(plan, timeline).reduce((n, s) => n + (s.cause === cause ? s.end - s.start : 0), 0)
  assert.ok(timeline.stallSeconds.memory > 0 && timeline.stallSeconds.data > 0)
  assert.ok(Math.abs(sum('memory') - timeline.stallSeconds.memory) < 1e-9)
  assert.ok(Math.abs(sum('data') - timeline.stallSeconds.data) < 1e-9)
})

test('lanes: every span is there when there are few, columns at most when there are many, disjoint always', () => {
  const few = chainPlan(everything)
  const lanes = lanesOf(few, play(few), 3000)
  assert.is(lanes[0]!.bars.length, few.calls.length)
  assert.ok(lanes[0]!.bars.some((b) => b.shade === 'recompute'))
  assert.equal(
    lanes.map((l) => l.title),
    ['compute', 'waiting', 'swap out', 'swap in'],
  )
  const many = chainPlan({ layers: 4, size: 512, tiles: 500 })
  const [compute] = lanesOf(many, play(many), 100)
  assert.ok(compute!.bars.length <= 100)
  compute!.bars.forEach((b, i) => assert.ok(i === 0 || compute!.bars[i - 1]!.end <= b.start + 1e-12))
  assert.is(
    compute!.bars.reduce((n, b) => n + 1 + b.others, 0),
    many.calls.length,
  )
})

test('merged bars take the colour of most of their time and the name of the longest', () => {
  const bar = (start: number, end: number, shade: Bar['shade'], label: string): Bar => ({ start, end, shade, label, others: 0 })
  const bars = [bar(0, 1, 'forward', 'a'), bar(1, 4, 'backward', 'b'), bar(4, 6, 'backward', 'c'), bar(10, 11, 'out', 'd')]
  assert.equal(coalesce(bars, 10, 2), [{ ...bar(0, 6, 'backward', 'b'), others: 2 }, bar(10, 11, 'out', 'd')])
  assert.is(coalesce(bars, 10, 4), bars)
})

test('a measured step has the names of the plan: a simulated step is returned unchanged', () => {
  const plan = chainPlan(everything)
  const simulated = simulate(plan, LINK)
  const list = instructions(plan)
  const instructionOf = (s: Span): number =>
    list.findIndex((i) =>
      i.tag === 'call'
        ? i.call === s.call
        : (i.tag === 'swapOut' || i.tag === 'swapIn') &&
          i.residency === s.residency &&
          (i.tag === 'swapOut') === (s.stream === 'out'),
    )
  const measured = measuredTimeline(
    plan,
    simulated.spans.map((s) => ({ ...s, instruction: instructionOf(s) })),
    simulated.memory,
  )
  const inOrder = (spans: readonly Span[]): readonly Span[] =>
    [...spans].sort((a, b) => a.start - b.start || (a.label < b.label ? -1 : 1))
  assert.equal(inOrder(measured.spans), inOrder(simulated.spans))
  assert.ok(simulated.stallSeconds.memory > 0 && simulated.stallSeconds.data > 0)
  for (const cause of ['memory', 'data'] as const)
    assert.ok(
      Math.abs(measured.stallSeconds[cause] - simulated.stallSeconds[cause]) < 1e-9,
      `${cause}: ${measured.stallSeconds[cause]}, ${simulated.stallSeconds[cause]}`,
    )
  assert.is(measuredTimeline(plan, [{ stream: 'compute', instruction: list.length, start: 0, end: 1 }], []).spans.length, 0)
})

// ---------------------------------------------------------------- tables

test('segment and layer rows account for all seconds', () => {
  const plan = chainPlan(everything)
  const total = plan.calls.reduce((n, c) => n + c.seconds, 0)
  const segments = segmentRows(plan)
  assert.ok(Math.abs(segments.reduce((n, r) => n + r.seconds, 0) - total) < 1e-9)
  assert.equal(
    segments.map((r) => [r.name, r.phase, r.grid, r.tiles]),
    [
      ['forward', 'forward', '4×1', 4],
      ['again', 'recompute', 'whole', 1],
      ['backward', 'backward', 'whole', 1],
    ],
  )
  assert.equal(segments[1]!.keeps.slice().sort(), ['conv0', 'conv1', 'conv2'])
  assert.is(segments[1]!.recomputeSeconds, segments[1]!.seconds)
  const layers = layerRows(plan)
  assert.equal(
    layers.map((r) => r.fate),
    ['recomputed', 'recomputed', 'recomputed', 'stays', 'stays', 'stays'],
  )
  const loss = plan.calls.reduce((n, c) => n + (plan.graph.ops[c.op]!.layer === 'loss' ? c.seconds : 0), 0)
  const inLayers = layers.reduce((n, r) => n + r.forwardSeconds + r.recomputeSeconds + r.backwardSeconds, 0)
  assert.ok(Math.abs(inLayers + loss - total) < 1e-9)
  const moved = chainPlan({ layers: 3, size: 512, swap: true })
  assert.equal(
    layerRows(moved).map((r) => r.fate),
    ['swapped out', 'stays', 'stays'],
  )
})

test("a pool's row has the shape of its output, not of the places of its maxima", () => {
  const net = model([1, 3, 64, 64], seq(conv2d('a', 8, 3), relu(), maxPool('pool', 2), conv2d('b', 8, 3)))
  const { plan } = stage(net, { machine: 'v100-pcie-16g', budget: 16 * 2 ** 20 })
  assert.ok(plan.graph.ops.some((op) => op.kind === 'max_pool_places'))
  assert.equal(layerRows(plan).find((r) => r.layer === 'pool')!.shape, [1, 8, 32, 32])
})

// ---------------------------------------------------------------- words

test('the text describes the decisions of the plan, and no others', () => {
  const headings = (plan: Plan): readonly string[] =>
    explain(plan, factsOf(plan, stagingOf(plan)), play(plan), stagingOf(plan)).map((p) => p.heading)
  assert.equal(headings(chainPlan(everything)), ['Memory', 'Tiles', 'Recompute', 'Copies', 'Time'])
  assert.equal(headings(chainPlan({ layers: 3, size: 64 })), ['Memory', 'Time'])
  const plan = chainPlan({ layers: 3, size: 64 })
  const [memory] = explain(plan, factsOf(plan, stagingOf(plan, 2)), play(plan), stagingOf(plan, 2))
  assert.match(memory!.text, 'fits the budget')
  assert.match(memory!.text, 'keeps everything on the device')
})

test('loops over the batch have no halo: the text calls them image by image', () => {
  const inRows = chainPlan({ layers: 3, size: 64, tiles: 4 })
  const inParts: Plan = {
    ...inRows,
    segments: inRows.segments.map((s) => (tilesOf(s.grid) > 1 ? { ...s, grid: { B: 4, H: 1, W: 1 } } : s)),
  }
  const textOf = (plan: Plan): string =>
    explain(plan, factsOf(inRows, stagingOf(inRows, 2)), play(inRows), stagingOf(inRows, 2))
      .map((p) => p.text)
      .join(' ')
  assert.match(textOf(inParts), 'into parts of the batch')
  assert.match(textOf(inParts), 'when its images have arrived')
  assert.not.match(textOf(inParts), 'halo')
  assert.match(textOf(inRows), 'into tiles')
  assert.match(textOf(inRows), 'halo')
})

test('the gap is stated above a bound, above the compute alone, or not at all on a local device', () => {
  const kept = chainPlan({ layers: 3, size: 64 })
  const { makespanSeconds } = play(kept)
  const bound = (of: Staging['bound']): string => {
    const staging = { ...stagingOf(kept), bound: of }
    const text = explain(kept, factsOf(kept, staging), play(kept), staging).at(-1)!.text
    const [, line] = /\n {2}bound {6}(.*)\n/.exec(summary(kept, play(kept), staging))!
    const page = reportHtml(kept, play(kept), staging)
    return `${text} | ${line} | ${page.includes(line!) ? 'on the page' : page}`
  }
  const seconds = makespanSeconds / 1.083
  assert.match(bound({ seconds, isCompute: false }), /The step is 8\.3 % above the lower bound of .* on the page/)
  assert.match(bound({ seconds, isCompute: true }), /8\.3 % above the lower bound of .*, the compute alone/)
  assert.match(bound({ seconds: makespanSeconds, isCompute: false }), /The step is at the lower bound of/)
  assert.match(
    bound(undefined),
    /There is no lower bound: on this device, .* no lower bound: on this device, tiles may be faster/,
  )
})

test('the summary is short, narrow, and names the numbers that matter', () => {
  const plan = chainPlan(everything)
  const text = summary(plan, play(plan), stagingOf(plan))
  const lines = text.split('\n')
  assert.ok(lines.length <= 16, `${lines.length} lines`)
  for (const line of lines) assert.ok(line.length <= 118, `${line.length} columns: ${line}`)
  for (const width of [60, 80, 100, 118, 200])
    for (const line of summary(plan, play(plan), stagingOf(plan), width).split('\n'))
      assert.ok(line.length <= width, `${line.length} of ${width} columns: ${line}`)
  assert.is(summary(plan, play(plan), stagingOf(plan), 118), text)
  assert.match(text, 'chain 1×16×512×512 · hand-made · bench')
  assert.match(text, /recompute \d/)
  const longer: Plan = { ...plan, segments: Array.from({ length: 40 }, (_, i) => ({ ...plan.segments[i % 3]!, name: `s${i}` })) }
  const cut = summary(longer, play(plan), stagingOf(plan))
  assert.match(cut, '33 more segments')
  assert.ok(cut.split('\n').length <= 16)
})

// ---------------------------------------------------------------- the page

test('the page is self-contained and escapes names of the model', () => {
  const page = html(chainPlan({ ...everything, name: '</script><img src=x>' }))
  assert.not.match(page, /<img/)
  assert.not.match(page, /<[^>]*(src|href)=|url\((?!#)|https?:/)
  assert.is(page.match(/<script/g)?.length, 2)
  assert.is(page.match(/<\/script>/g)?.length, 2)
  for (const part of ['How this plan works', 'One step', 'The worst moment', 'Segments', 'Layers', 'class="budget"'])
    assert.match(page, part)
  assert.not.match(page, /NaN|undefined|Infinity/)
  // Each table that scrolls can have the focus, and has a name of its own.
  const regions = [...page.matchAll(/<div class="scroll[^"]*"([^>]*)>/g)].map(([, rest]) => rest!)
  assert.ok(regions.length >= 3 && regions.every((r) => /tabindex="0" role="region" aria-label="[^"]+"/.test(r)))
  assert.is(new Set(regions).size, regions.length)
  const data = /id="data">(.*?)<\/script>/s.exec(page)![1]!
  assert.is(JSON.parse(data).lanes.length, 4)
  for (const tag of ['div', 'section', 'table', 'tr', 'td', 'span', 'p', 'dl'])
    assert.is(page.match(new RegExp(`<${tag}[ >]`, 'g'))?.length, page.match(new RegExp(`</${tag}>`, 'g'))?.length, tag)
})

test('each number of the head is one of plan --json', () => {
  for (const options of [everything, { layers: 3, size: 64 }]) {
    const plan = chainPlan(options)
    const [timeline, staging] = [play(plan), stagingOf(plan)]
    const page = reportHtml(plan, timeline, staging)
    const facts = planJson(plan, timeline, staging)
    const { memory, data } = facts.stallSeconds
    const [size, seconds] = [(bytes: number) => showSize(bytes), (s: number) => showSeconds(s)]
    const texts = [...page.matchAll(/<div class="card"><em>(.*?)<\/em><strong>(.*?)<\/strong><span>(.*?)<\/span><\/div>/g)]
    const cards = new Map(texts.map(([, title, value, note]) => [title!, [value!, ...(note!.match(NUMBER) ?? [])]]))
    const expected: Readonly<Record<string, readonly string[]>> = {
      'peak memory': [size(facts.peakBytes), size(facts.inCoreBytes)],
      'one step': [
        seconds(facts.makespanSeconds),
        ...(facts.gap === null ? [] : [showPercent(facts.gap)]),
        ...(facts.boundSeconds === null ? [] : [seconds(facts.boundSeconds)]),
      ],
      recompute: [
        showPercent(facts.recomputeSeconds / staging.inCore.computeSeconds),
        ...(facts.recomputeSeconds > 0 ? [seconds(facts.recomputeSeconds)] : []),
      ],
      halo: [showRatio(facts.haloRatio)],
      copies: facts.bytesOut > 0 ? [`${size(facts.bytesOut)} out`, size(facts.bytesIn)] : ['none'],
      waiting: [seconds(memory + data), seconds(memory), seconds(data)],
    }
    assert.equal(Object.fromEntries(cards), expected)
    const head = page.slice(page.indexOf('<h1>'), page.indexOf('</header>'))
    for (const text of [showShape(facts.input), showSize(facts.budgetBytes), `${showCount(facts.parameters)} parameters`])
      assert.ok(head.includes(text), text)
    const table = /<table[^>]*>((?:(?!<\/table>).)*?segment.*?)<\/table>/s.exec(page.slice(page.indexOf('>Segments<')))![1]!
    assert.is(table.match(/<tr[ >]/g)!.length, facts.segments + 1)
  }
})
/** Numbers with their units in the notes. */
const NUMBER = /\d[\d.]* (?:[nµm]?s|min|h|%|[KMGT]?i?B)(?!\w)/g

/** The cells of each table of a page, by its region's name. */
const tablesOf = (page: string): ReadonlyMap<string, readonly (readonly string[])[]> =>
  new Map(
    [...page.matchAll(/role="region" aria-label="Table: ([^"]+)"><table[^>]*>(.*?)<\/table>/gs)].map(([, name, table]) => [
      name!,
      [...table!.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row]) =>
        [...row!.matchAll(/<td[^>]*>(.*?)<\/td>/gs)].map(([, cell]) => cell!.replace(/<br>/g, ' ').replace(/<[^>]+>/g, '')),
      ),
    ]),
  )

test('each number of the tables and of the drawing is one of plan --json, or a part of it', () => {
  const explanation = {
    seconds: 1.5,
    simulatedSeconds: 1.25,
    loops: [{ name: 'conv0', tiles: 4, seconds: 0.5, waitSeconds: 0.25, binding: 'memory', alternatives: [] }],
    values: [
      {
        name: 'conv1',
        bytes: 3 << 20,
        decision: 'recompute',
        binding: 'memory',
        alternatives: [{ change: 'keep', seconds: 0.125 }],
      },
    ],
  } as unknown as NonNullable<Staging['explanation']>
  for (const options of [everything, { layers: 3, size: 64 }]) {
    const plan = chainPlan(options)
    const [timeline, staging] = [play(plan), { ...stagingOf(plan), explanation }]
    const [page, facts] = [reportHtml(plan, timeline, staging), planJson(plan, timeline, staging)]
    const tables = tablesOf(page)
    assert.equal([...tables.keys()].sort(), ['layers', 'loops', 'segments', 'values', 'values at the worst moment'])
    const near = (a: number, b: number): void => assert.ok(Math.abs(a - b) <= 1e-9 * Math.abs(b), `${a} is not ${b}`)
    const sum = <A>(rows: readonly A[], of: (row: A) => number): number => rows.reduce((n, row) => n + of(row), 0)

    const segments = segmentRows(plan)
    assert.is(segments.length, facts.segments)
    assert.is(Math.max(...segments.map((r) => r.peakBytes)), facts.peakBytes)
    near(
      sum(segments, (r) => r.seconds),
      facts.computeSeconds,
    )
    near(sum(segments, (r) => r.recomputeSeconds) || 1, facts.recomputeSeconds || 1)
    assert.equal(
      tables
        .get('segments')!
        .slice(1)
        .map(([name, phase, grid, , , seconds, halo, peak]) => [name, phase, grid, seconds, halo, peak]),
      segments.map((r) => [r.name, r.phase, r.grid, showSeconds(r.seconds), showRatio(r.haloRatio), showSize(r.peakBytes)]),
    )
    for (const [i, r] of segments.entries())
      if (r.keptBytes > 0) assert.ok(tables.get('segments')![i + 1]![4]!.startsWith(showSize(r.keptBytes)), r.name)

    const layers = layerRows(plan)
    assert.is(sum(layers, (r) => r.parameterBytes) / 4, facts.parameters)
    assert.equal(
      tables
        .get('layers')!
        .slice(1)
        .map(([, shape, bytes, parameters, , seconds]) => [shape, bytes, parameters, seconds]),
      layers.map((r) => [
        showShape(r.shape),
        showSize(r.bytes),
        showSize(r.parameterBytes),
        showSeconds(r.forwardSeconds + r.recomputeSeconds + r.backwardSeconds),
      ]),
    )

    assert.equal(tables.get('values')!.slice(1), [['conv1', showSize(3 << 20), 'recompute', 'memory', '+125 ms keep']])
    assert.equal(tables.get('loops')!.slice(1), [['conv0', '4', '500 ms', '250 ms', 'memory', '']])
    assert.match(page, `the search (${showSeconds(explanation.seconds)})`)

    const holders = holdersAt(plan, worstCall(plan, pagesByKind(plan)), 10)
    assert.equal(
      tables.get('values at the worst moment')!.map(([name, , bytes]) => [name, bytes]),
      holders.map((h) => [h.label, showSize(h.bytes)]),
    )
    assert.match(page, `the device uses ${showSize(facts.peakBytes)}, in whole pages`)

    const drawn = JSON.parse(/id="data">(.*?)<\/script>/s.exec(page)![1]!)
    assert.is(drawn.seconds, facts.makespanSeconds)
    const pages = (drawn.memory as readonly (readonly number[])[]).map(([, ...kinds]) => sum(kinds, (n) => n))
    assert.is(Math.max(...pages) * drawn.pageMiB * 2 ** 20, facts.peakBytes)
    assert.is(drawn.segments.length, facts.segments)
    assert.match(page, `<u>peak ${showSize(facts.peakBytes)}</u>`)
    const sizes = [...page.slice(page.indexOf('<div class="sizes">')).matchAll(/<b>([^<]+)<\/b>/g)]
      .slice(0, 3)
      .map(([, text]) => text)
    assert.equal(sizes, [facts.inCoreBytes, facts.budgetBytes, facts.peakBytes].map(showSize))
  }
})

gateTest('the page of a plan with a hundred thousand calls stays below 3 MB', () => {
  const plan = chainPlan({ layers: 8, size: 12800, tiles: 12500 })
  assert.ok(plan.calls.length > 100_000)
  const page = html(plan)
  assert.ok(page.length < 3e6, `${page.length} characters`)
})

test('text is made safe for the page', () => {
  assert.is(escapeHtml(`<a b="c">&'`), '&lt;a b=&quot;c&quot;&gt;&amp;&#39;')
  assert.is(embedJson({ a: '</script>\u2028' }), '{"a":"\\u003c/script>\\u2028"}')
})

// ---------------------------------------------------------------- the trace

interface Event {
  ph: string
  name: string
  pid: number
  tid: number
  ts: number
  dur: number
  args: Record<string, unknown>
}

test('the trace holds every span, and slices of a thread do not overlap', () => {
  const plan = chainPlan(everything)
  const timeline = play(plan)
  const events = JSON.parse(traceJson(plan, timeline, timeline)).traceEvents as readonly Event[]
  const slices = events.filter((e) => e.ph === 'X')
  for (const pid of [1, 2]) {
    const of = (tid: number): readonly Event[] => slices.filter((e) => e.pid === pid && e.tid === tid)
    assert.is(of(2).length, plan.calls.length)
    assert.is(of(1).length, plan.segments.length)
    assert.is(of(4).length + of(5).length, timeline.spans.length - plan.calls.length)
    for (const tid of [1, 2, 3, 4, 5])
      of(tid).forEach((e, i, all) => assert.ok(i === 0 || all[i - 1]!.ts + all[i - 1]!.dur <= e.ts + 1e-3, `${e.name} overlaps`))
  }
  const counters = events.filter((e) => e.ph === 'C' && e.pid === 1)
  const totals = counters.map((e) => Object.values(e.args).reduce((n: number, v) => n + Number(v), 0))
  assert.is(Math.max(...totals), plan.peakPages * 2)
  assert.is(
    JSON.parse(traceJson(plan, timeline)).traceEvents.some((e: Event) => e.pid === 2),
    false,
  )
})

test.run()
