// Damage to the JSON of a checkpoint: characters changed, put in, and taken out. Invariant: none of it is taken for whole; the checkpoint
// before it is, and the words name the damaged one.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isRight } from 'fp-ts/Either'
import * as assert from 'uvu/assert'
import { findCheckpoint, saveCheckpoint } from '../../src/train/checkpoint'
import { NO_STEPS } from '../../src/train/totals'
import { modelState, NO_ORIGIN } from '../../src/train/weights'
import { circumstances, identity, lossAt } from '../src/train/checkpoint-writer'
import { MemoryStore, toyGraph } from '../src/toy'
import type { Counts, Family } from './family'
import { random } from './mutants'

const save = (directory: string, step: number): void => {
  const losses = Array.from({ length: step }, (_, i) => lossAt(i + 1))
  const run = { step, identity, circumstances, settings: {}, losses, measured: [], origin: NO_ORIGIN, totals: NO_STEPS }
  assert.ok(isRight(saveCheckpoint(directory, run, modelState(toyGraph), new MemoryStore(toyGraph, () => step))))
}

/** One character is changed, one is added, some are removed, or the rest of the text is cut off. */
const damaged = (text: string, below: (n: number) => number): string => {
  const [from, other] = [below(text.length), String.fromCharCode(32 + below(95))]
  return [
    () => text.slice(0, from) + other + text.slice(from),
    () => text.slice(0, from) + other + text.slice(from + 1),
    () => text.slice(0, from) + text.slice(from + 1 + below(40)),
    () => text.slice(0, from),
  ][below(4)]!()
}

const run = async (cases: number): Promise<Counts> => {
  const at = mkdtempSync(join(tmpdir(), 'spillway-damaged-'))
  save(at, 1)
  save(at, 2)
  const path = join(at, 'step-000000002.json')
  const text = readFileSync(path, 'utf8')
  const below = random(7)
  const refused = (other: string): void => {
    writeFileSync(path, other)
    const found = findCheckpoint(at)
    assert.is(found.checkpoint?.step, 1, other)
    assert.is(found.refused.length, 1)
    assert.match(found.refused[0]!, /^step-000000002\.json is refused: ./)
  }
  for (let tried = 0; tried < cases; ) {
    const other = damaged(text, below)
    if (other === text) continue
    refused(other)
    tried++
  }
  refused(text.replace('"version": 2', '"version": 1'))
  rmSync(at, { recursive: true })
  return { damaged: cases, accepted: 0 }
}

export const family: Family = {
  what: 'damaged JSON of a checkpoint is refused, and the one before is taken',
  few: 200,
  all: 1000,
  seconds: 300,
  run,
}
