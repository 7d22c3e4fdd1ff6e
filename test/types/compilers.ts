// `npm run check:types`: the DSL under both compilers, TypeScript 5.9 and the newest. In: the programs of test/types and the zoo. Out: each program's
// messages against the expected ones, and the cost of type-checking networks, above an empty program, against the ceilings of
// test/types/ceilings.json. Counts are exact (one checker, no threads), so their ceilings are tight; times are printed, and have none. `--update`
// rewrites the ceilings, `--only NAME …` checks these networks. A family without a ceiling and a ceiling without a network are wrong.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as ts from 'typescript'
import { type ZooNet, zooNets } from '../../src/zoo'
import { illegal, prelude, refusal } from './illegal'
import { illegalPlans, legalPlans, planPrelude } from './illegalplans'
import { legal } from './legal'
import { refusedPlan, sorted } from './refusal'

const root = join(__dirname, '../..')
const folder = join(root, 'build/types')
const ceilingsFile = join(root, 'test/types/ceilings.json')

const COMPILERS = ['typescript', 'typescript-newest'] as const
type Compiler = (typeof COMPILERS)[number]
const versionOf = (c: Compiler): string =>
  (JSON.parse(readFileSync(join(root, 'node_modules', c, 'package.json'), 'utf8')) as { readonly version: string }).version

const OPTIONS = [
  '--noEmit',
  '--strict',
  '--noUncheckedIndexedAccess',
  '--skipLibCheck',
  '--esModuleInterop',
  '--noErrorTruncation',
  '--target',
  'es2022',
  '--lib',
  'es2022',
  '--module',
  'node16',
  '--moduleResolution',
  'node16',
  '--types',
  'node',
  '--extendedDiagnostics',
]

/** Counts depend on the order of checks: the newest compiler runs with one thread. */
const threads = (c: Compiler): readonly string[] => (c === 'typescript' ? [] : ['--singleThreaded', '--ignoreConfig'])

const compile = (c: Compiler, files: readonly string[]): string =>
  spawnSync(process.execPath, [join(root, 'node_modules', c, 'bin/tsc'), ...OPTIONS, ...threads(c), ...files], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  }).stdout

const write = (name: string, text: string): string => {
  const file = join(folder, `${name}.ts`)
  writeFileSync(file, `${text}\nexport {}\n`)
  return file
}

// ---------------------------------------------------------------- programs and what is said of them

interface Case {
  readonly program: string
  readonly expected: readonly string[]
  readonly said: (error: string) => string
}
const asIs = (error: string): string => error
const cases: readonly Case[] = [
  ...illegal.map((c): Case => ({ program: prelude + c.program, expected: c.compiler ?? [refusal(c.says!)], said: asIs })),
  ...illegalPlans.map(
    (c): Case => ({ program: planPrelude + c.program, expected: c.compiler ?? [c.says!], said: c.compiler ? asIs : refusedPlan }),
  ),
  ...legal.map((c): Case => ({ program: prelude + c, expected: [], said: asIs })),
  ...legalPlans.map((c): Case => ({ program: planPrelude + c, expected: [], said: asIs })),
]

/** Errors by file; an indented line continues the one before it. */
const errorsOf = (output: string): ReadonlyMap<string, readonly string[]> => {
  const errors = new Map<string, string[]>()
  let last: string[] | undefined
  for (const line of output.split('\n')) {
    const m = /^(\S+?\.ts)\(\d+,\d+\): error TS\d+: (.*)$/.exec(line)
    if (m) {
      last = errors.get(m[1]!) ?? []
      errors.set(m[1]!, last)
      last.push(m[2]!)
    } else if (last && /^ {2}\S/.test(line)) last.push(`${last.pop()}\n${line}`)
    else if (last && /^ {4,}\S/.test(line)) last.push(`${last.pop()}\n${line}`)
    else last = undefined
  }
  return errors
}

const checkCases = (c: Compiler): number => {
  const files = cases.map((k, i) => write(`case${i}`, k.program))
  const errors = errorsOf(compile(c, files))
  const wrong = cases.filter((k, i) => {
    const said = (errors.get(`build/types/case${i}.ts`) ?? []).map(k.said)
    if (JSON.stringify(said.map(sorted)) === JSON.stringify(k.expected.map(sorted))) return false
    console.log(
      `  ${k.program.split('\n').slice(-3).join(' ')}\n    must say: ${k.expected.join(' | ') || 'nothing'}\n    says:     ${said.join(' | ') || 'nothing'}`,
    )
    return true
  })
  const refused = cases.filter((k) => k.expected.length > 0).length
  console.log(`${cases.length - wrong.length} of ${cases.length} programs as they must be (${refused} of them refused)`)
  return wrong.length
}

// ---------------------------------------------------------------- what the zoo costs

interface Cost {
  readonly instantiations: number
  readonly seconds: number
}
/** By compiler and network: the most instantiations. */
type Ceilings = Record<string, Record<string, number>>

/** Cost in a process of its own; for the newest compiler, which has no interface for programs. */
const costInProcess = (c: Compiler, file: string): Cost => {
  const output = compile(c, [file])
  const number = (what: string): number => Number(new RegExp(`^${what}:\\s+([\\d.]+)`, 'm').exec(output)?.[1] ?? Number.NaN)
  const cost = { instantiations: number('Instantiations'), seconds: number('Total time') }
  if (/error TS/.test(output) || !Number.isFinite(cost.instantiations)) throw new Error(`${file}:\n${output}`)
  return cost
}

/** Parsed files that all programs share: all but the programs themselves. Each program has its own checker, so counts are those of `tsc`. */
const parsed = new Map<string, ts.SourceFile | undefined>()

const hostOf = (options: ts.CompilerOptions, file: string): ts.CompilerHost => {
  const host = ts.createCompilerHost(options)
  const getSourceFile: ts.CompilerHost['getSourceFile'] = (name, ...rest) => {
    if (name === file) return host.getSourceFile(name, ...rest)
    if (!parsed.has(name)) parsed.set(name, host.getSourceFile(name, ...rest))
    return parsed.get(name)
  }
  return { ...host, getSourceFile }
}

/** Cost in this process, which parses the declarations once for all programs. The checks are those of `tsc`, in its order. */
const costHere = (file: string): Cost => {
  const { options } = ts.parseCommandLine([...OPTIONS])
  const program = ts.createProgram([file], options, hostOf(options, file)) as ts.Program & { getInstantiationCount(): number }
  const began = performance.now()
  const [error] = [
    ...program.getOptionsDiagnostics(),
    ...program.getSyntacticDiagnostics(),
    ...program.getGlobalDiagnostics(),
    ...program.getSemanticDiagnostics(),
  ]
  if (error) throw new Error(`${file}: ${ts.flattenDiagnosticMessageText(error.messageText, '\n')}`)
  return { instantiations: program.getInstantiationCount(), seconds: (performance.now() - began) / 1000 }
}

const costOf = (c: Compiler, name: string, text: string): Cost => {
  const file = write(name, text)
  return c === 'typescript' ? costHere(file) : costInProcess(c, file)
}

/** The families as their users would write them: sources over the package's declarations. */
const copyFamilies = (): void => {
  const models = join(root, 'models')
  for (const file of readdirSync(models))
    writeFileSync(join(folder, file), readFileSync(join(models, file), 'utf8').replaceAll("'../dsl'", "'spillway'"))
}

/** All that an editor asks for: shape, FT dimensions, bytes and parameters of the whole, and the names of its layers. */
const program = ({ family, place, input }: ZooNet): string => `import { type LayerNames, model } from 'spillway'
import family from './${family}'
export const net = model([${input.join(', ')}], family${place}.net)
export const names = (n: LayerNames<typeof net>): string => n
export const known: { output: readonly number[]; parameters: number; ft: readonly string[] } = net`

const checkZoo = (
  c: Compiler,
  ceilings: Ceilings,
  only: readonly string[],
): { readonly tooMuch: number; readonly costs: Record<string, number> } => {
  const costs: Record<string, number> = {}
  const empty = costOf(c, 'empty', '')
  let tooMuch = 0
  for (const z of zooNets) {
    if (only.length === 0 ? ceilings[c]?.[z.name] === undefined : !only.includes(z.name)) continue
    const whole = costOf(c, 'network', program(z))
    const [instantiations, seconds] = [whole.instantiations - empty.instantiations, whole.seconds - empty.seconds]
    const most = ceilings[c]?.[z.name]
    const over = most !== undefined && instantiations > most
    if (over) tooMuch++
    const words = most === undefined ? '  NO CEILING' : over ? `  above ${most}` : ''
    console.log(
      `${z.name.padEnd(26)} ${String(instantiations).padStart(8)} instantiations ${seconds.toFixed(2).padStart(6)} s${words}`,
    )
    costs[z.name] = Math.ceil((instantiations * 1.1) / 1000) * 1000
  }
  return { tooMuch, costs }
}

/** Families without a ceiling, and ceilings without a network, in words. */
const unmatched = (c: Compiler, ceilings: Ceilings): readonly string[] => {
  const ceiled = Object.keys(ceilings[c] ?? {})
  const families = new Set(zooNets.filter((z) => ceiled.includes(z.name)).map((z) => z.family))
  const without = [...new Set(zooNets.map((z) => z.family))].filter((f) => !families.has(f))
  return [
    ...without.map((f) => `no network of models/${f}.ts has a ceiling under ${c}: run with --update --only NAME`),
    ...ceiled
      .filter((n) => !zooNets.some((z) => z.name === n))
      .map((n) => `${n} has a ceiling under ${c} and is no network: delete it`),
  ]
}

/** Current declarations: those of set-up, without the addon. */
const compileDeclarations = (): Promise<void> =>
  (require('../../scripts/setup') as { setUpOrExit: (o: object) => Promise<void> }).setUpOrExit({ dev: true, addon: false })

const main = async (args: readonly string[]): Promise<number> => {
  await compileDeclarations()
  const update = args.includes('--update')
  const only = args.includes('--only') ? args.slice(args.indexOf('--only') + 1) : []
  const unknown = only.find((name) => !zooNets.some((z) => z.name === name))
  if (unknown !== undefined) throw new Error(`no network '${unknown}'`)
  const ceilings = JSON.parse(readFileSync(ceilingsFile, 'utf8')) as Ceilings
  const found: Ceilings = {}
  let wrong = 0
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  copyFamilies()
  for (const c of COMPILERS) {
    console.log(`\nTypeScript ${versionOf(c)}`)
    if (only.length === 0) wrong += checkCases(c)
    const { tooMuch, costs } = checkZoo(c, ceilings, only)
    found[c] = only.length === 0 ? costs : { ...ceilings[c], ...costs }
    if (!update) wrong += tooMuch
  }
  rmSync(folder, { recursive: true, force: true })
  if (update) writeFileSync(ceilingsFile, `${JSON.stringify(found, null, 2)}\n`)
  const strangers = only.length > 0 ? [] : COMPILERS.flatMap((c) => unmatched(c, update ? found : ceilings))
  for (const s of strangers) console.log(`\n${s}`)
  wrong += strangers.length
  console.log(wrong === 0 ? '\nall as it must be' : `\n${wrong} wrong`)
  return wrong === 0 ? 0 : 1
}

main(process.argv.slice(2)).then((code) => {
  process.exitCode = code
})
