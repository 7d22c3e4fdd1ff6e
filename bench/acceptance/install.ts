// The package for a user. In: the result of `npm pack`, and the README. Out: claims: installed into an empty project by each package manager, the
// README's model trains from the command line, and a script of either kind of module trains to the same losses; then every cell of docs/modules.md,
// and Debian 13 in a root of its own. Invariant: projects are outside the checkout and know only the tarball of it; one cache of addons serves them
// all.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { templateNames } from '../../src/cli/templates'
import type { Claiming } from './claims'
import { compilersIn, KINDS, type Kind, modelsIn, type Say, scriptsIn, toolsIn } from './modules'
import { PLATFORM_TARBALL, prebuiltIn } from './prebuilt'

const ROOT = join(__dirname, '../..')
const MOST_BYTES = 3e6
/** The package with its dependencies. */
const MOST_INSTALLED_BYTES = 30e6

const bytesUnder = (folder: string): number =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0)

/** How each manager, of the version that is named, adds a file to a project. */
const MANAGERS: Readonly<Record<string, readonly string[]>> = {
  npm: ['npm', 'install', '--no-audit', '--no-fund'],
  pnpm: ['npx', '--yes', 'pnpm@9', 'add'],
  yarn: ['npx', '--yes', 'yarn@1', 'add', '--silent'],
}

const say =
  (folder: string, more: Readonly<Record<string, string>> = {}): Say =>
  (command, ...args) => {
    const env = { ...process.env, XDG_CACHE_HOME: join(folder, '..', 'cache'), ...more }
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

/** The losses of the scripts, as printed. */
const inProject = (tarball: string, manager: string, type: Kind, claim: Claiming): string => {
  const folder = join(tarball, '..', `${manager}-${type}`)
  mkdirSync(folder)
  const run = say(folder)
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'empty', private: true, type }))
  const [command, ...args] = MANAGERS[manager]!
  const added = run(command!, ...args, tarball)
  const of = `${manager}, ${type}`
  claim('install', `${of}: the tarball installs`, added.code === 0, added.code === 0 ? {} : { said: added.err.slice(-500) })
  if (manager === 'npm') {
    const bytes = bytesUnder(join(folder, 'node_modules'))
    claim('install', `${of}: all installed files together are under 30 MB`, bytes < MOST_INSTALLED_BYTES, { bytes })
  }

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
  return said[0]!.text.trim()
}

/** A project of each template: made by the installed command, which names the tarball as its dependency. */
const templatesIn = (project: string, claim: Claiming): void => {
  for (const template of templateNames) {
    const made = say(project)(join('node_modules', '.bin', 'spillway'), 'new', template, '--template', template)
    const run = say(join(project, template), { EPOCHS: '1' })
    const added = made.code === 0 ? run('npm', 'install', '--no-audit', '--no-fund') : made
    const trained = added.code === 0 ? run('npm', 'run', '-s', 'train') : added
    const holds = trained.code === 0 && existsSync(join(project, template, 'weights.safetensors'))
    claim('install', `template ${template}: the project trains`, holds, holds ? {} : { said: trained.err.slice(-500) })
  }
}

/** The README's script as it stands, beside its model. */
const readmeScript = (folder: string, tools: string, claim: Claiming): void => {
  const { code, text, err } = say(folder)(join(tools, 'node_modules', '.bin', 'tsx'), 'train.ts')
  const losses = /\[\s*([\d.,\se-]+)\]/.exec(text)?.[1]?.split(',').map(Number) ?? []
  const isRight = code === 0 && losses.length === 20 && losses[0]! > 0 && losses[0]! < 10 && losses[19]! < losses[0]!
  claim(
    'install',
    "the README's script trains",
    isRight,
    isRight ? { losses: losses.length } : { said: `${text}${err}`.slice(-500) },
  )
}

/** A clone of the last commit: its own Node, its oneDNN, set-up, `npm start`, `npm test`. */
const debian13 = (claim: Claiming): void => {
  const { code, text, err } = say(ROOT)(process.execPath, 'scripts/debian.js', 'trixie')
  const skipped = /^skipped: (.*)$/m.exec(text)?.[1]
  if (skipped !== undefined) {
    console.log(`skips  install: Debian 13: ${skipped}`)
    return
  }
  const did = [...text.matchAll(/^== (npm (?:start|test)): ok/gm)].map((found) => found[1])
  const [counts] = /^\d+ passed, \d+ failed.*$/m.exec(text) ?? []
  const holds = code === 0 && did.length === 2 && counts !== undefined
  claim('install', 'Debian 13: npm start, npm test', holds, holds ? { counts } : { said: `${text}${err}`.slice(-2000) })
}

const withPacked = (use: (folder: string, tarball: string) => void): void => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-install-'))
  try {
    use(folder, pack(folder))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** `managers`: those to install with, npm first. */
export const install = (claim: Claiming, managers: readonly string[] = Object.keys(MANAGERS)): void => {
  withPacked((folder, tarball) => {
    const { size } = statSync(tarball)
    claim('install', `the tarball is under ${MOST_BYTES / 1e6} MB`, size < MOST_BYTES, { bytes: size })
    const tools = toolsIn(say(folder), join(folder, 'tools'))
    for (const manager of managers)
      for (const kind of KINDS) {
        const losses = inProject(tarball, manager, kind, claim)
        if (manager !== managers[0]) continue
        const project = join(folder, `${manager}-${kind}`)
        modelsIn(say(project), project, kind, claim)
        scriptsIn(say(project), project, kind, tools, { staging: STAGING, losses }, claim)
      }
    const first = join(folder, `${managers[0]}-${KINDS[0]}`)
    readmeScript(first, tools, claim)
    templatesIn(first, claim)
    compilersIn(say(first), first, ['train.ts'], claim)
    modelsIn(say(first), first, KINDS[0]!, (section, what, ...rest) => claim(section, `beside TypeScript 7: ${what}`, ...rest))
  })
  debian13(claim)
}

/** With the platform package that `npm run prebuilt` made. */
export const prebuilt = (claim: Claiming): void =>
  withPacked((folder, tarball) => prebuiltIn(folder, tarball, readmeBlocks()[0] ?? '', say, claim))

/** A user's way to a GPU on a fresh Debian 12 without compiler, Python or GPU: the packages, then `spillway setup cuda`. */
export const cuda = (claim: Claiming): void =>
  withPacked((_, tarball) => {
    if (!existsSync(PLATFORM_TARBALL))
      return claim('cuda', 'there is a platform package', false, { said: `npm run prebuilt -- ${process.arch} makes it` })
    const { code, text, err } = say(ROOT)(
      process.execPath,
      'scripts/debian.js',
      'bookworm',
      '--install',
      tarball,
      PLATFORM_TARBALL,
    )
    const skipped = /^skipped: (.*)$/m.exec(text)?.[1]
    if (skipped !== undefined) return console.log(`skips  cuda: ${skipped}`)
    const tail = { said: `${text}${err}`.slice(-2000) }
    claim('cuda', 'the packages install, and setup cuda ends well', code === 0, code === 0 ? {} : tail)
    const dry = /^== setup cuda --dry-run\n([\s\S]*?)^== setup cuda --dry-run: ok/m.exec(text)?.[1] ?? ''
    const saysSize = /[\d.]+ GB to fetch, [\d.]+ GB of disk/.exec(dry)?.[0]
    claim('cuda', '--dry-run says the size and changes nothing', saysSize !== undefined && dry.includes('Nothing was changed.'), {
      said: saysSize ?? dry.slice(-500),
    })
    const lines = ['driver', 'cuDNN', 'cuBLAS'].map((name) => new RegExp(`^  (\\w+) +${name} +(.*)$`, 'm').exec(text))
    const found = lines.map((line) => `${line?.[1]} ${line?.[2]}`.replace(/\S+\/\.cache/, '~/.cache'))
    const holds = /no GPU/.test(found[0]!) && found.slice(1).every((words) => /^ok .*\/\.cache\/spillway\/cuda\//.test(words))
    claim('cuda', 'doctor finds the libraries, and no GPU', holds, holds ? { found } : { found, ...tail })
  })
