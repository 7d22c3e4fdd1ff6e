// timeout 300
// The page of a run: what it shows is what the run told, whatever the data are; it changes nothing of the run, says how that ended, and is
// whole at any moment.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import {
  conv2d,
  crossEntropy,
  crossEntropyWith,
  fit,
  folder,
  globalAvgPool,
  type Loss,
  linear,
  maxPool,
  model,
  mse,
  relu,
  seq,
  sgd,
  source,
  stage,
  train,
  validation,
} from '../../src'
import { DEVICE } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-runreport-'))
test.after(() => rmSync(root, { recursive: true, force: true }))
process.env['XDG_CACHE_HOME'] = join(root, 'cache')
let made = 0
const fresh = (): string => {
  const at = join(root, String(made++))
  mkdirSync(at)
  return at
}

const CLASSES = ['blue', 'green', 'red'] as const
const EACH = 5
const images = join(root, 'images')
test.before(async () => {
  const { default: sharp } = await import('sharp')
  for (const [c, name] of CLASSES.entries()) {
    mkdirSync(join(images, name), { recursive: true })
    for (let i = 0; i < EACH; i++) {
      const of = (k: number): number => (k === 2 - c ? 200 : 30) + 7 * i
      await sharp({ create: { width: 20, height: 16, channels: 3, background: { r: of(0), g: of(1), b: of(2) } } })
        .png()
        .toFile(join(images, name, `${i}.png`))
    }
  }
})

const own = { machine: DEVICE, algorithms: 'fixed' } as const
const classifier = model([2, 3, 16, 20], seq(conv2d('a', 4, 3), relu(), globalAvgPool('pool'), linear('fc', 3)))
const classifying = stage(classifier, { ...own, loss: crossEntropy, optimizer: sgd({ lr: 0.1 }) })

// ---------------------------------------------------------------- pages, read

const textOf = (html: string): string => html.replace(/<[^>]*>/g, '').trim()
/** Rows of the table of that caption. */
const rowsOf = (page: string, caption: string): readonly (readonly string[])[] => {
  const at = page.indexOf(`<caption>${caption}`)
  assert.ok(at >= 0, `a table '${caption}'`)
  const table = page.slice(at, page.indexOf('</table>', at))
  return [...table.matchAll(/<tr>(.*?)<\/tr>/g)].map((tr) =>
    [...tr[1]!.matchAll(/<t[hd][^>]*>(.*?)<\/t[hd]>/g)].map((cell) => textOf(cell[1]!)),
  )
}
const stateOf = (page: string): string => textOf(/role="status"[^>]*>(.*?)<\/p>/.exec(page)![1]!)

/** It needs nothing, and nobody needs to see it. */
const wellMade = (page: string): void => {
  assert.not.match(page.replaceAll('src="data:image/png;base64,', ''), /(?:src|href)=|url\((?!#)|https?:/)
  // The last loss of a run may be no number.
  assert.not.match(page.replace(/role="status"[^>]*>.*?<\/p>/, ''), /NaN|undefined|Infinity/)
  assert.match(page, '<html lang="en">')
  assert.is([...page.matchAll(/<h1/g)].length, 1)
  for (const [img] of page.matchAll(/<img[^>]*>/g)) assert.match(img, / alt="[^"]+"/)
  for (const [svg] of page.matchAll(/<svg[^>]*>/g)) assert.match(svg, /role="img" aria-label="[^"]+"/)
  for (const [, id] of page.matchAll(/aria-labelledby="([^"]+)"/g)) assert.match(page, `id="${id}"`)
  const ids = [...page.matchAll(/ id="([^"]+)"/g)].map((m) => m[1])
  assert.is(new Set(ids).size, ids.length, 'ids are of one thing each')
  for (const tag of ['div', 'section', 'table', 'tr', 'td', 'th', 'span', 'p', 'figure', 'details', 'ol', 'li'])
    assert.is(page.match(new RegExp(`<${tag}[ >]`, 'g'))?.length, page.match(new RegExp(`</${tag}>`, 'g'))?.length, tag)
}

const number = (x: number): string => `${Number(x.toPrecision(6))}`

// ---------------------------------------------------------------- a run of images

test('tables of the page have the values of the run; the page does not change the run', async () => {
  const at = fresh()
  const report = join(at, 'run.html')
  const o = { epochs: 3, data: folder(images), shuffle: true, seed: 3 } as const
  const evaluate = validation({ data: images, metrics: ['accuracy'] })
  const alone = await train(classifier, classifying, { ...o, evaluate })
  const result = await train(classifier, classifying, { ...o, evaluate, report })
  assert.equal([result.weightsSha256, result.measured], [alone.weightsSha256, alone.measured])
  assert.equal(readdirSync(at), ['run.html'])
  const page = readFileSync(report, 'utf8')
  wellMade(page)
  assert.match(stateOf(page), /^Done\. Step 23 of 23, epoch 3 of 3\.$/)
  assert.not.match(page, 'id="live"')

  assert.equal(rowsOf(page, 'Loss per step'), [['step', 'value'], ...result.losses.map((l, i) => [`${i + 1}`, number(l)])])
  const [, ...evaluations] = rowsOf(page, 'Evaluations')
  assert.equal(
    evaluations.map((row) => row.slice(0, 4)),
    result.measured.map((m) => [`${m.epoch}`, `${m.step}`, number(m.metrics['loss']!), m.metrics['accuracy']!.toFixed(4)]),
  )
  assert.equal(
    evaluations.map((row) => row[4]),
    result.measured.map((m) => (m.step === result.best!.step ? 'best' : '')),
  )
  const [, ...classes] = rowsOf(page, 'Metrics per class')
  assert.equal(
    classes.map((row) => row.slice(0, 2)),
    CLASSES.map((name) => [name, `${EACH}`]),
  )
  const [heads, ...confusion] = rowsOf(page, 'Confusion')
  assert.equal(heads!.slice(1), [...CLASSES])
  for (const [c, row] of confusion.entries()) {
    assert.is(row[0], CLASSES[c])
    assert.is(
      row.slice(1).reduce((n, x) => n + Number(x), 0),
      EACH,
    )
    assert.is((Number(row[c + 1]) / EACH).toFixed(4), classes[c]![2])
  }
  const memory = rowsOf(page, 'Memory, planned and measured')
  assert.equal(
    memory.slice(1, 3).map((row) => row[2] === row[3]),
    [true, true],
  )
  const time = new Map(rowsOf(page, 'Time per phase of a step').map(([phase, ...rest]) => [phase, rest]))
  for (const phase of ['forward', 'backward', 'weight update', 'training step', 'evaluation batch'])
    assert.match(time.get(phase)![0]!, /^[\d.]+ (?:ns|µs|ms|s)$/, phase)

  // The samples that went worst have their files' names, pictures of their own, and classes by name.
  const poor = [...page.matchAll(/<li><figure>(.*?)<\/figure><\/li>/g)].map((m) => m[1]!)
  assert.is(poor.length, 8)
  const lossesOf = poor.map((p) => Number(/loss ([\d.e-]+)/.exec(p)![1]))
  assert.equal(
    [...lossesOf].sort((a, b) => b - a),
    lossesOf,
  )
  for (const p of poor) {
    const [, png] = /<img src="data:image\/png;base64,([^"]+)" width="140" height="112" alt="image">/.exec(p)!
    const { default: sharp } = await import('sharp')
    const [, file, label] = /<b>(.*?\.png)<\/b>.*<span>label (\w+)<\/span><span>answer \w+, \d+ %<\/span>/.exec(p)!
    assert.match(file!, join(images, label!))
    const [shown, is] = await Promise.all(
      [Buffer.from(png!, 'base64'), file!].map((of) => sharp(of).removeAlpha().raw().toBuffer()),
    )
    assert.ok(shown!.equals(is!), file)
  }
  // Its contents beside metrics are for it alone.
  assert.equal(Object.keys(result.measured[0]!.metrics), ['loss', 'accuracy'])
})

test('during a run the page says so and is whole; a folder of logs has a page, too', async () => {
  const log = join(fresh(), 'log')
  let page = ''
  for await (const e of fit(classifier, classifying, { epochs: 2, data: folder(images), log }))
    if (e.kind === 'start') page = readFileSync(join(log, 'report.html'), 'utf8')
  wellMade(page)
  assert.match(stateOf(page), /^Running: step 0 of 15/)
  assert.match(page, 'id="live"')
  assert.match(stateOf(readFileSync(join(log, 'report.html'), 'utf8')), /^Done\./)
})

// ---------------------------------------------------------------- pixels, numbers, streams

const H = 24
const labels = (i: number): Int32Array => Int32Array.from({ length: H * H }, (_, p) => (p % 11 === 0 ? 255 : (p * (i + 1)) % 4))
const pixels = (i: number): Float32Array => Float32Array.from({ length: 3 * H * H }, (_, k) => Math.sin(i + k / 5))
const nets = {
  segmenter: model([2, 3, H, H], seq(conv2d('a', 4, 3), relu(), conv2d('b', 4, 1))),
  copier: model([2, 3, H, H], seq(conv2d('a', 4, 3), relu(), conv2d('b', 3, 1))),
  numbers: model([2, 3, H, H], seq(conv2d('a', 4, 3), maxPool('p', 2), globalAvgPool('q'), linear('c', 2))),
} as const
const SUBJECTS: Readonly<Record<keyof typeof nets, readonly [Loss, (i: number) => Float32Array | Int32Array]>> = {
  segmenter: [crossEntropyWith({ ignoreIndex: 255 }), labels],
  copier: [mse, pixels],
  numbers: ['l1', (i) => Float32Array.of(i, -i)],
}
for (const [name, [loss, target]] of Object.entries(SUBJECTS) as [keyof typeof nets, (typeof SUBJECTS)['copier']][])
  test(`the page of a ${name} shows samples, targets and predictions`, async () => {
    const net = nets[name]
    const plan = stage(net, { ...own, loss })
    const read = (i: number) => ({ input: pixels(i), target: target(i) })
    const data = source({ length: 3, read })
    const pageFor = async (evaluated: Parameters<typeof validation>[0]['data']): Promise<string> => {
      const report = join(fresh(), 'run.html')
      await train(net, plan, { epochs: 2, data, evaluate: validation({ data: evaluated }), report })
      const page = readFileSync(report, 'utf8')
      wellMade(page)
      return page
    }
    const altsOf = (page: string): readonly string[] => [...page.matchAll(/<img[^>]* alt="([^"]*)"/g)].map((m) => m[1]!)
    const each = name === 'numbers' ? [] : ['label', 'prediction']
    const page = await pageFor(data)
    assert.equal(
      altsOf(page),
      [0, 1, 2].flatMap(() => ['image', ...each]),
    )
    if (name === 'numbers') assert.match(page, /<span>label 2 -2<\/span><span>answer [-\d.e]+ [-\d.e]+<\/span>/)
    // A source with a single pass has no images any more.
    const once = source(function* () {
      for (let i = 0; i < 3; i++) yield read(i)
    })
    assert.equal(
      altsOf(await pageFor(once)),
      [0, 1, 2].flatMap(() => each),
    )
  })

// ---------------------------------------------------------------- how runs end

const short = { data: folder(images), steps: 6 } as const
const endOf = async (o: object): Promise<string> => {
  const report = join(fresh(), 'run.html')
  await train(classifier, classifying, { ...short, ...o, report }).catch(() => {})
  const page = readFileSync(report, 'utf8')
  wellMade(page)
  return stateOf(page)
}

test('the page states the end of a run', async () => {
  const controller = new AbortController()
  const until = (step: number, act: () => void) => (p: { readonly kind: string; readonly step: number }) => {
    if (p.kind === 'step' && p.step === step) act()
  }
  assert.match(
    await endOf({ signal: controller.signal, onProgress: until(2, () => controller.abort()) }),
    /^Interrupted: cancelled after \d complete steps?; nothing is saved: .*\. Step \d of 6/,
  )
  const thrown = until(2, () => {
    throw new RangeError('enough of <it>')
  })
  assert.match(await endOf({ onProgress: thrown }), /^Ended by an exception: enough of &lt;it&gt;\./)
  assert.match(await endOf({ schedule: () => 1e30 }), /^Ended by an error: step \d: its loss is not finite/)
  assert.match(
    await endOf({ epochs: 9, steps: undefined, patience: 1, schedule: () => 0 }),
    /^Done\. It ended early: no improvement/,
  )
})

test('the page of a resumed run shows its earlier steps, too', async () => {
  const [checkpointDir, report] = [fresh(), join(fresh(), 'run.html')]
  const stop = new AbortController()
  const o = { ...short, checkpointDir, report } as const
  await train(classifier, classifying, {
    ...o,
    stop: stop.signal,
    onProgress: (p) => p.kind === 'step' && p.step === 2 && stop.abort('lunch'),
  }).catch(() => {})
  const stopped = readFileSync(report, 'utf8')
  assert.match(stateOf(stopped), /^Stopped: stopped by lunch after/)
  const done = rowsOf(stopped, 'Loss per step').length - 1
  const { losses } = await train(classifier, classifying, { ...o, resume: true })
  const page = readFileSync(report, 'utf8')
  wellMade(page)
  assert.match(page, `An earlier process ran the first ${done} steps.`)
  assert.equal(
    rowsOf(page, 'Loss per step').slice(1),
    losses.map((l, i) => [`${i + 1}`, number(l)]),
  )
})

test('a page that cannot be written any more costs a note, not the run', async () => {
  const at = fresh()
  const notes: string[] = []
  const result = await train(classifier, classifying, {
    ...short,
    report: join(at, 'run.html'),
    onNote: (text) => notes.push(text),
    onProgress: (p) => p.kind === 'step' && p.step === 2 && rmSync(at, { recursive: true }),
  })
  assert.is(result.steps, 6)
  assert.match(notes.join('\n'), /^the report is not updated: output file .*run\.html is refused/m)
})

interface TraceEvent {
  readonly ph: string
  readonly pid: number
  readonly name: string
  readonly args?: { readonly name?: string; readonly call?: number }
}
const eventsOf = (file: string): readonly TraceEvent[] => JSON.parse(readFileSync(file, 'utf8')).traceEvents

test('a trace has each call of the last step twice: predicted and measured; the weights are those of a run without it', async () => {
  const trace = join(fresh(), 'step.json')
  const data = folder(images)
  const plain = await train(classifier, classifying, { steps: 3, data })
  const traced = await train(classifier, classifying, { steps: 3, data, trace })
  assert.is(traced.weightsSha256, plain.weightsSha256)
  const events = eventsOf(trace)
  assert.equal(
    events.filter((e) => e.name === 'process_name').map((e) => e.args!.name!.split(' ')[0]),
    ['predicted', 'measured'],
  )
  const callsOf = (pid: number): readonly string[] =>
    events.filter((e) => e.ph === 'X' && e.pid === pid && e.args?.call !== undefined).map((e) => e.name)
  assert.is(callsOf(1).length, classifying.plan.calls.length)
  assert.equal(callsOf(2), callsOf(1))
})

test('a run that is stopped leaves the trace of its last step; a trace replaces only a trace', async () => {
  const trace = join(fresh(), 'step.json')
  const stop = new AbortController()
  const ended = await train(classifier, classifying, {
    ...{ steps: 50, data: folder(images), trace, save: join(fresh(), 'weights.safetensors'), stop: stop.signal },
    onProgress: (p) => p.kind === 'step' && stop.abort(),
  }).catch((e: Error) => e)
  assert.ok(ended instanceof Error)
  assert.ok(eventsOf(trace).some((e) => e.pid === 2))
  const other = join(fresh(), 'other.json')
  writeFileSync(other, '{"name":"mine"}')
  const refused = await train(classifier, classifying, { steps: 1, data: folder(images), trace: other }).catch((e: Error) => e)
  assert.match(String(refused), /would replace a file that is not a trace/)
})

test.run()
