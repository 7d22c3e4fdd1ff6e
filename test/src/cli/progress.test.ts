// The bar of a run: epoch, step, time left, loss, metric and rate on one line; lines of epochs above it; the restored terminal.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { CLEAR, LiveLine } from '../../../src/cli/live'
import type { Output } from '../../../src/cli/output'
import { planShown } from '../../../src/cli/phases'
import { bar, barLine, countLines, Sparkline } from '../../../src/cli/progress'
import { plainLines, type Progress } from '../../../src/train/progress'
import { loadNative } from '../../../src/device/native'
import { timesOf } from '../../../src/machine/taught'
import type { FitEvent } from '../../../src/train/events'
import { chainPlan } from '../../report/plans'

const plan = chainPlan({ layers: 2, size: 64 })
const EVENTS: readonly FitEvent[] = [
  { kind: 'start', stepsDone: 0, steps: 6, stepsPerEpoch: 2.5 },
  { kind: 'step', step: 1, loss: 1.25, lr: 0.1, seconds: 0.1 },
  { kind: 'evaluation', epoch: 1, step: 3, metrics: { loss: 1, accuracy: 0.5, f1: 0.25 }, isBest: true, arenaPeakBytes: 1 },
  { kind: 'step', step: 4, loss: 0.75, lr: 0.05, seconds: 0.1 },
]

/** A terminal, and its output. */
const terminal = (columns: number): { readonly out: Output; readonly written: () => string } => {
  let written = ''
  const stream = Object.assign(
    new Writable({
      write: (chunk: Buffer, _, done) => {
        written += chunk.toString()
        done()
      },
    }),
    { isTTY: true, columns },
  ) as unknown as NodeJS.WriteStream
  return {
    out: { json: false, stream, say: (text) => void stream.write(`${text}\n`), answer: () => {} },
    written: () => written,
  }
}

const told = (progress: Progress): void => {
  for (const e of EVENTS) progress.event(e)
  progress.tile({ kind: 'tile', step: 5, segment: 0, tile: 0 })
}

test('a bar has all of it, and leaves nothing behind', () => {
  const { out, written } = terminal(200)
  const progress = bar(out, plan)
  told(progress)
  progress.stop()
  const text = written()
  assert.match(text, /epoch 1\/3 {2}step 1\/6 .*\d+% .*loss 1\.25000 {2}10\.0 images\/s {2}14 MiB of 16 MiB {2}rate 0\.1/)
  assert.match(text, 'epoch 1  evaluated  loss 1.00000  accuracy 0.5000  f1 0.2500  (best so far)\n')
  assert.match(text, /epoch 2\/3 {2}step 5\/6 .* left {2}loss 0\.750000 {2}█▁ +accuracy 0\.5000 .* {2}rate 0\.05/)
  assert.ok(text.lastIndexOf('\u001b[?25h') > text.lastIndexOf('\u001b[?25l'), 'the cursor is there again')
  const end = text.length
  progress.event(EVENTS[1]!)
  progress.tile({ kind: 'tile', step: 6, segment: 0, tile: 0 })
  progress.stop()
  assert.is(written().length, end, 'nothing is drawn after its end')
})

/** The line of the bar in terminals of these widths. */
const SCREENS: Readonly<Record<number, string>> = {
  40: 'step 120/300  40%  loss 0.750000',
  60: 'epoch 2/5  step 120/300  40%  12.3 s left  loss 0.750000',
  80: 'epoch 2/5  step 120/300  40%  12.3 s left  loss 0.750000  accuracy 0.5000',
  100: 'epoch 2/5  step 120/300  40%  12.3 s left  loss 0.750000  accuracy 0.5000  34.5 images/s  rate 0.05',
  120: 'epoch 2/5  step 120/300  ████░░░░░░░  40%  12.3 s left  loss 0.750000  █▆▄▂▁             accuracy 0.5000  34.5 images/s',
  140: 'epoch 2/5  step 120/300  ████░░░░░░░  40%  12.3 s left  loss 0.750000  █▆▄▂▁             accuracy 0.5000  34.5 images/s  356 MiB of 384 MiB',
  200: 'epoch 2/5  step 120/300  ████████████████░░░░░░░░░░░░░░░░░░░░░░░░  40%  12.3 s left  loss 0.750000  █▆▄▂▁             accuracy 0.5000  34.5 images/s  356 MiB of 384 MiB  rate 0.05',
}

test('the line of a bar fits each terminal; the most useful parts stay', () => {
  const sparks = new Sparkline()
  for (const loss of [5, 4, 3, 2, 1.5]) sparks.add(loss)
  const texts = {
    epoch: 'epoch 2/5',
    step: 'step 120/300',
    percent: '40%',
    left: '12.3 s left',
    loss: 'loss 0.750000',
    sparks: sparks.text(),
    metric: 'accuracy 0.5000',
    speed: '34.5 images/s',
    memory: '356 MiB of 384 MiB',
    rate: 'rate 0.05',
  }
  for (const [columns, screen] of Object.entries(SCREENS)) assert.is(barLine(texts, 0.4, Number(columns)), screen)
  for (let columns = 20; columns <= 200; columns++) assert.ok(barLine(texts, 0.4, columns).length < columns, `${columns}`)
})

test('a sparkline has at most sixteen bars, of equally many steps each; odd losses are left out', () => {
  const sparks = new Sparkline()
  assert.is(sparks.text(), '')
  for (let i = 0; i < 1000; i++) sparks.add(i === 5 ? Number.NaN : 1000 - i)
  const text = sparks.text()
  assert.ok(text.length === 16 && text.trimEnd().length >= 8, text)
  assert.is(text[0], '█')
  assert.is(text.trimEnd().at(-1), '▁')
})

test('without a terminal it is a line per epoch, or per step if an epoch is one step', () => {
  const { out, written } = terminal(80)
  const progress = plainLines(out.say, plan)
  told(progress)
  progress.event({ kind: 'epoch', epoch: 2, step: 5, loss: 0.5 })
  assert.is(
    written(),
    'epoch 1  evaluated  loss 1.00000  accuracy 0.5000  f1 0.2500  (best so far)\n' +
      'step 5/6  epoch 2/3  mean loss 0.500000  rate 0.05  10.0 images/s\n',
  )
  const whole = terminal(80)
  const steps = plainLines(whole.out.say, plan)
  steps.event({ kind: 'start', stepsDone: 0, steps: 6 })
  steps.event(EVENTS[1]!)
  assert.is(whole.written(), 'step 1/6  loss 1.25000  rate 0.1  100 ms\n')
})

test('a live line stays on the terminal until the command prints on either stream', () => {
  for (const speaks of [0, 1] as const) {
    const [one, two] = [terminal(20), terminal(20)]
    const streams = [one.out.stream, two.out.stream] as const
    const line = new LiveLine(streams, {})
    line.show('spillway plan resnet18 …')
    line.show('planning')
    assert.equal([one.written(), two.written()], ['', `spillway plan resne\rplanning${CLEAR}`])
    streams[speaks].write('text\n')
    assert.is(two.written(), `spillway plan resne\rplanning${CLEAR}\r${CLEAR}${speaks === 1 ? 'text\n' : ''}`)
    line.end()
    streams[1].write('more\n')
    assert.equal(`${one.written()}${two.written()}`.match(/text|more|\r/g)!.length, 4)
    line.show('again')
    line.end()
    assert.match(two.written(), `more\nagain\r${CLEAR}`)
  }
})

test('there is no live line in a pipe, in CI, in a dumb terminal, and with NO_COLOR', () => {
  const shownIn = (isTTY: boolean, env: NodeJS.ProcessEnv): string => {
    const { out, written } = terminal(20)
    Object.assign(out.stream, { isTTY })
    const line = new LiveLine([out.stream, out.stream], env)
    line.show('nothing')
    line.end()
    return written()
  }
  assert.is(shownIn(false, {}), '')
  for (const env of [{ CI: 'true' }, { CI: '1' }, { TERM: 'dumb' }, { NO_COLOR: '1' }]) assert.is(shownIn(true, env), '')
  for (const env of [{}, { CI: '' }, { CI: 'false' }, { NO_COLOR: '' }, { TERM: 'xterm' }])
    assert.is(shownIn(true, env), `nothing\r${CLEAR}`)
})

test('a count of images is one line in a terminal, and a line per tenth elsewhere', () => {
  const counted = (isTTY: boolean, all: number | undefined, to: number): string => {
    const { out, written } = terminal(100)
    Object.assign(out.stream, { isTTY })
    const count = countLines(out, {})
    for (let done = 1; done <= to; done++) count(done, all)
    return written()
  }
  assert.is(counted(true, 3, 3), `1 of 3\r2 of 3${CLEAR}\r${CLEAR}3 of 3\n`)
  assert.is(counted(false, 3, 3), '1 of 3\n2 of 3\n3 of 3\n')
  assert.equal(
    counted(false, 1000, 1000).trimEnd().split('\n'),
    [1, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000].map((n) => `${n} of 1000`),
  )
  assert.is(counted(false, undefined, 150), '1\n10\n100\n')
})

test('planning shows its measurements on the live line', () => {
  const cache = mkdtempSync(join(tmpdir(), 'spillway-measuring-'))
  const before = process.env['XDG_CACHE_HOME']
  process.env['XDG_CACHE_HOME'] = cache
  const shape = [1, 4, 8, 8]
  const planning = (): number =>
    timesOf(loadNative(), 1, 'first').times.seconds('relu', { slope: 0 }, { ins: [shape], outs: [shape] })
  const shown = (): string => {
    const { out, written } = terminal(100)
    const line = new LiveLine([out.stream, out.stream], {})
    assert.ok(planShown('net', planning, line) > 0)
    line.end()
    return written()
  }
  try {
    const [start, measured, end] = shown().split('\r')
    assert.is(start, 'planning net')
    assert.match(measured!, /^planning net: \d+ kernels measured, \d+\.\d s of at most [\d.]+ s/)
    assert.ok(measured!.endsWith(CLEAR))
    assert.is(end, CLEAR)
    // All is known now.
    assert.is(shown(), `planning net\r${CLEAR}`)
    // A profile that lacks the scale of other kernels: it is measured, without a limit.
    const other = [2, 4, 8, 8]
    const scaled = (): number => timesOf(loadNative(), 1, 'while').times.seconds('tanh', {}, { ins: [other], outs: [other] })
    const { out, written } = terminal(100)
    const line = new LiveLine([out.stream, out.stream], {})
    assert.ok(planShown('net', scaled, line) > 0)
    line.end()
    assert.match(written().split('\r')[1]!, /^planning net: \d+ kernels measured, \d+\.\d s(?! of)/)
  } finally {
    if (before === undefined) delete process.env['XDG_CACHE_HOME']
    else process.env['XDG_CACHE_HOME'] = before
    rmSync(cache, { recursive: true })
  }
})

test.run()
