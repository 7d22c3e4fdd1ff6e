// Errors of users, files and machines. In: the families of test/faults, each in a process of its own. Out: a claim for each, with the number of cases
// and their seconds. Invariant: a family that fails, or does not end, fails its claim with its words.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import type { Claiming } from './claims'

const ROOT = join(__dirname, '../..')
const FAMILIES = [
  'arguments',
  'files',
  'labels',
  'checkpoints',
  'plans',
  'fulldisks',
  'failingdisks',
  'processes',
  'groups',
  'kills',
  'tapes',
  'keys',
]
const LAST_WORDS = 2000

export const edges = (claim: Claiming): void => {
  for (const name of FAMILIES) {
    const began = performance.now()
    const command = ['-r', './scripts/testing/typescript.js', join('test', 'faults', 'all.ts'), name]
    const { status, stdout, stderr } = spawnSync(process.execPath, command, { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 28 })
    const seconds = Math.round((performance.now() - began) / 100) / 10
    const last = stdout.trim().split('\n').at(-1) ?? ''
    const { what = name, counts = {} } = status === 0 ? (JSON.parse(last) as { what: string; counts: object }) : {}
    claim('edges', `${name}: ${what}`, status === 0, {
      ...counts,
      seconds,
      ...(status === 0 ? {} : { words: stderr.slice(-LAST_WORDS) }),
    })
  }
}
