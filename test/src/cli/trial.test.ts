// own process
// `train --trial` and `train --overfit`: short runs with the options of a whole one, and without its files.
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { source } from '../../../src/data/data'
import { overfitText, oneBatch, shortened } from '../../../src/cli/trial'
import type { TrainResult } from '../../../src/train/result'
import { classifier } from '../../e2e/models'
import { MODEL, spillwayHere } from '../../e2e/processes'
import { DEVICE, staged } from '../../e2e/runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-trial-'))
const before = process.env['SPILLWAY_RUN_FOLDER']
process.env['SPILLWAY_RUN_FOLDER'] = join(root, 'runs')
test.after(() => {
  rmSync(root, { recursive: true })
  if (before === undefined) delete process.env['SPILLWAY_RUN_FOLDER']
  else process.env['SPILLWAY_RUN_FOLDER'] = before
})

const WHOLE = ['--steps', '4000', '--checkpoint-dir', join(root, 'state'), '--log', join(root, 'log'), '--save', join(root, 'w')]
const run = async (...more: string[]): Promise<TrainResult> => {
  const end = await spillwayHere('train', MODEL, '--device', DEVICE, '--algorithms', 'fixed', '--json', ...WHOLE, ...more)
  assert.is(end.code, 0, end.err)
  assert.equal([readdirSync(root), existsSync(join(root, 'runs'))], [[], false])
  return JSON.parse(end.out) as TrainResult
}

test('a trial runs one step and an overfit run its count of steps; neither writes files of a run', async () => {
  assert.is((await run('--trial')).steps, 1)
  const { losses } = await run('--overfit', '6')
  assert.is(losses.length, 6)
})

test('a trial evaluates, an overfit does not, and both together are refused', () => {
  const o = { steps: 9, epochs: 3, evaluate: 'val', metrics: ['accuracy'], augment: ['flip'], batch: 4, save: 'w' }
  assert.equal(shortened({ ...o, trial: false }), E.right({ ...o, trial: false }))
  const { steps: _1, epochs: _2, augment: _3, evaluate: _4, metrics: _5, ...rest } = o
  const trial = { ...rest, trial: true, evaluate: 'val', metrics: ['accuracy'], augment: ['flip'], save: false, steps: 1 }
  assert.equal(shortened({ ...o, trial: true }), E.right(trial))
  assert.equal(shortened({ ...o, overfit: 5 }), E.right({ ...rest, overfit: 5, save: false, steps: 5, shuffle: false }))
  assert.ok(E.isLeft(shortened({ ...o, trial: true, overfit: 5 })))
})

test('one batch has evenly chosen samples', () => {
  const { graph } = staged(classifier).plan
  const read = () => ({ input: new Float32Array(3072), target: 0 })
  const chosen = (length: number): unknown => {
    const few = oneBatch(graph, source({ length, read }))
    assert.ok(E.isRight(few) && typeof few.right === 'object')
    return few.right.parts.at(-1)
  }
  assert.equal(chosen(40), { kind: 'list', samples: [0, 10, 20, 30] })
  assert.equal(chosen(3), { kind: 'list', samples: [0, 1, 2] })
})

test('the sentence about the losses of an overfit', () => {
  assert.match(overfitText([2, 1, 0.05]), /from 2\.00000 to 0\.0500000 in 3 steps: the network learns it$/)
  assert.match(overfitText([2, 1, 0.5]), /it is not near zero\. Try more steps/)
  assert.match(overfitText([2, Number.NaN]), /it is not near zero/)
})

test.run()
