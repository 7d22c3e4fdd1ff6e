// Files of version 0.1 that stay readable (test/fixtures/versions/0.1): checkpoints and weights; plans are staged again.
import { cpSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { main } from '../../src/cli'
import { errorText } from '../../src/errors/errors'
import { openModule } from '../../src/stage/planmodule'

const files = join(__dirname, '..', 'fixtures', 'versions', '0.1')
const folder = mkdtempSync(join(tmpdir(), 'spillway-versions-'))
test.after(() => rmSync(folder, { recursive: true }))

const spillway = async (...args: string[]): Promise<{ readonly code: number; readonly out: string; readonly err: string }> => {
  const caught = { out: '', err: '' }
  const [out, err] = [process.stdout.write, process.stderr.write]
  const into = (k: 'out' | 'err') => (text: string | Uint8Array) => {
    caught[k] += text.toString()
    return true
  }
  process.stdout.write = into('out') as typeof out
  process.stderr.write = into('err') as typeof err
  try {
    return { code: await main(args), ...caught }
  } finally {
    process.stdout.write = out
    process.stderr.write = err
  }
}

const RUN = [join(files, 'model.ts'), '--loss', 'cross-entropy', '--device', 'ref', '--budget', '8MiB', '--seed', '1', '--json']
const digest = async (...args: string[]): Promise<unknown> => {
  const { code, out, err } = await spillway('train', ...RUN, ...args)
  assert.is(code, 0, out + err)
  return JSON.parse(out).weightsSha256
}

test('a plan file of 0.1 is refused with its version and the way on', async () => {
  const { code, out } = await spillway('verify', join(files, 'plan.json'), '--json')
  assert.is(code, 2)
  assert.match(JSON.parse(out).error.message, /version: it is 3, but this version of spillway reads \d+: stage the model again/)
})

test('a plan module of 0.1 is refused in the same words', () => {
  const [model, module] = ['model.ts', 'net.plan.ts'].map((file) => require(join(files, file)).default)
  const opened = openModule(model, module)
  assert.match(
    isLeft(opened) ? errorText(opened.left) : '',
    /version: it is 3, but this version of spillway reads \d+: stage the model again/,
  )
})

test('a checkpoint of 0.1 resumes to the weights of an uninterrupted run', async () => {
  const checkpoint = join(folder, 'checkpoint')
  cpSync(join(files, 'checkpoint'), checkpoint, { recursive: true })
  const resumed = await digest('--steps', '5', '--checkpoint-dir', checkpoint, '--resume')
  assert.is(resumed, await digest('--steps', '5'))
})

/** The numbers of a file of weights: its head also has, since later, the training data. */
const tensorsIn = (file: string): Buffer => {
  const bytes = readFileSync(file)
  return bytes.subarray(8 + Number(bytes.readBigUInt64LE(0)))
}

test('weights of 0.1 are read, and are those that three steps make', async () => {
  const saved = join(folder, 'again.safetensors')
  await digest('--steps', '3', '--save', saved)
  assert.ok(tensorsIn(saved).equals(tensorsIn(join(files, 'weights.safetensors'))))
  await digest('--steps', '1', '--weights', join(files, 'weights.safetensors'))
})

test.run()
