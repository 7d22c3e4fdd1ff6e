// Several processes on one checkpoint folder and one spill folder, started at once. Invariant: in a checkpoint folder one of them trains, and
// the others are refused with 5; in a spill folder all do; each that trains ends with the weights of one alone.
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as assert from 'uvu/assert'
import { model } from '../../dsl'
import { type End, ended, trainingOf, unchecked } from '../e2e/processes'
import { smallestBudget } from '../e2e/runs'
import type { Counts, Family } from './family'
import { net } from './spilling-model'

const STEPS = ['--steps', '6', '--checkpoint-every', '1']
const shaOf = (e: End): string => {
  assert.is(e.code, 0, e.err)
  return JSON.parse(e.out).weightsSha256
}

const run = async (cases: number): Promise<Counts> => {
  const root = mkdtempSync(join(tmpdir(), 'spillway-several-'))
  const spill = join(root, 'spill')
  const small = model([1, 4, 256, 256], net)
  const budget = String(smallestBudget(small, 'swap:greedy'))
  const train = (at: string, ...more: readonly string[]): Promise<End> =>
    ended(
      trainingOf(unchecked(join(__dirname, 'spilling-model.ts')), [
        ...['--image', '256', '--strategy', 'swap:greedy', '--budget', budget, '--spill', spill, '--threads', '1'],
        ...STEPS,
        ...['--checkpoint-dir', join(root, at), ...more],
      ]),
    )
  const alone = shaOf(await train('alone'))
  let refused = 0
  for (let i = 0; i < cases; i++) {
    const count = 2 + (i % 2)
    const together = await Promise.all(Array.from({ length: count }, () => train(`one-${i}`, '--resume')))
    // A run that comes after the end continues from the files.
    for (const e of together) assert.ok(e.code === 0 || e.code === 5, e.err)
    const others = together.filter((e) => e.code === 5)
    for (const e of others) assert.match(JSON.parse(e.out).error.message, /has used it since/)
    assert.ok(others.length < count)
    for (const e of together) if (e.code === 0) assert.is(shaOf(e), alone)
    refused += others.length
    const apart = await Promise.all(Array.from({ length: count }, (_, k) => train(`own-${i}-${k}`)))
    for (const e of apart) assert.is(shaOf(e), alone)
  }
  assert.equal(readdirSync(spill), [])
  rmSync(root, { recursive: true })
  return { rounds: cases, refused }
}

export const family: Family = {
  what: 'two and three processes at once: one trains in a checkpoint folder, all in a spill folder, to the same bits',
  few: 1,
  all: 10,
  seconds: 900,
  run,
}
