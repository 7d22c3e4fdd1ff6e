// Runs in their folders: the record, the logs and the page of a run; the list of runs, one run, and a comparison. The numbers of pages are those
// of --json.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, model, relu, seq, sgd, source, stage, train, type TrainOptions, trainTask, validation } from '../../../src'
import type { Output } from '../../../src/cli/output'
import { compareRuns, comparisonText, runsText, showRuns } from '../../../src/cli/runs'
import { dataFacts } from '../../../src/data/facts'
import { errorText } from '../../../src/errors/errors'
import type { Chart } from '../../../src/report/chart'
import { type Comparison, comparisonOf } from '../../../src/train/comparison'
import type { RunRecord } from '../../../src/train/runrecord'
import { type RunSummary, runNamed, runsIn } from '../../../src/train/runs'
import { DEVICE } from '../../e2e/runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-runs-'))
test.after(() => rmSync(root, { recursive: true, force: true }))
const before = process.env['SPILLWAY_RUN_FOLDER']
const runs = join(root, 'runs')
process.env['SPILLWAY_RUN_FOLDER'] = runs
test.after(() => {
  if (before === undefined) delete process.env['SPILLWAY_RUN_FOLDER']
  else process.env['SPILLWAY_RUN_FOLDER'] = before
})

const net = model([2, 1, 8, 8], seq(conv2d('a', 2, 3), relu(), conv2d('b', 1, 3)))
const plan = stage(net, { machine: DEVICE, algorithms: 'fixed', optimizer: sgd({ lr: 0.01 }) })
const wave = (i: number): Float32Array => Float32Array.from({ length: 64 }, (_, k) => Math.sin(i + k / 3))
const data = source({ length: 6, read: (i) => ({ input: wave(i), target: wave(i + 1) }) })
const quiet = { data, shuffle: false, onNote: () => {} } as const satisfies Partial<TrainOptions>

const recordIn = (name: string): RunRecord => JSON.parse(readFileSync(join(runs, name, 'recipe.json'), 'utf8'))
const chartsIn = (page: string): readonly Chart[] =>
  [...page.matchAll(/<script type="application\/json">(.*?)<\/script>/g)].map((m) => JSON.parse(m[1]!))
const valuesOf = (charts: readonly Chart[], title: string, series = 0): readonly (number | null)[] =>
  charts.find((c) => c.title === title)!.series[series]!.points.map(([, y]) => y)

/** The answer of a command, or its error. */
const answered = (work: (out: Output) => ReturnType<typeof showRuns>): { readonly json: unknown; readonly text: string } => {
  const answers: { readonly json: unknown; readonly text: string }[] = []
  const stream = Object.assign(Object.create(process.stderr), { isTTY: false })
  const done = work({ json: true, stream, say: () => {}, answer: (json, text) => answers.push({ json, text }) })
  return isLeft(done) ? { json: undefined, text: errorText(done.left) } : answers[0]!
}

// ---------------------------------------------------------------- the folder

test('a run of a script writes its folder; the page has the numbers of the result', async () => {
  const result = await train(net, plan, { ...quiet, steps: 7, run: 'first', evaluate: validation({ data, metrics: ['mae'] }) })
  assert.is(result.runFolder, join(runs, 'first'))
  assert.is(result.savedTo, join(runs, 'first', 'last.safetensors'))
  assert.equal(
    readdirSync(join(runs, 'first'))
      .map((name) => name.replace(/^events.*/, 'events'))
      .sort(),
    ['best.safetensors', 'events', 'index.html', 'last.safetensors', 'metrics.csv', 'recipe.json', 'steps.jsonl'],
  )
  const record = recordIn('first')
  assert.equal(
    [record.state, record.steps, record.options['lr'], record.options['seed'], record.machine['device'], record.data.place],
    ['done', 7, '0.01', 0, DEVICE, 'a source in the script'],
  )
  assert.equal(record.places, {
    save: 'last.safetensors',
    saveBest: 'best.safetensors',
    log: '.',
    tensorboard: '.',
    report: 'index.html',
  })
  const charts = chartsIn(readFileSync(join(runs, 'first', 'index.html'), 'utf8'))
  assert.equal(valuesOf(charts, 'Loss'), result.losses)
  assert.equal(
    valuesOf(charts, 'Metrics'),
    result.measured.map((m) => m.metrics['mae']),
  )
})

test('an option moves one part; the next run of a name has a folder of its own', async () => {
  const [save, log] = [join(root, 'own.safetensors'), join(root, 'own.csv')]
  await train(net, plan, { ...quiet, steps: 3, run: 'first', save, log })
  assert.equal(
    readdirSync(join(runs, 'first-2'))
      .map((name) => name.replace(/^events.*/, 'events'))
      .sort(),
    ['events', 'index.html', 'recipe.json'],
  )
  const found = runNamed('first-2')
  assert.ok(isRight(found))
  assert.is(found.right.record.places['save'], save)
  // A table is a log, too.
  assert.equal(valuesOf(comparisonOf([found.right]).curves, 'Loss').length, 3)
})

test('a stopped run continues in its folder, without doubled steps', async () => {
  const stop = new AbortController()
  const o = { ...quiet, steps: 9, run: 'long', checkpointDir: join(root, 'state') } as const
  const first = await trainTask(net, plan, {
    ...o,
    stop: stop.signal,
    onProgress: (p) => p.kind === 'step' && p.step === 3 && stop.abort('lunch'),
  })()
  assert.ok(isLeft(first) && first.left.tag === 'Stopped')
  const { state, began, result } = recordIn('long')
  assert.is(state, 'stopped')
  assert.ok(result!.steps >= 3 && result!.steps < 9)
  const { losses } = await train(net, plan, { ...o, resume: true })
  const after = recordIn('long')
  assert.equal([after.state, after.began, after.result!.steps], ['done', began, 9])
  const steps = readFileSync(join(runs, 'long', 'steps.jsonl'), 'utf8')
    .trim()
    .split('\n')
  assert.equal(
    steps.map((line) => JSON.parse(line).step),
    [1, 2, 3, 4, 5, 6, 7, 8, 9],
  )
  assert.equal(valuesOf(chartsIn(readFileSync(join(runs, 'long', 'index.html'), 'utf8')), 'Loss'), losses)
  assert.not.ok(readdirSync(runs).includes('long-2'))
})

test('a run without checkpoints that is resumed and ends before its first step leaves the weights in its folder', async () => {
  const o = { ...quiet, steps: 2, run: 'kept', checkpointDir: join(root, 'emptied') } as const
  const { savedTo } = await train(net, plan, o)
  rmSync(o.checkpointDir, { recursive: true })
  const early = new AbortController()
  early.abort()
  const again = await trainTask(net, plan, { ...o, resume: true, signal: early.signal })()
  assert.ok(isLeft(again))
  assert.ok(existsSync(savedTo!))
  assert.is(recordIn('kept').state, 'stopped')
  rmSync(join(runs, 'kept'), { recursive: true })
})

test('a run that fails keeps its folder after the first step only; a name is one part of a path', async () => {
  const diverged = await trainTask(net, plan, { ...quiet, steps: 9, run: 'odd', schedule: () => 1e30 })()
  assert.ok(isLeft(diverged) && diverged.left.tag === 'Diverged')
  assert.is(recordIn('odd').state, 'failed')
  assert.match(recordIn('odd').ending!, 'its loss is not finite')
  // Its log has the loss that is not finite, and the chart marks it.
  const [loss] = chartsIn(readFileSync(join(runs, 'odd', 'index.html'), 'utf8'))
  assert.ok(loss!.series[0]!.odd!.length > 0)
  const early = new AbortController()
  early.abort()
  await trainTask(net, plan, { ...quiet, steps: 9, run: 'early', signal: early.signal })()
  assert.not.ok(readdirSync(runs).includes('early'))
  for (const name of ['../out', 'a/b', '.hidden', '-flag', 'x'.repeat(300)]) {
    const refused = await trainTask(net, plan, { ...quiet, steps: 1, run: name })()
    assert.ok(isLeft(refused) && refused.left.tag === 'Usage', name)
    assert.match(errorText(refused.left), 'cannot name a folder')
  }
})

test('facts of data change with names, sizes and times, and need no file to be opened', () => {
  const folder = join(root, 'photos')
  mkdirSync(join(folder, 'cats'), { recursive: true })
  writeFileSync(join(folder, 'cats', '1.png'), 'one')
  const one = dataFacts(folder)
  assert.equal([one.files, one.place], [1, folder])
  writeFileSync(join(folder, 'cats', '1.png'), 'longer')
  assert.is.not(dataFacts(folder).sha256, one.sha256)
  writeFileSync(join(folder, 'cats', '2.png'), 'two')
  assert.is(dataFacts(folder).files, 2)
  assert.equal(dataFacts(undefined), { place: 'synthetic' })
})

// ---------------------------------------------------------------- the list

/** A record with another standing. */
const standing = (name: string, change: Partial<RunRecord>): void => {
  mkdirSync(join(runs, name))
  const { ended: _, ending: _2, ...record } = recordIn('first')
  writeFileSync(join(runs, name, 'recipe.json'), JSON.stringify({ ...record, ...change }))
  writeFileSync(join(runs, name, 'steps.jsonl'), readFileSync(join(runs, 'first', 'steps.jsonl')))
}

test('the list has the state of each run: done, stopped, failed, running', () => {
  const { holder } = recordIn('first')
  standing('alive', { state: 'running' })
  standing('killed', { state: 'running', holder: { ...holder, began: '1' } })
  mkdirSync(join(runs, 'later'))
  writeFileSync(join(runs, 'later', 'recipe.json'), '{"format":"spillway-run","version":2}')
  const { json } = answered((out) => showRuns(undefined, out)) as { json: { runs: readonly RunSummary[] } }
  const states = Object.fromEntries(json.runs.map((r) => [r.name, r.state]))
  assert.equal(states, { first: 'done', 'first-2': 'done', long: 'done', odd: 'failed', alive: 'running', killed: 'failed' })
  const alive = json.runs.find((r) => r.name === 'alive')!
  const first = json.runs.find((r) => r.name === 'first')!
  assert.equal([alive.stepsDone, alive.loss, alive.best], [first.stepsDone, first.loss, first.best])
  assert.is(runsIn().refused.length, 1)
  for (const width of [60, 80, 120, 200])
    for (const line of runsText(json.runs, width).split('\n')) assert.ok(line.length <= width, line)
})

test('one run has its recipe; unknown names are refused with the known ones', () => {
  const { json, text } = answered((out) => showRuns('first', out))
  assert.is((json as RunSummary & RunRecord).options['lr'], '0.01')
  assert.match(text, /^first, in .*first\nresults\n {2}model /)
  assert.match(answered((out) => showRuns('frist', out)).text, /run 'frist' is not known; .*first/)
  assert.match(answered((out) => showRuns(root, out)).text, 'has no runs')
  assert.match(answered((out) => showRuns('later', out)).text, /recipe\.json is refused: .*version 1/)
})

// ---------------------------------------------------------------- the comparison

test('a comparison has the differences; its page draws the curves of --json', () => {
  const report = join(root, 'compared.html')
  const { json } = answered((out) => compareRuns(['first', 'long'], { report }, out))
  const { runs: both, differences, equal, curves } = json as Comparison
  assert.equal(
    both.map((r) => [r.name, r.stepsDone]),
    [
      ['first', 7],
      ['long', 9],
    ],
  )
  assert.equal(differences.find((d) => d.name === 'steps')?.values, ['7', '9'])
  assert.is(equal['lr'], '0.01')
  assert.equal(chartsIn(readFileSync(report, 'utf8')), JSON.parse(JSON.stringify(curves)))
  assert.is(valuesOf(curves, 'Loss', 1).length, 9)
  // Each run keeps its colour in charts that lack its values.
  assert.equal(
    curves.find((c) => c.title === 'Evaluated mae')!.series.map((s) => [s.name, s.points.length > 0]),
    [
      ['first', true],
      ['long', false],
    ],
  )
  for (const width of [60, 80, 200])
    for (const line of comparisonText(json as Comparison, width).split('\n')) assert.ok(line.length <= width, line)
  for (const [names, why] of [
    [['first'], 'at least two runs'],
    [['first', 'first'], "'first' is named twice"],
    [['first', 'nobody'], "run 'nobody' is not known"],
  ] as const)
    assert.match(answered((out) => compareRuns(names, {}, out)).text, why)
  const wrong = answered((out) => compareRuns(['first', 'long'], { report: join(root, 'own.csv') }, out))
  assert.match(wrong.text, 'writes an HTML page')
})

test.run()
