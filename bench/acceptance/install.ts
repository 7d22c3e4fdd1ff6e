// The package as a user gets it. In: what `npm pack` makes, and the README. Out: claims: installed into an empty project by each package
// manager, the README's model trains from the command line, and a script of either kind of module trains it to the same losses.
// Invariant: projects lie outside the checkout and know of it only the tarball; one cache of addons serves them all.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Claiming } from './claims'

const ROOT = join(__dirname, '../..')
const MOST_BYTES = 3e6

/** How each manager, of the version that is named, adds a file to a project. */
const MANAGERS: Readonly<Record<string, readonly string[]>> = {
  npm: ['npm', 'install', '--no-audit', '--no-fund'],
  pnpm: ['npx', '--yes', 'pnpm@9', 'add'],
  yarn: ['npx', '--yes', 'yarn@1', 'add', '--silent'],
}

interface Said {
  readonly code: number
  readonly text: string
  readonly err: string
}

const say =
  (folder: string) =>
  (command: string, ...args: readonly string[]): Said => {
    const env = { ...process.env, XDG_CACHE_HOME: join(folder, '..', 'cache') }
    const { status, stdout, stderr } = spawnSync(command, [...args], { cwd: folder, env, encoding: 'utf8', maxBuffer: 1 << 28 })
    return { code: status ?? 1, text: stdout, err: stderr }
  }

/** The README's programs: the model, and the script that trains it. */
const readmeBlocks = (): readonly string[] =>
  [...readFileSync(join(ROOT, 'README.md'), 'utf8').matchAll(/```ts\n([\s\S]*?)```/g)].map((found) => found[1]!)

const pack = (folder: string): string => {
  const { code, err } = say(ROOT)('npm', 'pack', '--pack-destination', folder)
  const name = readdirSync(folder).find((file) => file.endsWith('.tgz'))
  if (code !== 0 || name === undefined) throw new Error(`npm pack: ${err}`)
  return join(folder, name)
}

const STAGING = "{ loss: crossEntropy, optimizer: sgd({ lr: 0.01, momentum: 0.9 }), budget: mib(96), algorithms: 'fixed' }"
const training = (imports: string): string =>
  `${imports}
train(net, stage(net, ${STAGING}), { steps: 2 }).then(({ losses }) => console.log(JSON.stringify(losses)))\n`
const NAMES = 'crossEntropy, mib, sgd, stage, train'
const NET = "const net = model([1, 3, 64, 64], seq(conv2d('a', 8, 3), relu(), globalAvgPool('p'), linear('h', 10)))"
const SCRIPTS: Readonly<Record<string, string>> = {
  'script.cjs': training(`const { conv2d, globalAvgPool, linear, model, relu, seq, ${NAMES} } = require('spillway')\n${NET}`),
  'script.mjs': training(`import { conv2d, globalAvgPool, linear, model, relu, seq, ${NAMES} } from 'spillway'\n${NET}`),
}

/** One compiler's view of the README's model, in one way of finding modules. */
const COMPILERS = ['5.9', '7'] as const
const RESOLUTIONS: readonly (readonly string[])[] = [
  ['--module', 'node16'],
  ['--module', 'nodenext'],
  ['--module', 'esnext', '--moduleResolution', 'bundler'],
]

const inProject = (tarball: string, manager: string, type: 'commonjs' | 'module', claim: Claiming): void => {
  const folder = join(tarball, '..', `${manager}-${type}`)
  mkdirSync(folder)
  const run = say(folder)
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'empty', private: true, type }))
  const [command, ...args] = MANAGERS[manager]!
  const added = run(command!, ...args, tarball)
  const of = `${manager}, ${type}`
  claim('install', `${of}: the tarball installs`, added.code === 0, added.code === 0 ? {} : { said: added.err.slice(-500) })

  const [model = '', script = ''] = readmeBlocks()
  writeFileSync(join(folder, 'my-net.ts'), model)
  writeFileSync(join(folder, 'train.ts'), script)
  for (const [name, text] of Object.entries(SCRIPTS)) writeFileSync(join(folder, name), text)
  const spillway = join('node_modules', '.bin', 'spillway')
  const trained = run(spillway, 'train', 'my-net.ts', '--loss', 'cross-entropy', '--budget', '64MiB', '--steps', '2', '--json')
  const { losses = [] } = JSON.parse(trained.text || '{}') as { readonly losses?: readonly number[] }
  const isRight = losses.length === 2 && losses.every((loss) => loss > 0 && loss < 10)
  claim('install', `${of}: the README's model trains`, isRight, isRight ? { losses } : { said: trained.err.slice(-500) })

  const said = Object.keys(SCRIPTS).map((name) => run(process.execPath, name))
  const same = said.every((s) => s.code === 0 && s.text === said[0]!.text)
  claim('install', `${of}: scripts of both kinds train alike`, same, {
    losses: said.map((s) => s.text.trim() || s.err.slice(-300)),
  })
}

/** Both compilers beside the package, in a project whose own TypeScript is the newest. */
const typesIn = (folder: string, claim: Claiming): void => {
  const run = say(folder)
  for (const version of COMPILERS) {
    const added = run('npm', 'install', '--no-audit', '--no-fund', `typescript@${version}`, '@types/node@20')
    for (const resolution of RESOLUTIONS) {
      const options = ['--noEmit', '--strict', '--target', 'es2022', '--types', 'node', ...resolution]
      const checked = run(process.execPath, join('node_modules', 'typescript', 'bin', 'tsc'), ...options, 'train.ts')
      const words = checked.code === 0 ? {} : { said: `${added.err}${checked.text}`.slice(0, 500) }
      claim('install', `TypeScript ${version}, ${resolution.join(' ')}: the README's programs compile`, checked.code === 0, words)
    }
  }
  const loaded = run(join('node_modules', '.bin', 'spillway'), 'plan', 'my-net.ts', '--machine', 'v100-pcie-16g', '--json')
  claim(
    'install',
    'beside TypeScript 7: a model loads',
    loaded.code === 0,
    loaded.code === 0 ? {} : { said: loaded.err.slice(-500) },
  )
}

/** `managers`: those to install with, npm first. */
export const install = (claim: Claiming, managers: readonly string[] = Object.keys(MANAGERS)): void => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-install-'))
  try {
    const tarball = pack(folder)
    const { size } = statSync(tarball)
    claim('install', `the tarball is under ${MOST_BYTES / 1e6} MB`, size < MOST_BYTES, { bytes: size })
    for (const manager of managers) for (const type of ['commonjs', 'module'] as const) inProject(tarball, manager, type, claim)
    typesIn(join(folder, 'npm-commonjs'), claim)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
