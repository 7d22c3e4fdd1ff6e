// Equal samples of two data sets: files with equal bytes and any names, and samples of one source by their numbers. Files that only begin alike differ.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { folder } from '../../../src/data/data'
import { contradiction, twinsOf } from '../../../src/data/twins'
import { png } from './png'

const root = mkdtempSync(join(tmpdir(), 'spillway-twins-'))
test.after(() => rmSync(root, { recursive: true }))
const write = (name: string, content: string | Uint8Array): string => {
  const path = join(root, name)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, content)
  return path
}
const pixel = (value: number): Uint8Array => png({ width: 1, height: 1, bits: 8, colour: 'grey', pixels: Uint8Array.of(value) })

test('files are equal by their bytes, not by names, sizes or beginnings', () => {
  const long = 'x'.repeat(6000)
  const [a, b, c] = [write('a', `${long}1`), write('b', `${long}2`), write('c', `${long}1`)]
  const d = write('d', 'short')
  assert.equal(twinsOf([a, d], [b, c]), { count: 1, of: 2, example: [a, c] })
  assert.equal(twinsOf([b, d], [a, c]), { count: 0, of: 2 })
  assert.equal(twinsOf([a, b], [a, b, c]).count, 2)
  assert.equal(twinsOf([join(root, 'nowhere')], [a]), { count: 0, of: 1 })
  assert.equal(twinsOf([], [a]), { count: 0, of: 0 })
})

test('equal images contradict each other only in two classes', () => {
  write('right/ant/0.png', pixel(1))
  write('right/ant/1.png', pixel(1))
  write('right/bee/0.png', pixel(2))
  assert.is(contradiction(folder(join(root, 'right'))), undefined)
  const copy = write('right/bee/copy.png', pixel(1))
  assert.equal(contradiction(folder(join(root, 'right'))), [join(root, 'right/ant/0.png'), copy])
})

test.run()
