// own process
// Screens of the commands at four widths: in a terminal, in a terminal with NO_COLOR, in CI and in a pipe. In: fixed results, or commands whose
// output is the same everywhere. Out: test/golden/screens/NAME.txt, with equal screens written once. UPDATE_GOLDEN=1 rewrites the files.
// Invariant: no line on a terminal is too long, unless it is one word; pipes and CI get no control sequence, NO_COLOR gets no colour.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { main } from '../../src/cli'
import { headText, rowText } from '../../src/cli/compare'
import { evaluatedText } from '../../src/cli/evaluate'
import { fitsText } from '../../src/cli/fits'
import { live } from '../../src/cli/live'
import { note, type Output, outputFor, terminalWidth } from '../../src/cli/output'
import { predictedText } from '../../src/cli/predict'
import { progressFor } from '../../src/cli/progress'
import { trainedText } from '../../src/cli/traintext'
import type { Predicted } from '../../src/predict/predictor'
import type { Evaluated } from '../../src/predict/evaluator'
import { summary } from '../../src/report/summary'
import { UP_TO } from '../../src/stage/largest'
import type { Fits } from '../../src/stage/fits'
import type { Comparison } from '../../src/stage/sweep'
import type { FitEvent } from '../../src/train/events'
import type { TrainResult } from '../../src/train/result'
import type { RunRecord } from '../../src/train/runrecord'
import { chainPlan, play, stagingOf } from '../report/plans'

const WIDTHS = [60, 80, 100, 160] as const
const MODES = {
  terminal: { isTTY: true, env: {} },
  'no-color': { isTTY: true, env: { NO_COLOR: '1' } },
  ci: { isTTY: true, env: { CI: 'true' } },
  pipe: { isTTY: false, env: {} },
} as const
type Mode = keyof typeof MODES

// ---------------------------------------------------------------- a screen

const STREAMS = [process.stdout, process.stderr] as const
const KEPT = ['CI', 'NO_COLOR', 'TERM'] as const

/** All that a work writes to both streams. */
const writtenBy = async (mode: Mode, columns: number, work: () => unknown): Promise<string> => {
  const env = Object.fromEntries(KEPT.map((name) => [name, process.env[name]]))
  const before = STREAMS.map(({ isTTY, columns, write }) => ({ isTTY, columns, write }))
  let text = ''
  for (const name of KEPT) delete process.env[name]
  Object.assign(process.env, { TERM: 'xterm' }, MODES[mode].env)
  const { isTTY } = MODES[mode]
  for (const stream of STREAMS)
    Object.assign(stream, {
      isTTY,
      columns: isTTY ? columns : undefined,
      write: (chunk: string) => {
        text += chunk
        return true
      },
    })
  try {
    await work()
  } finally {
    STREAMS.forEach((stream, i) => Object.assign(stream, before[i]))
    for (const name of KEPT) if (env[name] === undefined) delete process.env[name]
    Object.assign(process.env, Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined)))
  }
  return text
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control sequences are the subject
const CONTROL = /\x1b\[(\??)([\d;]*)([A-Za-z])/g

/** The lines that remain on a terminal. Knows the sequences that the commands use, and no others. */
const screenOf = (text: string): string => {
  const lines: string[] = ['']
  let at = 0
  const put = (plain: string): void => {
    for (const c of plain) {
      if (c === '\n') at = lines.push('') * 0
      else if (c === '\r') at = 0
      else {
        const line = lines.at(-1)!
        lines[lines.length - 1] = line.slice(0, at).padEnd(at) + c + line.slice(at + 1)
        at++
      }
    }
  }
  let end = 0
  for (const match of text.matchAll(CONTROL)) {
    const [whole, , number, letter] = match
    put(text.slice(end, match.index))
    end = match.index + whole.length
    if (letter === 'K') lines[lines.length - 1] = number === '2' ? '' : lines.at(-1)!.slice(0, at)
    else if (letter === 'G') at = Number(number || 1) - 1
    else assert.ok('hl'.includes(letter!), `unknown control sequence ${JSON.stringify(whole)}`)
  }
  put(text.slice(end))
  return lines.map((line) => line.trimEnd()).join('\n')
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: control sequences are the subject
const ESCAPES = /[\x00-\x08\x0b-\x1f]/
// biome-ignore lint/suspicious/noControlCharactersInRegex: control sequences are the subject
const COLOUR = /\x1b\[[\d;]*m/

/** The screens of a command, compared with its file. */
const compareScreens = async (name: string, work: () => unknown): Promise<void> => {
  const seen = new Map<string, string[]>()
  for (const mode of Object.keys(MODES) as Mode[])
    for (const columns of WIDTHS) {
      const text = await writtenBy(mode, columns, work)
      const where = `${name}, ${mode}, ${columns} columns`
      if (mode === 'pipe' || mode === 'ci') assert.not.match(text, ESCAPES, where)
      if (mode === 'no-color') assert.not.match(text, COLOUR, where)
      const screen = screenOf(text)
      if (MODES[mode].isTTY)
        for (const line of screen.split('\n'))
          assert.ok(line.length <= columns || !line.trim().includes(' '), `${where}: too long: ${line}`)
      seen.set(screen, [...(seen.get(screen) ?? []), `${mode} ${columns}`])
    }
  const all = [...seen].map(([screen, where]) => `===== ${where.join(', ')}\n${screen}`).join('\n')
  const file = join(__dirname, 'screens', `${name}.txt`)
  if (process.env['UPDATE_GOLDEN'] === '1') writeFileSync(file, all)
  assert.ok(existsSync(file), `${file} is missing: UPDATE_GOLDEN=1 writes it`)
  assert.fixture(all, readFileSync(file, 'utf8'), `${name}: if the change is right, run this test with UPDATE_GOLDEN=1`)
}

// ---------------------------------------------------------------- train, evaluate, predict, plan

const plan = chainPlan({ layers: 3, size: 64, tiles: 2, recompute: true, swap: true })
const timeline = play(plan)
const staging = { ...stagingOf(plan), planningSeconds: 0.25 }
const EVENTS: readonly FitEvent[] = [
  { kind: 'start', stepsDone: 0, steps: 4, stepsPerEpoch: 2 },
  { kind: 'step', step: 1, loss: 1.25, lr: 0.1, seconds: 0.1 },
  { kind: 'step', step: 2, loss: 1.125, lr: 0.1, seconds: 0.1 },
  { kind: 'epoch', epoch: 1, step: 2, loss: 1.1875 },
  {
    kind: 'evaluation',
    epoch: 1,
    step: 2,
    metrics: { loss: 1, accuracy: 0.5, precision: 0.25, recall: 0.75, f1: 0.375, top3: 0.875 },
    isBest: true,
    arenaPeakBytes: 1,
  },
  { kind: 'step', step: 3, loss: 0.75, lr: 0.05, seconds: 0.1 },
  { kind: 'step', step: 4, loss: 0.5, lr: 0.05, seconds: 0.1 },
  { kind: 'epoch', epoch: 2, step: 4, loss: 0.625 },
]
const SHA = '0123456789abcdef'.repeat(4)
const MEMORY = { arenaPeakBytes: 357e6, budgetBytes: 403e6, processPeakBytes: 1e15 }
const STEPS = { secondsPerStep: 0.1, predictedSecondsPerStep: 0.0987, bytesOut: 32e6, bytesIn: 32e6, diskBytes: 1e9 }

const TRAINED = {
  ...{ ...MEMORY, ...STEPS, model: 'chain', strategy: 'auto', steps: 12, resumedFrom: 4, weightsSha256: SHA },
  losses: Array.from({ length: 12 }, (_, i) => 1.25 / (i + 1)),
  ...{ recomputeSeconds: 0.25, feedSeconds: 0.9, feedBytes: 12e6, endedEarly: true },
  best: { epoch: 2, step: 8, metrics: { loss: 0.5, accuracy: 0.75, f1: 0.625 } },
  ...{ savedTo: 'runs/chain/last.safetensors', runFolder: 'runs/chain' },
  ...{ ranks: 2, commBytes: 4e6, commSeconds: 0.5, commHiddenShare: 0.75 },
} as unknown as TrainResult

/** Runs a part of a command with the output of one. */
const printing = (part: (out: Output, width: number | undefined) => void) => (): void => {
  const out = outputFor(false)
  part(out, terminalWidth(out))
}

test('plan', () =>
  compareScreens(
    'plan',
    printing((out, width) => out.answer({}, summary(plan, timeline, staging, width))),
  ))

test('train', () =>
  compareScreens(
    'train',
    printing((out, width) => {
      live.show('planning chain')
      out.say(summary(plan, timeline, staging, width))
      const progress = progressFor(out, plan)
      EVENTS.forEach(progress.event)
      progress.above(() => note('the learning rate may be too high: the loss of step 3 is larger than before (--lr, now 0.1)'))
      progress.stop()
      out.answer({}, trainedText(TRAINED, true, width))
    }),
  ))

const CLASSES = ['cat', 'dog', 'horse', 'sheep', 'cow', 'hippopotamus-amphibius']
const EVALUATED = {
  ...{ ...MEMORY, ...STEPS, model: 'chain', images: 60, loss: 0.5, classes: CLASSES },
  metrics: { accuracy: 0.75, precision: 0.5, recall: 0.625, f1: Number.NaN },
  perClass: Object.fromEntries(
    ['precision', 'recall', 'f1', 'iou', 'auroc'].map((metric, m) => [metric, CLASSES.map((_, c) => (c + m) / 12)]),
  ),
  confusion: CLASSES.map((_, row) => CLASSES.map((_, column) => (row === column ? 10 : (row + 2 * column) % 3))),
} as unknown as Evaluated

test('evaluate', () =>
  compareScreens(
    'evaluate',
    printing((out, width) => out.answer({}, evaluatedText(EVALUATED, width))),
  ))

const PREDICTED = {
  ...{ ...MEMORY, ...STEPS, model: 'chain', images: 3, shape: [6, 1, 1] },
  ranked: CLASSES.slice(3).map((name, i) => ({
    file: `photos/of-the-year-2026/holiday-${i}/the-animals-of-the-${'long '.repeat(3 * i).replaceAll(' ', '-')}road.jpg`,
    class: name,
    confidence: 0.9 - i / 4,
  })),
  labels: CLASSES,
} as unknown as Predicted

test('predict', () =>
  compareScreens(
    'predict',
    printing((out, width) => out.answer({}, predictedText(PREDICTED, undefined, width))),
  ))

// ---------------------------------------------------------------- fits, compare

/** The object of a command with --json. */
const answered = async <A>(...args: readonly string[]): Promise<A> => {
  const text = await writtenBy('pipe', 80, () => main([...args, '--json']))
  const answer = JSON.parse(text.slice(text.indexOf('{')).split('\n')[0]!)
  assert.is(answer.error, undefined, text)
  return answer
}

const MACHINE = ['--machine', 'v100-pcie-16g'] as const

test('fits', async () => {
  const size = ['--image', '64', '--batch', '8'] as const
  const fits = await answered<Fits>('fits', 'resnet18', ...size, '--in', '160MiB', '--effort', '0.1s', ...MACHINE)
  await compareScreens(
    'fits',
    printing((out, width) => out.answer({}, fitsText('resnet18', MACHINE[1], fits, UP_TO, width))),
  )
})

test('compare', async () => {
  const asked = ['--strategies', 'in-core,checkpoint:optimal,swap:greedy', '--budgets', '2'] as const
  const { cases } = await answered<Comparison>('compare', 'resnet18', '--image', '64', '--batch', '16', ...asked, ...MACHINE)
  await compareScreens(
    'compare',
    printing((out, width = Number.POSITIVE_INFINITY) => {
      out.say(headText(width))
      for (const c of cases) out.say(rowText(c.feasible ? { ...c, planningSeconds: 0.25 } : c, width))
    }),
  )
})

// ---------------------------------------------------------------- runs

const folder = mkdtempSync(join(tmpdir(), 'spillway-screens-'))
const cwd = process.cwd()
process.chdir(folder)
const runFolder = process.env['SPILLWAY_RUN_FOLDER']
process.env['SPILLWAY_RUN_FOLDER'] = 'runs'
test.after(() => {
  process.chdir(cwd)
  if (runFolder === undefined) delete process.env['SPILLWAY_RUN_FOLDER']
  else process.env['SPILLWAY_RUN_FOLDER'] = runFolder
  rmSync(folder, { recursive: true })
})

const recordOf = (name: string, i: number): RunRecord => ({
  ...{ format: 'spillway-run', version: 1, model: name, state: i === 2 ? 'failed' : 'done', steps: 300, product: '0.1.0' },
  ...{ began: `2026-11-2${i}T15:40:00.000Z`, ended: `2026-11-2${i}T16:40:00.000Z` },
  ...(i === 2 ? { ending: 'step 120: the loss is NaN, so this step was not saved; a smaller learning rate may help' } : {}),
  holder: { host: 'host', boot: 'boot', space: 'space', pid: 1, began: '1', since: '2026-11-21T15:40:00.000Z' },
  command: ['train', name, '--data', 'photos/of-the-year-2026', '--epochs', '5', '--budget', '200MiB', '--lr', '0.01'],
  options: { lr: '0.01', seed: 0, batch: 16, optimizer: 'sgd, momentum 0.9' },
  machine: { device: 'cpu', threads: 2 },
  data: { place: 'photos/of-the-year-2026', files: 1200, newest: '2026-11-20T10:00:00.000Z', sha256: SHA },
  places: { save: 'last.safetensors', log: '.' },
  result: {
    ...{ steps: i === 2 ? 119 : 300, loss: i === 2 ? null : 0.125 / i, metric: 'accuracy' },
    best: { epoch: 4, step: 240, metrics: { loss: 0.25, accuracy: 0.875 } } as NonNullable<RunRecord['result']>['best'],
    ...{ secondsPerStep: 0.25, arenaPeakBytes: 200e6, weightsSha256: SHA },
  },
})

for (const [i, name] of ['resnet18', 'segmentation-of-tissue-sections-at-full-size', 'unet'].entries()) {
  mkdirSync(join('runs', name), { recursive: true })
  writeFileSync(join('runs', name, 'recipe.json'), JSON.stringify(recordOf(name, i + 1)))
}

test('runs', () => compareScreens('runs', () => main(['runs'])))
test('one run', () => compareScreens('run', () => main(['runs', 'segmentation-of-tissue-sections-at-full-size'])))
test('compare-runs', () =>
  compareScreens('compare-runs', () =>
    main(['compare-runs', 'resnet18', 'unet', 'segmentation-of-tissue-sections-at-full-size']),
  ))

// ---------------------------------------------------------------- help, errors

test('help', () => compareScreens('help', () => main(['--help'])))
test('the help of a command', () => compareScreens('help-export', () => main(['export', '--help'])))
test('an error', () =>
  compareScreens('errors', async () => {
    await main(['train', 'resnet81'])
    await main(['plan', 'resnet18', '--budgett', '1GiB'])
    await main(['evaluate', 'resnet18'])
    await main(['runs', 'unett'])
    await main(['train', 'resnet18', '--data', 'no-such-folder', '--epochs', '1'])
  }))

test.run()
