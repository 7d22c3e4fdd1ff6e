// The file layer that fails (test/native/failing), built from its source here, so that it never is an older one. In: the words of a fault.
// Out: the environment of a process under it, and the number of calls that it has hit. Invariant: the fault of a running process may change.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, readSync, renameSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import * as assert from 'uvu/assert'

const project = join(__dirname, '..', '..')
const SOURCE = join(project, 'test', 'native', 'failing', 'failing.cpp')
const COMPILER = process.env['CXX'] || 'c++'

/** The built layer; undefined on a system without a compiler. */
export const failingLayer = (): string | undefined => {
  const key = createHash('sha256').update(readFileSync(SOURCE)).digest('hex').slice(0, 16)
  const folder = join(project, 'build', 'failing')
  const file = join(folder, `${key}.so`)
  if (existsSync(file)) return file
  if (spawnSync(COMPILER, ['--version']).status !== 0) return undefined
  const fresh = `${file}.${process.pid}.tmp`
  mkdirSync(folder, { recursive: true })
  const built = spawnSync(COMPILER, ['-std=c++20', '-O1', '-shared', '-fPIC', SOURCE, '-o', fresh, '-ldl'], { encoding: 'utf8' })
  assert.is(built.status, 0, built.stderr)
  renameSync(fresh, file)
  return file
}

/** The layout of `Words` in failing.cpp: two counts and the text. */
const [HIT_AT, TEXT_AT, BYTES] = [8, 16, 16 + 4096]

/** The fault of running processes. */
export interface Failing {
  readonly env: Readonly<Record<string, string>>
  /** Sets `OPERATION KIND FIRST FOLDER`. */
  readonly set: (words: string) => void
  /** Ends the fault and returns the number of calls that it has hit. */
  readonly clear: () => number
  readonly close: () => void
}

export const failingUnder = (layer: string, file: string): Failing => {
  writeFileSync(file, Buffer.alloc(BYTES))
  const fd = openSync(file, 'r+')
  const clear = (): number => {
    writeSync(fd, Buffer.alloc(BYTES - TEXT_AT), 0, undefined, TEXT_AT)
    const hit = Buffer.alloc(8)
    readSync(fd, hit, 0, 8, HIT_AT)
    writeSync(fd, Buffer.alloc(TEXT_AT), 0, undefined, 0)
    return Number(hit.readBigInt64LE())
  }
  return {
    env: { LD_PRELOAD: layer, SPILLWAY_FAILING: `@${file}` },
    set: (words) => {
      clear()
      const text = Buffer.from(`${words}\0`)
      // The first letter last: the layer takes no words that are not whole.
      writeSync(fd, text, 1, undefined, TEXT_AT + 1)
      writeSync(fd, text, 0, 1, TEXT_AT)
    },
    clear,
    close: () => closeSync(fd),
  }
}
