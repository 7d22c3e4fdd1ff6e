// own process
// The search for a learning rate: rates rise geometrically and replace the plan's rate. The search ends when the loss
// diverges, and writes nothing.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, globalAvgPool, linear, model, mse, relu, seq, sgd } from '../../dsl'
import { source } from '../../src/data/data'
import { findRate, suggestedRate, type TriedRate } from '../../src/train/findrate'
import { MODEL, spillwayHere } from './processes'
import { DEVICE, staged } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-findrate-'))
const before = process.env['SPILLWAY_RUN_FOLDER']
process.env['SPILLWAY_RUN_FOLDER'] = join(root, 'runs')
test.after(() => {
  rmSync(root, { recursive: true })
  if (before === undefined) delete process.env['SPILLWAY_RUN_FOLDER']
  else process.env['SPILLWAY_RUN_FOLDER'] = before
})

const net = model([4, 3, 8, 8], seq(conv2d('a', 8, 3), relu(), globalAvgPool('pool'), linear('head', 1)))
const planWith = (lr: number) => staged(net, { loss: mse, optimizer: sgd({ lr }), strategy: 'in-core' })
const data = source({
  length: 16,
  read: (i) => ({ input: new Float32Array(192).map((_, k) => Math.sin(k + i)), target: Float32Array.of(3 + (i % 2)) }),
})

test('the suggestion is the rate at the steepest fall after the beginning', () => {
  const tried = (...smoothed: number[]): readonly TriedRate[] =>
    smoothed.map((s, i) => ({ step: i + 1, lr: 10 ** i, loss: s, smoothed: s }))
  assert.is(suggestedRate(tried(9, 5, 5, 4.5, 2, 1.5, 3), 20), 10 ** 4)
  assert.is(suggestedRate(tried(1, 1, 2, 3), 4), undefined)
})

test('rates rise by a factor until the loss diverges, whatever the rate of the plan', async () => {
  const o = { data, shuffle: false, seed: 3, rates: 30, from: 1e-4, to: 1e4 } as const
  const found = await findRate(net, planWith(1e-3), o)
  assert.ok(found.diverged && found.tried.length < 30)
  found.tried.forEach(({ step, lr }, i) => {
    assert.is(step, i + 1)
    assert.ok(Math.abs(Math.log10(lr) - (-4 + (8 * i) / 29)) < 1e-12)
  })
  assert.ok(found.tried.at(-1)!.lr > 1e-2)
  assert.ok(found.suggested! > 1e-4 && found.suggested! < found.tried.at(-1)!.lr)
  const other = await findRate(net, planWith(0.5), o)
  assert.is(other.tried[0]!.loss, found.tried[0]!.loss)
  // The rate is the product of the plan's and a factor, which is rounded.
  other.tried.slice(0, 8).forEach(({ loss }, i) => assert.ok(Math.abs(loss - found.tried[i]!.loss) < 1e-5))
  assert.is(other.suggested, found.suggested)
})

test('a search without rates, and a plan without one, are refused', async () => {
  const said = (p: Promise<unknown>): Promise<string> =>
    p.then(
      () => 'nothing',
      (e: Error) => e.message,
    )
  assert.match(await said(findRate(net, planWith(1e-3), { from: 1, to: 1 })), /no rates from 1 to 1; allowed: to above from/)
  assert.match(await said(findRate(net, planWith(0), {})), /the learning rate of the plan is 0; allowed: more than 0/)
})

test('lr-find takes the options of train, writes its table, and no weights', async () => {
  const [out, save] = [join(root, 'rates.csv'), join(root, 'w.safetensors')]
  const asked = ['--device', DEVICE, '--algorithms', 'fixed', '--steps', '4000', '--save', save, '--rates', '12', '--out', out]
  const end = await spillwayHere('lr-find', MODEL, ...asked, '--json')
  assert.is(end.code, 0, end.err)
  const { tried } = JSON.parse(end.out) as { tried: readonly TriedRate[] }
  const lines = readFileSync(out, 'utf8').trim().split('\n')
  assert.is(lines[0], 'step,lr,loss,smoothed')
  assert.equal(
    lines.slice(1).map((line) => Number(line.split(',')[1])),
    tried.map((t) => t.lr),
  )
  assert.equal([existsSync(save), existsSync(join(root, 'runs')), readdirSync(root)], [false, false, ['rates.csv']])
  const refused = await spillwayHere('lr-find', MODEL, '--device', DEVICE, '--out', join(root, 'rates.npy'))
  assert.is(refused.code, 2, refused.err)
})

test.run()
