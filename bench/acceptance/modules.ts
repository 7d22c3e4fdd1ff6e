// Kinds of module, and their runners, beside the installed package. In: a project of each kind, and its losses. Out: a claim for each cell of the
// table in docs/modules.md: model files that the tool loads and checks, scripts that a runner of TypeScript runs to the same losses, declarations of
// the whole API by a compiler. Invariant: no cell is left out because it would fail.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Claiming } from './claims'

export type Kind = 'commonjs' | 'module'
export const KINDS: readonly Kind[] = ['commonjs', 'module']

interface Said {
  readonly code: number
  readonly text: string
  readonly err: string
}
export type Say = (command: string, ...args: readonly string[]) => Said

const LAYERS = 'conv2d, globalAvgPool, linear, model, relu, seq'
const NET = "model([1, 3, 64, 64], seq(conv2d('a', 8, 3), relu(), globalAvgPool('p'), linear('h', 10)))"
const AS_MODULE = `import { ${LAYERS} } from 'spillway'\nexport default ${NET}\n`
const AS_COMMONJS = `const { ${LAYERS} } = require('spillway')\nmodule.exports = ${NET}\n`

/** Model files that the command line takes, in a project of either kind. */
const modelFiles = (kind: Kind): Readonly<Record<string, string>> => ({
  ...Object.fromEntries(['ts', 'mts', 'cts', 'mjs'].map((extension) => [`net.${extension}`, AS_MODULE])),
  'net.js': kind === 'module' ? AS_MODULE : AS_COMMONJS,
  'net.cjs': AS_COMMONJS,
})

const SIMULATED = ['--machine', 'v100-pcie-16g', '--json']

/** The project gets a compiler if it has none: only `check` needs one. */
export const modelsIn = (run: Say, folder: string, kind: Kind, claim: Claiming): void => {
  if (!existsSync(join(folder, 'node_modules', 'typescript'))) {
    writeFileSync(join(folder, 'net.ts'), AS_MODULE)
    const { code, err } = run(join('node_modules', '.bin', 'spillway'), 'check', 'net.ts')
    claim(
      'install',
      `${kind}: check names the missing compiler`,
      code === 2 && err.includes('npm install --save-dev typescript'),
      { said: err.slice(-300) },
    )
    run('npm', 'install', '--no-audit', '--no-fund', '--save-dev', 'typescript@5.9')
  }
  for (const [name, text] of Object.entries(modelFiles(kind))) {
    writeFileSync(join(folder, name), text)
    const [planned, checked] = [
      run(join('node_modules', '.bin', 'spillway'), 'plan', name, ...SIMULATED),
      run(join('node_modules', '.bin', 'spillway'), 'check', name, ...SIMULATED),
    ]
    const holds = planned.code === 0 && checked.code === 0 && JSON.parse(planned.text).parameters === 8 * 27 + 8 + 80 + 10
    claim('install', `${kind}: ${name} is a model`, holds, holds ? {} : { said: `${planned.err}${checked.err}`.slice(-500) })
  }
}

// ---------------------------------------------------------------- runners

/** The same script as of the other cells; TypeScript that says so, in the words of ES modules. */
export const script = (losses: string): string => `import { ${LAYERS}, crossEntropy, mib, sgd, stage, train } from 'spillway'
const net = ${NET}
const plan = stage(net, ${losses})
const print = (losses: readonly number[]): void => console.log(JSON.stringify(losses))
train(net, plan, { steps: 2 }).then(({ losses }) => print(losses))
`

interface Runner {
  readonly name: string
  readonly of: Readonly<Record<Kind, readonly string[]>>
  readonly command: (tools: string, file: string) => readonly string[]
}

/** Newer ones than the tool needs: they take JavaScript as it does, and strip types. */
const NODES = [22, 24]
const nodeIn = (tools: string, version: number): string => join(tools, `node-${version}`)

const bin = (tools: string, name: string): string => join(tools, 'node_modules', '.bin', name)
const ALL = ['ts', 'mts', 'cts']
const RUNNERS: readonly Runner[] = [
  {
    name: 'ts-node with TypeScript 5.9',
    // It hooks require; in a project of ES modules Node asks elsewhere.
    of: { commonjs: ['ts', 'cts'], module: [] },
    command: (tools, file) => {
      const compiler = join(tools, 'node_modules', 'typescript')
      return [bin(tools, 'ts-node'), '--compiler', compiler, '--compilerOptions', '{"module":"commonjs"}', file]
    },
  },
  {
    name: 'Deno',
    // Deno takes every .ts and .mts file as an ES module.
    of: { commonjs: ['ts', 'mts'], module: ['ts', 'mts'] },
    command: (tools, file) => [bin(tools, 'deno'), 'run', '--allow-all', file],
  },
  { name: 'tsx', of: { commonjs: ALL, module: ALL }, command: (tools, file) => [bin(tools, 'tsx'), file] },
  ...NODES.map(
    (version): Runner => ({
      name: `Node ${version}`,
      // Code that Node takes for CommonJS must be so without translation, so it has no import.
      of: { commonjs: ['cjs', 'mjs', 'mts'], module: ['cjs', 'mjs', 'ts', 'mts'] },
      command: (tools, file) => [bin(nodeIn(tools, version), 'node'), file],
    }),
  ),
]
const TOOLS = ['typescript@5.9', 'ts-node@10', 'tsx@4', 'deno@2', '@types/node@20']

const packagesIn = (run: Say, folder: string, packages: readonly string[]): void => {
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ name: 'tools', private: true }))
  const { code, err } = run('npm', 'install', '--no-audit', '--no-fund', '--prefix', folder, ...packages)
  if (code !== 0) throw new Error(err)
}

/** The runners, in folders of their own: a project's installed packages stay unchanged. */
export const toolsIn = (run: Say, folder: string): string => {
  packagesIn(run, folder, TOOLS)
  for (const version of NODES) packagesIn(run, nodeIn(folder, version), [`node@${version}`])
  return folder
}

export const scriptsIn = (
  run: Say,
  folder: string,
  kind: Kind,
  tools: string,
  told: { readonly staging: string; readonly losses: string },
  claim: Claiming,
): void => {
  for (const extension of ALL) writeFileSync(join(folder, `script.${extension}`), script(told.staging))
  for (const { name, of, command } of RUNNERS)
    for (const extension of of[kind]) {
      const [program = '', ...args] = command(tools, `script.${extension}`)
      const { text, err } = run(program, ...args)
      const same = text.trim() === told.losses
      claim('install', `${kind}: ${name} runs .${extension}`, same, same ? {} : { said: `${text}${err}`.slice(-500) })
    }
}

// ---------------------------------------------------------------- declarations

const DECLARED = readFileSync(join(__dirname, 'declared.ts'), 'utf8')
const MODERN = [
  ['--module', 'node16'],
  ['--module', 'nodenext'],
  ['--module', 'esnext', '--moduleResolution', 'bundler'],
]
const RESOLUTIONS: readonly (readonly [version: string, resolutions: readonly (readonly string[])[]])[] = [
  ['5.9', [['--module', 'commonjs', '--moduleResolution', 'node10'], ...MODERN]],
  ['7', MODERN],
]

/** Both compilers beside the package, one after the other: the last one stays. */
export const compilersIn = (run: Say, folder: string, programs: readonly string[], claim: Claiming): void => {
  writeFileSync(join(folder, 'declared.ts'), DECLARED)
  for (const [version, resolutions] of RESOLUTIONS) {
    const added = run('npm', 'install', '--no-audit', '--no-fund', `typescript@${version}`, '@types/node@20')
    const claimed = (what: string, options: readonly string[], file: string): void => {
      const usual = ['--strict', '--target', 'es2022', '--types', 'node']
      const { code, text } = run(process.execPath, join('node_modules', 'typescript', 'bin', 'tsc'), ...usual, ...options, file)
      claim('install', what, code === 0, code === 0 ? {} : { said: `${added.err}${text}`.slice(0, 500) })
    }
    for (const resolution of resolutions) {
      const of = `TypeScript ${version}, ${resolution.slice(1).join(' ')}`
      for (const file of programs) claimed(`${of}: the README's ${file} compiles`, ['--noEmit', ...resolution], file)
      const declaring = ['--declaration', '--emitDeclarationOnly', '--outDir', 'declared', ...resolution]
      claimed(`${of}: declarations can be written of what the API gives`, declaring, 'declared.ts')
    }
  }
}
