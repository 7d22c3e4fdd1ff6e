// An installed package takes its platform package's addon when that was made of the same native sources.
import * as fs from 'node:fs'
import * as path from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ROOT, withFiles } from './scratch'

// biome-ignore lint/suspicious/noExplicitAny: plain JavaScript, run before there are types
const part = (name: string): any => require(path.join(ROOT, 'scripts', 'setup', name))
const { addonSources, platformPackage, prebuiltAddon } = part('prebuilt.js')
const { findAddon, findPrebuilt } = part('find.js')

const NAME = platformPackage()
const INSTALLED = {
  'node_modules/spillway/package.json': '{ "name": "spillway", "version": "1.0.0" }',
  'node_modules/spillway/native/a.cpp': 'a',
}
const PLATFORM = `node_modules/${NAME}`
const ADDONS = [
  { file: 'wide/spillway.node', needs: ['wide', 'narrow'] },
  { file: 'narrow/spillway.node', needs: ['narrow'] },
]

/** An installed Spillway, its platform package made of `sources` ('own': of the very same), and the choice of a processor with these flags. */
const taking = (
  flags: string,
  sources?: string,
): Promise<{ state: string; words: string; file?: string; folder: string; found: string | null }> =>
  withFiles(INSTALLED, (project) => {
    const root = path.join(project, 'node_modules', 'spillway')
    const folder = path.join(project, PLATFORM)
    if (sources !== undefined) {
      fs.mkdirSync(folder, { recursive: true })
      fs.writeFileSync(path.join(folder, 'package.json'), `{ "name": "${NAME}", "version": "0.9.0" }`)
      const made = sources === 'own' ? addonSources(root) : sources
      fs.writeFileSync(path.join(folder, 'addons.json'), JSON.stringify({ sources: made, addons: ADDONS }))
    }
    return { ...prebuiltAddon(root, flags), folder, found: findAddon(root) }
  })

/** Those who run the tests may have named an addon of their own. */
delete process.env.SPILLWAY_ADDON

test('prebuilt: made of the same sources, the best addon that the processor can run is taken', async () => {
  const wide = await taking('wide narrow more', 'own')
  assert.is(wide.file, path.join(wide.folder, 'wide', 'spillway.node'))
  const narrow = await taking('narrow', 'own')
  assert.is(narrow.file, path.join(narrow.folder, 'narrow', 'spillway.node'))
  assert.is(narrow.words, `${NAME} 0.9.0, narrow`)
})

test('prebuilt: each kind of processor takes the package of its own name', async () => {
  const packages = Object.fromEntries(
    ['x64', 'arm64'].flatMap((arch) => [
      [`node_modules/${platformPackage(arch)}/package.json`, `{ "name": "${platformPackage(arch)}", "version": "1.0.0" }`],
      [`node_modules/${platformPackage(arch)}/addons.json`, ''],
    ]),
  )
  await withFiles({ ...INSTALLED, ...packages }, (project) => {
    const root = path.join(project, 'node_modules', 'spillway')
    for (const arch of ['x64', 'arm64']) {
      const addons = [{ file: `${arch}/spillway.node`, needs: arch === 'x64' ? ['avx2'] : [] }]
      const folder = path.join(project, 'node_modules', platformPackage(arch))
      fs.writeFileSync(path.join(folder, 'addons.json'), JSON.stringify({ sources: addonSources(root), addons }))
    }
    assert.is(prebuiltAddon(root, 'fp asimd atomics', 'arm64').words, '@spillway/linux-arm64 1.0.0, arm64')
    assert.is(prebuiltAddon(root, 'fma avx2', 'x64').words, '@spillway/linux-x64 1.0.0, x64')
    assert.is(prebuiltAddon(root, 'fp asimd', 'x64').state, 'unfit')
    assert.is(prebuiltAddon(root, '', 'riscv64').words, '@spillway/linux-riscv64 is not installed')
  })
})

test('prebuilt: a package of another version or processor, unreadable or missing, is ignored with the reason', async () => {
  const cases = [
    [await taking('narrow', 'another'), 'other', `${NAME} 0.9.0 was built from other native sources than spillway 1.0.0`],
    [await taking('neither', 'own'), 'unfit', `${NAME} 0.9.0 has no addon for this processor`],
    [await taking('narrow'), 'missing', `${NAME} is not installed`],
  ] as const
  for (const [{ state, words, file, found }, wanted, said] of cases) {
    assert.is(state, wanted)
    assert.is(words, said)
    assert.is(file, undefined)
    assert.is(found, null)
  }
  await withFiles({ ...INSTALLED, [`${PLATFORM}/package.json`]: '{}' }, (project) => {
    assert.is(prebuiltAddon(path.join(project, 'node_modules', 'spillway'), 'narrow').state, 'broken')
  })
})

test('prebuilt: SPILLWAY_PREBUILT=off leaves it out, and a checkout builds its own', async () => {
  process.env.SPILLWAY_PREBUILT = 'off'
  try {
    assert.is((await taking('narrow', 'own')).state, 'off')
  } finally {
    delete process.env.SPILLWAY_PREBUILT
  }
  await withFiles({ 'tsconfig.build.json': '{}', 'native/a.cpp': 'a' }, (root) => assert.is(findPrebuilt(root), null))
})

test('prebuilt: a checkout and the package packed from it have the same native sources', async () => {
  const native = { 'native/a.cpp': 'a', 'native/gen/ops.h': 'b' }
  const packed = await withFiles(native, addonSources)
  assert.is(await withFiles({ ...native, 'test/native/imitation/x.cpp': 'x', 'tsconfig.build.json': '{}' }, addonSources), packed)
  assert.is.not(await withFiles({ ...native, 'native/gen/ops.h': 'c' }, addonSources), packed)
})

test.run()
