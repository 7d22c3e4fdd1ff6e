// gate
// timeout 900
// One command trains on 20 slides of 20 sizes, in bands, tiles and live norms, and is killed at random moments: in its first step, in the middle of an
// epoch, and between epochs. Invariant: each checkpoint is whole, none is older than the one before, and the resumed run ends with the losses and the
// weights of one that was left alone.
import type { ChildProcess } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import sharp from 'sharp'
import * as assert from 'uvu/assert'
import { test } from 'uvu'
import { findCheckpoint } from '../../src/train/checkpoint'
import { type End, ended, trainingOf, unchecked } from '../e2e/processes'
import { FULL } from '../full'
import { random } from './mutants'

const root = mkdtempSync(join(tmpdir(), 'spillway-slide-kills-'))
test.after(() => rmSync(root, { recursive: true }))

const SLIDES = 20
const EPOCHS = 2
const MOST = 320

/** A slide with glass, and tissue that grows with its number; no two have the same size. */
const drawn = async (file: string, i: number): Promise<void> => {
  const [height, width] = [100 + 11 * i, MOST - 10 * i]
  const pixels = Uint8Array.from({ length: 3 * height * width }, (_, at) => {
    const [c, x, y] = [at % 3, Math.floor(at / 3) % width, Math.floor(at / (3 * width))]
    return x < 40 || y < 20 ? 240 : [150 + ((x * 7 + y * i) % 60), 40 + ((x + 3 * y) % 50), 130 + 5 * i][c]!
  })
  await sharp(pixels, { raw: { height, width, channels: 3 } })
    .tiff({ tile: true, tileWidth: 64, tileHeight: 64, pyramid: true, bigtiff: true, compression: 'jpeg', quality: 90 })
    .toFile(file)
}

const start = (more: readonly string[]): ChildProcess =>
  trainingOf(unchecked(join(__dirname, 'slides-model.ts')), [
    ...['--loss', 'cross-entropy', '--data', join(root, 'slides'), '--blocks', '32', '--canvas', String(MOST)],
    ...['--strategy', 'tiled', '--seed', '3', '--epochs', String(EPOCHS), '--lr', '0.01', ...more],
  ])

const resultOf = (e: End): { readonly weightsSha256: string; readonly losses: readonly number[] } => {
  assert.is(e.code, 0, e.err)
  return JSON.parse(e.out)
}

/** The step of the newest checkpoint, by its name. */
const newest = (folder: string): number =>
  existsSync(folder) ? Math.max(0, ...readdirSync(folder).map((name) => Number(/^step-0*(\d+)/.exec(name)?.[1] ?? 0))) : 0

test('20 slides of 20 sizes: a run that is killed again and again ends with the bits of one that was left alone', async () => {
  for (let i = 0; i < SLIDES; i++) {
    const folder = join(root, 'slides', i % 2 === 0 ? 'normal' : 'tumour')
    mkdirSync(folder, { recursive: true })
    await drawn(join(folder, `${i}.tif`), i)
  }
  const alone = resultOf(await ended(start(['--no-save']), undefined, 600))
  assert.is(alone.losses.length, SLIDES * EPOCHS)
  assert.ok(new Set(alone.losses).size > SLIDES, 'losses differ')

  const checkpoints = join(root, 'checkpoints')
  const at = ['--checkpoint-dir', checkpoints, '--checkpoint-every', '1', '--resume', '--no-save']
  const pick = random(59)
  let [kills, inside, least] = [0, 0, 0]
  for (let i = 0; i < (FULL ? 20 : 3) && least < SLIDES * EPOCHS; i++) {
    const child = start(at)
    // After some checkpoints and a few milliseconds; every third at any moment, also before its first step.
    const [steps, ms] = [1 + pick(FULL ? 2 : 5), pick(60)]
    const kill = (after: number): void => void setTimeout(() => child.kill('SIGKILL'), after)
    if (i % 3 === 2) kill(300 + 40 * pick(60))
    const before = least
    const watch = setInterval(() => {
      if (newest(checkpoints) < before + steps) return
      clearInterval(watch)
      kill(ms)
    }, 10)
    const end = await ended(child, undefined, 600)
    clearInterval(watch)
    assert.ok(end.signal === 'SIGKILL' || end.code === 0, end.err)
    if (end.signal === 'SIGKILL') kills++
    if (!existsSync(checkpoints)) continue
    const { checkpoint, refused } = findCheckpoint(checkpoints)
    assert.equal(refused, [])
    assert.ok((checkpoint?.step ?? 0) >= least)
    least = checkpoint?.step ?? 0
    if (least % SLIDES !== 0) inside++
  }
  assert.ok(kills >= (FULL ? 10 : 2) && inside >= 1, `${kills} kills, ${inside} in the middle of an epoch`)
  const rest = resultOf(await ended(start(at), undefined, 600))
  assert.equal([rest.losses, rest.weightsSha256], [alone.losses, alone.weightsSha256])
})

test.run()
