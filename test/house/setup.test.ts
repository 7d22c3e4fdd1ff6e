// Set-up decides from facts on disk. Its parts are tested on scratch folders; the whole of it runs before every test run.
import { spawn, spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ROOT, withFiles } from './scratch'

// biome-ignore lint/suspicious/noExplicitAny: plain JavaScript, run before there are types
const part = (name: string): any => require(path.join(ROOT, 'scripts', 'setup', name))

const lockFile = (packages: Readonly<Record<string, object>>): string => JSON.stringify({ packages: { '': {}, ...packages } })
const AB = {
  'node_modules/a': { version: '1.0.0' },
  'node_modules/b': { version: '2.0.0', dev: true },
  'node_modules/c': { version: '1.0.0', optional: true },
}
const installed = (...names: string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [`node_modules/${name}/package.json`, '{}']))

const missing = (files: Readonly<Record<string, string>>, dev = true): Promise<string[]> =>
  withFiles(files, (root) => part('packages.js').missingPackages(root, { dev }))

test('packages: nothing installed', async () => {
  assert.equal(await missing({ 'package-lock.json': lockFile(AB) }), ['a', 'b'])
})

test('packages: those for development count only when wanted', async () => {
  assert.equal(await missing({ 'package-lock.json': lockFile(AB) }, false), ['a'])
})

test('packages: all there', async () => {
  const files = { 'package-lock.json': lockFile(AB), 'node_modules/.package-lock.json': lockFile(AB), ...installed('a', 'b') }
  assert.equal(await missing(files), [])
})

test('packages: a folder removed by hand is noticed', async () => {
  const files = { 'package-lock.json': lockFile(AB), 'node_modules/.package-lock.json': lockFile(AB), ...installed('b') }
  assert.equal(await missing(files), ['a'])
})

test('packages: a changed version is noticed', async () => {
  const old = lockFile({ ...AB, 'node_modules/a': { version: '0.9.0' } })
  const files = { 'package-lock.json': lockFile(AB), 'node_modules/.package-lock.json': old, ...installed('a', 'b') }
  assert.equal(await missing(files), ['a'])
})

test('packages: an interrupted install is noticed (npm writes its list last)', async () => {
  assert.equal(await missing({ 'package-lock.json': lockFile(AB), ...installed('a', 'b') }), ['a', 'b'])
})

test('stamps: a key changes with contents, names and extras, and with nothing else', async () => {
  const { contentKey, filesUnder } = part('stamp.js')
  const key = (files: Readonly<Record<string, string>>, extra = ''): Promise<string> =>
    withFiles(files, (root) => contentKey(root, filesUnder(root, ['src', 'one.json']), extra))
  const base = await key({ 'src/a.ts': 'a', 'one.json': '1' })
  assert.is(await key({ 'src/a.ts': 'a', 'one.json': '1', 'other/b.ts': 'b', 'src/.hidden': 'h' }), base)
  assert.is.not(await key({ 'src/a.ts': 'b', 'one.json': '1' }), base)
  assert.is.not(await key({ 'src/b.ts': 'a', 'one.json': '1' }), base)
  assert.is.not(await key({ 'src/a.ts': 'a' }), base)
  assert.is.not(await key({ 'src/a.ts': 'a', 'one.json': '1' }, 'other compiler'), base)
})

test('stamps: hold for their key only', async () => {
  const { stampHolds, writeStamp } = part('stamp.js')
  await withFiles({}, (root) => {
    const file = path.join(root, 'deep', 'stamp')
    assert.not(stampHolds(file, 'k'))
    writeStamp(file, 'k')
    assert.ok(stampHolds(file, 'k'))
    assert.not(stampHolds(file, 'other'))
    assert.equal(fs.readdirSync(path.dirname(file)), ['stamp'])
  })
})

const ADDON_FILES = { 'tsconfig.build.json': '{}', 'native/a.cpp': 'a', 'build/addon/Release/spillway.node': 'addon' }

test('addon: it is found by the hash of its sources, also in a copied checkout; not after a change', async () => {
  const { findAddon, fitKey } = part('find.js')
  const { writeStamp } = part('stamp.js')
  await withFiles(ADDON_FILES, async (root) => {
    assert.is(findAddon(root), null, 'without a stamp it is half built')
    const key = fitKey(root)
    writeStamp(path.join(root, 'build', 'addon', 'stamp'), key)
    assert.is(findAddon(root), path.join(root, 'build', 'addon', 'Release', 'spillway.node'))
    await withFiles({ ...ADDON_FILES, 'build/addon/stamp': `${key}\n` }, (copy) => assert.ok(findAddon(copy)))
    fs.writeFileSync(path.join(root, 'native', 'a.cpp'), 'b')
    assert.is(findAddon(root), null)
  })
})

test('addon: an installed package builds in the cache, or in its own folder if the cache is read-only', async () => {
  const { placeToBuild } = part('find.js')
  const before = process.env.XDG_CACHE_HOME
  await withFiles({ 'native/a.cpp': 'a', file: '' }, (root) => {
    try {
      process.env.XDG_CACHE_HOME = path.join(root, 'cache')
      assert.match(placeToBuild(root), /cache\/spillway\/addon-[0-9a-f]{16}$/)
      process.env.XDG_CACHE_HOME = path.join(root, 'file')
      assert.is(placeToBuild(root), path.join(root, 'build', 'addon'))
    } finally {
      if (before === undefined) delete process.env.XDG_CACHE_HOME
      else process.env.XDG_CACHE_HOME = before
    }
  })
})

test('lock: taken once, free after release', async () => {
  const { tryLock } = part('lock.js')
  await withFiles({}, (root) => {
    const file = path.join(root, 'lock')
    const release = tryLock(file)
    assert.ok(release)
    assert.is(tryLock(file), null)
    release()
    assert.ok(tryLock(file))
    assert.equal(fs.readdirSync(root), ['lock'])
  })
})

test('lock: a dead holder is replaced, a living one is not', async () => {
  const { tryLock } = part('lock.js')
  await withFiles({}, (root) => {
    const file = path.join(root, 'lock')
    const ended = spawnSync(process.execPath, ['-e', ''])
    fs.writeFileSync(file, `${ended.pid} 12345`)
    assert.ok(tryLock(file), 'the lock of an ended process holds')
    fs.writeFileSync(file, `${process.pid} 1`)
    assert.ok(tryLock(file), 'a later process with the same id counts as the holder')
    assert.is(tryLock(file), null)
  })
})

test('lock: of many processes at once one holds it at a time', async () => {
  await withFiles({ 'log.txt': '' }, async (root) => {
    const program = `
      const { lock } = require(${JSON.stringify(path.join(ROOT, 'scripts', 'setup', 'lock.js'))})
      const fs = require('node:fs')
      lock('lock', () => {}).then(async (release) => {
        fs.appendFileSync('log.txt', 'in\\n')
        await new Promise((done) => setTimeout(done, 20))
        fs.appendFileSync('log.txt', 'out\\n')
        release()
      })`
    fs.writeFileSync(path.join(root, 'lock'), '999999999 1')
    const children = Array.from({ length: 6 }, () => spawn(process.execPath, ['-e', program], { cwd: root }))
    await Promise.all(children.map((child) => new Promise((done) => child.once('exit', done))))
    assert.is(fs.readFileSync(path.join(root, 'log.txt'), 'utf8'), 'in\nout\n'.repeat(6))
  })
})

test('system: without a way to install, the exact line to run is printed and the exit code is 2', async () => {
  await withFiles({}, (root) => {
    // A PATH with an apt-get but no compiler, CMake or sudo, for a user who is not root.
    fs.mkdirSync(path.join(root, 'bin'))
    fs.writeFileSync(path.join(root, 'bin', 'apt-get'), '#!/bin/sh\nexit 99\n', { mode: 0o755 })
    const program = `
      process.getuid = () => 1000
      const { ensureSystem } = require(${JSON.stringify(path.join(ROOT, 'scripts', 'setup', 'system.js'))})
      const { explain } = require(${JSON.stringify(path.join(ROOT, 'scripts', 'setup', 'problem.js'))})
      ensureSystem('.', () => {}).catch((p) => { console.log(explain(p)); process.exit(p.exitCode) })`
    const env = { PATH: path.join(root, 'bin') }
    const { status, stdout } = spawnSync(process.execPath, ['-e', program], { cwd: root, env, encoding: 'utf8' })
    assert.is(status, 2, stdout)
    assert.match(stdout, 'the native build needs a C++20 compiler, CMake, make')
    assert.match(stdout, /sudo sh -c 'apt-get update && apt-get install -y --no-install-recommends g\+\+ cmake make/)
  })
})

test('system: a oneDNN that is too old is named with its folder; the oldest that serves is not', async () => {
  const { ensureSystem, missingFromSystem } = part('system.js')
  if (missingFromSystem().length > 0) return
  const before = process.env.DNNL_DIR
  await withFiles({ 'dnnl-config.cmake': '' }, async (root) => {
    process.env.DNNL_DIR = root
    const saidOf = (version: string): Promise<string> => {
      fs.writeFileSync(path.join(root, 'dnnl-config-version.cmake'), `set(PACKAGE_VERSION "${version}")\n`)
      return ensureSystem('.', () => {}).then(
        () => '',
        (problem: Error) => problem.message,
      )
    }
    assert.match(await saidOf('2.2.4'), /^oneDNN 2\.2\.4 in .* is too old: the native build needs 2\.6 or newer$/)
    for (const version of ['2.6.0', '2.7.5', '3.1.1', '10.0']) assert.is(await saidOf(version), '')
  })
  if (before === undefined) delete process.env.DNNL_DIR
  else process.env.DNNL_DIR = before
})

test('children: output is logged, and a missing command differs from a failing one', async () => {
  const { runLogged, tellingLines } = part('child.js')
  await withFiles({}, async (root) => {
    const log = path.join(root, 'log', 'x.log')
    const lines: string[] = []
    const onLine = (line: string): void => void lines.push(line)
    const failed = await runLogged(
      process.execPath,
      ['-e', 'console.log("one"); console.error("fatal error: two"); process.exit(3)'],
      { cwd: root, log, onLine },
    )
    assert.is(failed.code, 3)
    assert.equal(lines.sort(), ['fatal error: two', 'one'])
    assert.ok(tellingLines(log).includes('fatal error: two'))
    assert.ok((await runLogged('spillway-no-such-command', [], { cwd: root, log })).missing)
  })
})

test('npm start: options change the job, a command replaces it, help needs no set-up', () => {
  const { jobFor } = require(path.join(ROOT, 'scripts', 'start.js'))
  assert.ok(jobFor([]).at(-1).endsWith('examples/big-picture.ts'))
  assert.equal(jobFor(['--steps', '2']).slice(-2), ['--steps', '2'])
  assert.equal(jobFor(['plan', 'vgg16']).slice(1), ['plan', 'vgg16'])
  const help = spawnSync(process.execPath, [path.join(ROOT, 'scripts', 'start.js'), '--help'], { encoding: 'utf8' })
  assert.is(help.status, 0)
  assert.match(help.stdout, 'npm start')
})

test.run()
