// Whole-file writes: the name shows the old bytes or the new ones; leftovers of dead writers go, those of living ones stay.
import { closeSync, fstatSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createHash } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, left, right } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { fillWhole, removeLeftovers, writeWhole, writeWholeText } from '../../../src/files/whole'

const folder = mkdtempSync(join(tmpdir(), 'spillway-files-'))
test.after(() => rmSync(folder, { recursive: true }))

test('a whole file is written or replaced, and its size and digest are returned', () => {
  const path = join(folder, 'a.txt')
  writeWholeText(path, 'old')
  const w = writeWhole(path, [right(Buffer.from('ne')), right(Buffer.from('w!'))])
  assert.is(readFileSync(path, 'utf8'), 'new!')
  assert.equal(w, right({ bytes: 4, sha256: createHash('sha256').update('new!').digest('hex') }))
  assert.equal(readdirSync(folder), ['a.txt'])
})

test('a writer that fails leaves the old file and nothing else', () => {
  const path = join(folder, 'b.txt')
  const half = right(Buffer.from('half'))
  const failed = left({ tag: 'DeviceFailed', reason: 'disk on fire' } as const)
  writeWholeText(path, 'old')
  assert.equal(writeWhole(path, [half, failed]), failed)
  assert.throws(
    () =>
      writeWhole(
        path,
        (function* () {
          yield half
          throw new Error('a fault of ours')
        })(),
      ),
    /a fault of ours/,
  )
  assert.is(readFileSync(path, 'utf8'), 'old')
  assert.equal(
    readdirSync(folder).filter((n) => n.startsWith('.')),
    [],
  )
})

test('a file that is filled in any order stays when it is dropped late, and no other file is closed with it', () => {
  const path = join(folder, 'filled.txt')
  const filling = fillWhole(path)
  filling.put(2, Buffer.from('w!'))
  filling.put(0, Buffer.from('ne'))
  filling.done()
  // They take the numbers that are free, the filled file's among them.
  const others = [0, 1, 2].map(() => openSync(path, 'r'))
  filling.drop()
  for (const fd of others) {
    assert.is(fstatSync(fd).size, 4)
    closeSync(fd)
  }
  assert.is(readFileSync(path, 'utf8'), 'new!')
})

test('a file that is dropped half filled leaves nothing', () => {
  const before = readdirSync(folder)
  const filling = fillWhole(join(folder, 'half.txt'))
  filling.put(0, Buffer.from('half'))
  filling.drop()
  filling.drop()
  assert.equal(readdirSync(folder), before)
})

test('a missing folder is refused with its name', () => {
  const path = join(folder, 'nowhere', 'c.txt')
  const w = writeWholeText(path, 'new')
  assert.ok(isLeft(w) && w.left.tag === 'FileRefused' && w.left.file === path && /ENOENT/.test(w.left.reason))
})

test('removes leftovers of dead processes only', () => {
  const dead = `.x.bin.${2 ** 22 - 1}.0123456789ab.part`
  const alive = `.x.bin.${process.ppid}.0123456789ab.part`
  const foreign = '.x.bin.part'
  for (const n of [dead, alive, foreign]) writeFileSync(join(folder, n), '')
  removeLeftovers(folder)
  const left = readdirSync(folder)
  assert.not.ok(left.includes(dead))
  assert.ok(left.includes(alive) && left.includes(foreign))
})

test('a writer removes only the temporary files of ended writers of the same file', () => {
  const dead = (name: string): string => `.${name}.${2 ** 22 - 1}.0123456789ab.part`
  const others = [dead('page.html.bak'), dead('y.bin'), `.page.html.${process.ppid}.0123456789ab.part`]
  for (const n of [dead('page.html'), dead('rows.npy'), ...others]) writeFileSync(join(folder, n), '')
  writeWholeText(join(folder, 'page.html'), 'new')
  fillWhole(join(folder, 'rows.npy')).drop()
  const left = readdirSync(folder)
  assert.not.ok(left.includes(dead('page.html')) || left.includes(dead('rows.npy')))
  assert.ok(others.every((n) => left.includes(n)))
})

test.run()
