// timeout 400
// Class labels in files: one that is not one of the classes ends the run before the step that it is fed to, on every device, with words that name
// the file, the sample, the place and the value.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, crossEntropy, globalAvgPool, model, seq } from '../../dsl'
import { addonFile } from '../../src/device/native'
import { files, pick } from '../../src/data/data'
import { errorText, exitCode, SpillwayException } from '../../src/errors/errors'
import { filesOf } from '../../src/train/beforehand'
import { HANDMADE, npy, SAMPLES, SIZE } from '../faults/labelfiles'
import { labelFolder } from '../faults/labels'
import { trainingHere } from './processes'
import { DEVICE, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-labels-'))
test.after(() => rmSync(root, { recursive: true }))
process.env.XDG_CACHE_HOME = join(root, 'cache')
process.env.SPILLWAY_CUDA = join(dirname(addonFile()!), 'spillway_imitation.so')

const { said, target } = labelFolder(root)

test('there are 50 files made by hand, of which most are wrong', () => {
  assert.is(HANDMADE.length, 50)
  assert.is(HANDMADE.filter((f) => f.says !== undefined).length, 44)
})

const FULL = process.env.SPILLWAY_FULL !== undefined

for (const [machine, step] of [
  [DEVICE, 1],
  ['ref', 3],
  ['cuda', 3],
] as const)
  test(`${machine}: labels that are no classes are reported with their place`, async () => {
    const files = HANDMADE.filter((_, i) => FULL || i % step === 0)
    for (const file of files) assert.is(await said(machine, file), file.says, file.name)
  })

test('a label of a whole image is reported without row and column', async () => {
  const image = model([2, 3, SIZE, SIZE], seq(conv2d('head', 2, 1), globalAvgPool('pool')))
  writeFileSync(target, npy('|u1', [SAMPLES], Uint8Array.of(0, 1, 255, 0)))
  const plan = staged(image, { loss: crossEntropy, strategy: 'in-core' })
  const e = await trained(image, plan, { steps: 2, data: root, shuffle: false }).catch((thrown: unknown) => thrown)
  assert.ok(e instanceof SpillwayException)
  const words =
    'sample 2 (counted from 0): 255 is not one of 2 classes (0 to 1); divide masks of 0 and 255 by 255, or ignore 255 with ignoreIndex (--ignore-index)'
  assert.is(e.message, `data file ${target} is refused: ${words}`)
  // One label per sample is looked at before anything is planned.
  const early = filesOf({ data: root })(plan.plan.graph)
  assert.ok(isLeft(early) && exitCode(early.left) === 2 && errorText(early.left) === e.message)
  assert.ok(isRight(filesOf({ data: pick(files(root), [0, 1, 3]) })(plan.plan.graph)))
})

test('on the command line it is one object of JSON, 1, and no trace', async () => {
  const data = mkdtempSync(join(root, 'data-'))
  writeFileSync(join(data, 'input.npy'), npy('<f4', [2, 3, 32, 32], new Uint8Array(4 * 2 * 3 * 32 * 32)))
  writeFileSync(join(data, 'target.npy'), npy('|u1', [2, 32, 32], new Uint8Array(2 * 32 * 32).fill(7, 1500)))
  const end = await trainingHere('--steps', '2', '--loss', 'cross-entropy', '--data', data)
  assert.is(end.code, 1, end.err)
  const { tag, file, message } = JSON.parse(end.out).error
  assert.equal([tag, file], ['FileRefused', join(data, 'target.npy')])
  assert.match(message, /sample 1, row 14, column 28 \(counted from 0\): 7 is not one of 4 classes \(0 to 3\)/)
})

test.run()
