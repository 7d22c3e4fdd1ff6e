// The bar of a run: epoch, step, time left, loss, metric and rate on one line; lines of epochs above it; the restored terminal.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { Output } from '../../../src/cli/output'
import { bar, countLines, plainLines, type Progress, withMeasuring } from '../../../src/cli/progress'
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
  const { out, written } = terminal(140)
  const progress = bar(out, plan)
  told(progress)
  progress.stop()
  const text = written()
  assert.match(text, /epoch 1\/3 {2}step 1\/6 .*\d+% {2}\S+ left {2}loss 1\.25000 {2}rate 0\.1/)
  assert.match(text, 'epoch 1  evaluated  loss 1.00000  accuracy 0.5000  f1 0.2500  (best so far)\n')
  assert.match(text, /epoch 2\/3 {2}step 5\/6 .* left {2}loss 0\.750000 {2}accuracy 0\.5000 {2}rate 0\.05/)
  assert.ok(text.lastIndexOf('\u001b[?25h') > text.lastIndexOf('\u001b[?25l'), 'the cursor is there again')
  const end = text.length
  progress.event(EVENTS[1]!)
  progress.tile({ kind: 'tile', step: 6, segment: 0, tile: 0 })
  progress.stop()
  assert.is(written().length, end, 'nothing is drawn after its end')
})

test('a bar fits into eighty columns but for what is least', () => {
  const { out, written } = terminal(80)
  const progress = bar(out, plan)
  told(progress)
  const last = written().slice(written().lastIndexOf('epoch'))
  assert.ok(last.indexOf('loss') < 80 - 'loss 0.750000'.length, last)
  progress.stop()
})

test('without a terminal it is a line a step', () => {
  const { out, written } = terminal(80)
  told(plainLines(out))
  assert.match(written(), /^step 1\/6 {2}epoch 1\/3 {2}loss 1\.25000 {2}rate 0\.1 {2}100 ms\nepoch 1 {2}evaluated/)
})

test('a count of images is one line in a terminal, and a line per tenth elsewhere', () => {
  const counted = (isTTY: boolean, all: number | undefined, to: number): string => {
    const { out, written } = terminal(100)
    Object.assign(out.stream, { isTTY })
    const count = countLines(out)
    for (let done = 1; done <= to; done++) count(done, all)
    return written()
  }
  assert.is(counted(true, 3, 3), '\r1 of 3\r2 of 3\r3 of 3\n')
  assert.is(counted(false, 3, 3), '1 of 3\n2 of 3\n3 of 3\n')
  assert.equal(
    counted(false, 1000, 1000).trimEnd().split('\n'),
    [1, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000].map((n) => `${n} of 1000`),
  )
  assert.is(counted(false, undefined, 150), '1\n10\n100\n')
})

test('a plan that measures first says so on one line of a terminal, which is cleared', async () => {
  const cache = mkdtempSync(join(tmpdir(), 'spillway-measuring-'))
  const before = process.env['XDG_CACHE_HOME']
  process.env['XDG_CACHE_HOME'] = cache
  const shape = [1, 4, 8, 8]
  const planning = async (): Promise<number> =>
    timesOf(loadNative(), 1, 'first').times.seconds('relu', { slope: 0 }, { ins: [shape], outs: [shape] })
  try {
    const { out, written } = terminal(100)
    assert.ok((await withMeasuring(planning, out.stream)) > 0)
    const [start, line, ...rest] = written().split('\r')
    assert.is(start, '')
    assert.match(line!, /^measuring this machine: 1 calls, \d+\.\d s of at most [\d.]+ s/)
    assert.is(rest.at(-1), '\u001b[K')
    // All is known now.
    const again = terminal(100)
    await withMeasuring(planning, again.out.stream)
    assert.is(again.written(), '')
  } finally {
    if (before === undefined) delete process.env['XDG_CACHE_HOME']
    else process.env['XDG_CACHE_HOME'] = before
    rmSync(cache, { recursive: true })
  }
})

test.run()
