// Damaged tapes read under sanitizers. In: how many. Out: the fuzzer's own counts. Invariant: none with a wrong checksum is taken, and
// nothing is read or written that is not the reader's.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import * as assert from 'uvu/assert'
import type { Counts, Family } from './family'

const ROOT = join(__dirname, '..', '..')

const run = async (cases: number): Promise<Counts> => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ['scripts/check-native.js', 'fuzz', String(cases)], {
    cwd: ROOT,
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  })
  assert.is(status, 0, stdout + stderr)
  const counts = /^(\d+) mutated tapes: (\d+) refused for (\d+) different reasons, (\d+) still valid, (\d+) with/m.exec(stdout)
  assert.ok(counts, stdout)
  const [damaged, refused, reasons, valid, wrong] = counts!.slice(1).map(Number) as [number, number, number, number, number]
  assert.equal([damaged, wrong], [cases, 0])
  assert.ok(reasons > 50, `only ${reasons} checks were reached`)
  return { damaged, refused, reasons, stillValid: valid, damagedTaken: wrong }
}

export const family: Family = {
  what: 'damaged tapes are refused, under ASan and UBSan',
  few: 2000,
  all: 1_000_000,
  seconds: 1800,
  run,
}
