// Files of class labels, made by hand and damaged at random, in runs. In: a folder. Out: a run's words for a file of labels; the family. Invariant:
// each wrong file is refused by its first fault, before its step; each other one is trained on.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as assert from 'uvu/assert'
import { conv2d, crossEntropy, model, seq } from '../../dsl'
import { exitCode, SpillwayException } from '../../src/errors/errors'
import type { Staged } from '../../src/stage/staged'
import { DEVICE, staged, trained } from '../e2e/runs'
import type { Counts, Family } from './family'
import { CLASSES, HANDMADE, type LabelFile, mutated, npy, npyOf, SAMPLES, SIZE } from './labelfiles'
import type { MachineName } from '../../staging/core/names'

const pixels = model([2, 3, SIZE, SIZE], seq(conv2d('head', CLASSES, 1)))
const images = (samples: number): Uint8Array =>
  npy(
    '<f4',
    [samples, 3, SIZE, SIZE],
    new Uint8Array(Float32Array.from({ length: samples * 3 * SIZE ** 2 }, (_, i) => (i % 7) / 7).buffer),
  )

interface LabelFolder {
  /** The file that labels are written to. */
  readonly target: string
  /** The words of a run with the file; undefined without an error. */
  readonly said: (machine: MachineName, file: LabelFile) => Promise<string | undefined>
}

export const labelFolder = (root: string): LabelFolder => {
  const target = join(root, 'target.npy')
  writeFileSync(join(root, 'input.npy'), images(SAMPLES))
  const plans = new Map<string, Staged>()
  const planOn = (machine: MachineName): Staged => {
    const plan = plans.get(machine) ?? staged(pixels, { machine, loss: crossEntropy, strategy: 'in-core' })
    plans.set(machine, plan)
    return plan
  }
  const said = async (machine: MachineName, file: LabelFile): Promise<string | undefined> => {
    writeFileSync(target, npyOf(file))
    try {
      const { losses } = await trained(pixels, planOn(machine), { steps: SAMPLES / 2, data: root, shuffle: false })
      assert.ok(losses.every((l) => l > 0))
      return undefined
    } catch (e) {
      assert.ok(e instanceof SpillwayException && e.error.tag === 'FileRefused', String(e))
      assert.equal([e.error.kind, e.error.file, exitCode(e.error)], ['data', target, 1])
      return e.error.reason
    }
  }
  return { target, said }
}

const run = async (cases: number): Promise<Counts> => {
  const root = mkdtempSync(join(tmpdir(), 'spillway-labels-'))
  const { said } = labelFolder(root)
  const files = [...Array.from({ length: cases }, (_, i) => mutated(i + 1)), ...HANDMADE.slice(0, cases / 10)]
  const wrong = files.filter((f) => f.says !== undefined).length
  assert.ok(wrong > files.length / 5 && wrong < files.length, String(wrong))
  for (const machine of new Set([DEVICE, 'ref'] as const))
    for (const file of files) assert.is(await said(machine, file), file.says, `${machine}: ${file.name}`)
  rmSync(root, { recursive: true })
  return { mutated: cases, handmade: Math.min(cases / 10, HANDMADE.length), refused: wrong, trained: files.length - wrong }
}

export const family: Family = {
  what: 'files of class labels, mutated and made by hand: each wrong one is refused by its first fault',
  few: 20,
  all: 500,
  seconds: 600,
  run,
}
