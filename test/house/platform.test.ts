// The legal contents of a platform package are read from the files themselves.
import { spawnSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ROOT, withFiles } from './scratch'

// biome-ignore lint/suspicious/noExplicitAny: plain JavaScript, run before there are types
const part = (name: string): any => require(path.join(ROOT, 'scripts', 'prebuilt', name))
const { readElf } = part('elf.js')
const { faultsOf, packageFaults } = part('check.js')
const { assemble, licencesOf } = part('contents.js')
const { PLATFORMS } = part('platforms.js')

/** Node, and where a system has it in a library, as Debian 13 does, that. */
const nodeObjects = (): readonly string[] => {
  const { sharedObjects } = process.report.getReport() as unknown as { readonly sharedObjects: readonly string[] }
  return [process.execPath, ...sharedObjects.filter((file) => /\/libnode\.so/.test(file))]
}

test('elf: this Node as the loader sees it', () => {
  const node = readElf(process.execPath)
  assert.is(node.arch, process.arch)
  assert.ok(node.needed.includes('libc.so.6'), node.needed.join(' '))
  assert.ok(node.versions.some((version: string) => version.startsWith('GLIBC_2.')))
  assert.ok(nodeObjects().some((file) => readElf(file).exports.includes('napi_create_object')))
  assert.throws(() => readElf(__filename), /is not a 64-bit little-endian ELF file/)
})

test('elf: another reader, if installed, has the same result', () => {
  const { status, stdout } = spawnSync('readelf', ['-dW', process.execPath], { encoding: 'utf8' })
  if (status !== 0) return
  const needed = [...stdout.matchAll(/\(NEEDED\).*\[(.*)\]/g)].map((found) => found[1])
  assert.equal(readElf(process.execPath).needed, needed)
})

test('package: each thing that would not load elsewhere is a fault', () => {
  const right = {
    arch: 'x64',
    soname: null,
    needed: ['libc.so.6', 'libdnnl.so.3'],
    paths: ['$ORIGIN/../lib'],
    versions: ['GLIBC_2.28', 'GLIBCXX_3.4', 'OMP_5.0'],
    exports: ['napi_register_module_v1'],
  }
  const faults = (change: object): readonly string[] => faultsOf({ ...right, ...change }, 'x64', ['libdnnl.so.3'])
  assert.equal(faults({}), [])
  assert.equal(faults({ arch: 'arm64' }), ['is for arm64'])
  assert.equal(faults({ needed: ['libgomp.so.1'] }), ['needs libgomp.so.1, which it does not carry'])
  assert.equal(faults({ versions: ['GLIBC_2.29', 'GLIBC_2.4', 'GLIBCXX_3.4.26'] }), ['needs GLIBC_2.29', 'needs GLIBCXX_3.4.26'])
  assert.equal(faults({ paths: ['/usr/lib'] }), ['looks for libraries in /usr/lib'])
  assert.equal(faults({ exports: ['napi_register_module_v1', '__cxa_throw'] }), ['shows __cxa_throw to others'])
  assert.equal(faults({ exports: [] }), ['is no addon'])
})

test('package: a licence that is missing or empty is a fault', async () => {
  await withFiles({ 'licences/a.txt': '', 'licences/b.txt': 'b' }, (folder) => {
    const licences = ['licences/a.txt', 'licences/b.txt', 'licences/c.txt']
    assert.equal(packageFaults(folder, 'x64', licences), ['licences/a.txt is missing', 'licences/c.txt is missing'])
  })
})

test('platforms: those that the package is for, each built for its own processor, its addons from the most demanding on', () => {
  const { cpu } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8'))
  assert.equal(Object.keys(PLATFORMS).sort(), [...cpu].sort())
  for (const [arch, processor] of [
    ['x64', 'x86_64'],
    ['arm64', 'aarch64'],
  ] as const) {
    const { target, processor: told, wheelsFor, addons } = PLATFORMS[arch]
    assert.equal([target, told, wheelsFor], [`${processor}-linux-gnu.2.28`, processor, `manylinux_2_28_${processor}`])
    addons.slice(1).forEach(({ needs }: { needs: string[] }, i: number) => {
      assert.ok(needs.length < addons[i].needs.length && needs.every((flag) => addons[i].needs.includes(flag)))
    })
  }
  assert.equal(PLATFORMS.arm64.addons.at(-1).needs, [], 'every processor of arm64 has what its addon asks for')
})

test('package: that of arm64 names its architecture, and neither contains nor requires oneDNN', async () => {
  await withFiles({ 'a.node': 'addon', 'libomp.so': 'openmp', LICENSE: 'words' }, (files) => {
    const folder = path.join(files, 'package')
    const words = licencesOf({ libraries: [] })
    assert.match(licencesOf({ libraries: ['libdnnl.so.3'] }), 'oneDNN')
    assemble(folder, 'arm64', PLATFORMS.arm64, {
      addons: { 'armv8-a': path.join(files, 'a.node') },
      libraries: [path.join(files, 'libomp.so')],
      licences: { 'spillway.txt': path.join(files, 'LICENSE') },
      words,
    })
    const read = (name: string): string => fs.readFileSync(path.join(folder, name), 'utf8')
    const { name, os, cpu, libc } = JSON.parse(read('package.json'))
    assert.equal([name, os, cpu, libc], ['@spillway/linux-arm64', ['linux'], ['arm64'], ['glibc']])
    assert.equal(JSON.parse(read('addons.json')).addons, [{ file: 'armv8-a/spillway.node', needs: [] }])
    assert.equal([read('armv8-a/spillway.node'), read('lib/libomp.so')], ['addon', 'openmp'])
    assert.not.match(read('licences/README.md'), 'oneDNN')
  })
})

test.run()
