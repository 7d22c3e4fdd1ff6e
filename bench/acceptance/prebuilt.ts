// The platform package beside the packed one. In: both tarballs, the README's model. Out: claims: installed into an empty project without access to a
// compiler, CMake or make, `doctor` names the prebuilt addon, the model trains there to the losses of the addon that this checkout built, and nothing
// is built; each addon in it passes the tests of numbers, tiles and bits. Invariant: without a platform package, or with one of other native sources,
// the claim fails.
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Claiming } from './claims'
import type { Say } from './modules'

const ROOT = join(__dirname, '../..')
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { readonly version: string }

export const PLATFORM_TARBALL = join(ROOT, 'build', 'prebuilt', `spillway-linux-${process.arch}-${version}.tgz`)

/** Sums of other orders and another oneDNN: the same training, in other bits. */
const TOLERANCE = 1e-3
const TRAINING = ['train', 'my-net.ts', '--loss', 'cross-entropy', '--budget', '64MiB', '--steps', '3', '--seed', '1', '--json']

/** Operators beside `ref`, tiled gradients beside untiled ones, the bits of in-core beside those of other strategies. */
const CORRECT = ['test/conformance', 'test/property/numeric', 'test/e2e/bits']

interface Listed {
  readonly addons: readonly { readonly file: string; readonly needs: readonly string[] }[]
}
/** The addons of the platform package that this processor can run. */
const addonsHere = (folder: string): readonly string[] => {
  const own = new Set(/^flags\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))?.[1]?.split(/\s+/))
  const { addons } = JSON.parse(readFileSync(join(folder, 'addons.json'), 'utf8')) as Listed
  return addons.filter(({ needs }) => needs.every((flag) => own.has(flag))).map(({ file }) => file)
}

const correct = (file: string, run: Say, claim: Claiming): void => {
  const { code, text } = run(process.execPath, join(ROOT, 'scripts', 'test.js'), '--no-setup', ...CORRECT)
  const [counts = ''] = /^\d+ passed, \d+ failed.*$/m.exec(text) ?? []
  claim('prebuilt', `${file} passes ${CORRECT.join(', ')}`, code === 0, code === 0 ? { counts } : { said: text.slice(-2000) })
}

interface Finding {
  readonly name: string
  readonly state: string
  readonly value: string
}
const lossesOf = (text: string): readonly number[] =>
  (JSON.parse(text || '{}') as { readonly losses?: readonly number[] }).losses ?? []

/** `say` runs a command in a folder, with more of an environment. */
export const prebuiltIn = (
  folder: string,
  tarball: string,
  model: string,
  say: (folder: string, env?: Readonly<Record<string, string>>) => Say,
  claim: Claiming,
): void => {
  if (!existsSync(PLATFORM_TARBALL)) {
    claim('prebuilt', 'there is a platform package', false, { said: `npm run prebuilt -- ${process.arch} makes it` })
    return
  }
  const project = join(folder, 'prebuilt')
  const tools = join(folder, 'no-tools')
  const cache = join(folder, 'no-cache')
  for (const made of [project, tools]) mkdirSync(made)
  symlinkSync(process.execPath, join(tools, 'node'))
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'empty', private: true }))
  writeFileSync(join(project, 'my-net.ts'), model)
  const added = say(project)('npm', 'install', '--no-audit', '--no-fund', tarball, PLATFORM_TARBALL)
  claim('prebuilt', 'both tarballs install', added.code === 0, added.code === 0 ? {} : { said: added.err.slice(-500) })

  const run = say(project, { PATH: tools, XDG_CACHE_HOME: cache, SPILLWAY_ADDON: '' })
  const spillway = (...args: readonly string[]): ReturnType<Say> =>
    run(process.execPath, join('node_modules', 'spillway', 'scripts', 'spillway.js'), ...args)
  const told = spillway('doctor', '--json')
  const { findings = [] } = JSON.parse(told.text || '{}') as { readonly findings?: readonly Finding[] }
  const found = (name: string): Finding | undefined => findings.find((finding) => finding.name === name)
  const serves = found('prebuilt')?.state === 'ok' && found('addon')?.state === 'ok' && found('compiler')?.value === 'not found'
  const said = ['prebuilt', 'addon', 'compiler'].map((name) =>
    (found(name)?.value ?? told.err.slice(-300)).replaceAll(`${project}/`, ''),
  )
  claim('prebuilt', 'doctor says that it serves, and finds no compiler', serves, { said })

  const trained = spillway(...TRAINING)
  const losses = lossesOf(trained.text)
  const own = lossesOf(say(project)(process.execPath, join(ROOT, 'scripts', 'spillway.js'), ...TRAINING).text)
  const isSame = losses.length === own.length && own.every((loss, i) => Math.abs(losses[i]! - loss) <= TOLERANCE * loss)
  const holds = own.length === 3 && isSame
  claim('prebuilt', "the README's model trains to the losses of the addon that is built here", holds, {
    losses,
    own,
    ...(holds ? {} : { said: trained.err.slice(-500) }),
  })
  const kept = existsSync(join(cache, 'spillway')) ? readdirSync(join(cache, 'spillway')) : []
  const isUnbuilt = !kept.some((name) => name.startsWith('addon-')) && !existsSync(join(project, 'node_modules/spillway/build'))
  claim('prebuilt', 'nothing is built', isUnbuilt, {})

  const platform = join(project, 'node_modules', '@spillway', `linux-${process.arch}`)
  for (const file of addonsHere(platform)) correct(file, say(ROOT, { SPILLWAY_ADDON: join(platform, file) }), claim)
}
