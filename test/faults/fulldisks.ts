// Full disks, each in the way of a spill file, checkpoints, weights, the log and the report. Invariant: an error known before planning is refused
// with 2; a later one ends the run with words that name the file and the saved state, and the run continues from there.
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as assert from 'uvu/assert'
import { findCheckpoint } from '../../src/train/checkpoint'
import { afterStep, type End, ended, MODEL, spillway, training, trainingOf } from '../e2e/processes'
import { type Counts, type Family, skipped } from './family'
import { type SmallDisk, smallDisk } from './tmpfs'

const messageOf = (e: End): string => JSON.parse(e.out).error.message
const refused = (e: End, code: number, ...words: readonly RegExp[]): void => {
  assert.is(e.code, code, e.err)
  for (const w of words) assert.match(messageOf(e), w)
}
const shaOf = (e: End): string => {
  assert.is(e.code, 0, e.err)
  return JSON.parse(e.out).weightsSha256
}

const FULL = /ENOSPC/
const LONG = ['--steps', '100000', '--checkpoint-every', '1']

/** The disk fills up while the run goes on. */
const filledLater = async (disk: SmallDisk, ...args: readonly string[]): Promise<End> =>
  ended(
    training(...args),
    afterStep(3, () => disk.fill()),
  )

const CASES: Readonly<Record<string, (disk: SmallDisk) => Promise<void>>> = {
  'no room for the spill file': async ({ folder }) => {
    const swapping = ['--image', '512', '--strategy', 'swap:greedy']
    const less = await ended(spillway(['plan', MODEL, ...swapping, '--machine', 'ref', '--budget', '1', '--json']))
    const budget = String(JSON.parse(less.out).error.smallestBytes)
    const args = [...swapping, '--budget', budget, '--spill', folder]
    refused(
      await ended(trainingOf(MODEL, [...args, '--device', 'ref'])),
      2,
      /this machine cannot run the plan: .* are free at .*, .* of the spill file/,
    )
  },
  'no room for checkpoints': async ({ folder, fill }) => {
    fill()
    refused(await ended(training('--checkpoint-dir', join(folder, 'run'))), 2, /cannot run the plan: .* of checkpoints/)
  },
  'no room for weights': async ({ folder, fill }) => {
    fill()
    refused(await ended(training('--save', join(folder, 'w.safetensors'))), 2, /cannot run the plan: .* of weights/)
  },
  'a log without room': async ({ folder, fill }) => {
    fill()
    refused(await ended(training('--log', join(folder, 'log'))), 1, /ENOSPC/)
  },
  'a report without room': async ({ folder, fill }) => {
    fill()
    refused(await ended(training('--report', join(folder, 'r.html'))), 1, /output file .*r\.html is refused: ENOSPC/)
  },
  'a plan, a trace and a module without room': async ({ folder, fill }) => {
    fill()
    for (const flag of ['--save', '--trace', '--emit', '--report'])
      refused(
        await ended(spillway(['plan', MODEL, '--machine', 'ref', flag, join(folder, 'x.ts'), '--json'])),
        1,
        /x\.ts is refused: ENOSPC/,
      )
  },
  'checkpoints, filled later': async (disk) => {
    const at = join(disk.folder, 'run')
    const seeded = ['--seed', '4', '--checkpoint-dir', at]
    refused(await filledLater(disk, ...LONG, ...seeded), 1, FULL, /step-.*; run the same command with --resume to continue/)
    const step = findCheckpoint(at).checkpoint!.step
    disk.empty()
    const steps = ['--steps', String(step + 3)]
    const rest = await ended(training(...seeded, ...steps, '--resume'))
    assert.is(shaOf(rest), shaOf(await ended(training('--seed', '4', ...steps))))
  },
  'the log, filled later': async (disk) => {
    const log = join(disk.folder, 'log')
    mkdirSync(log)
    refused(await filledLater(disk, '--steps', '100000', '--log', log), 1, FULL, /steps\.jsonl/, /the trained weights are lost/)
    assert.ok(readFileSync(join(log, 'steps.jsonl'), 'utf8').split('\n').length > 3)
  },
  'weights, filled later': async (disk) => {
    const weights = join(disk.folder, 'w.safetensors')
    const end = await filledLater(disk, '--steps', '200', '--save', weights)
    refused(
      end,
      1,
      FULL,
      /w\.safetensors/,
      /the trained weights are lost; --checkpoint-dir \(checkpointDir\) saves them during a run/,
    )
    assert.not.ok(existsSync(weights))
  },
}

const run = async (cases: number): Promise<Counts> => {
  const names = Object.keys(CASES).filter((_, i) => cases >= Object.keys(CASES).length || i % 3 === 0)
  for (const name of names) {
    const disk = smallDisk(600)
    if (!disk) return skipped('no file system can be mounted here')
    try {
      await CASES[name]!(disk)
    } catch (e) {
      throw new Error(`${name}: ${String(e)}`)
    } finally {
      disk.remove()
    }
  }
  return { full: names.length }
}

export const family: Family = {
  what: 'full disks name the file and what is kept: in spill, checkpoints, weights, log, report',
  few: 3,
  all: 9,
  seconds: 1200,
  run,
}
