// timeout 300
// The type errors of a model file beside the command that loads it: warnings with their places; their absence, slowness or presence changes neither
// the answer nor the exit code. A compiler of three lines replaces TypeScript if it is to be quick, slow or broken.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { fewOrAll } from '../../full'

const root = join(__dirname, '..', '..', '..')
const folder = mkdtempSync(join(tmpdir(), 'spillway-beside-'))
test.after(() => rmSync(folder, { recursive: true }))

const MODEL = `import { conv2d, globalAvgPool, linear, model, relu, seq } from 'spillway'
const label: string = 7
export default model([2, 3, 8, 8], seq(conv2d('a', 8, 3), relu(), globalAvgPool('p'), linear('h', 10)))
`
const FAULT = `console.log("../../../net.ts(2,7): error TS2322: Type 'number' is not assignable to type 'string'."); process.exitCode = 2\n`

interface Project {
  /** The text of its program tsc, or the name of a package of this repository; none where it has no TypeScript. */
  readonly compiler?: { readonly text: string } | { readonly from: string }
  readonly tsconfig?: false
  readonly version?: string
  readonly file?: string
}
const projectOf = ({ compiler, tsconfig, version = '5.9.3', file = 'net.ts' }: Project): string => {
  const project = mkdtempSync(join(folder, 'project-'))
  const typescript = join(project, 'node_modules', 'typescript')
  mkdirSync(join(project, 'node_modules'))
  if (compiler && 'from' in compiler) symlinkSync(join(root, 'node_modules', compiler.from), typescript)
  else if (compiler) {
    mkdirSync(join(typescript, 'bin'), { recursive: true })
    writeFileSync(join(typescript, 'package.json'), JSON.stringify({ name: 'typescript', version }))
    writeFileSync(join(typescript, 'bin', 'tsc'), compiler.text)
  }
  if (tsconfig !== false)
    writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions: { strict: true, module: 'nodenext' } }))
  writeFileSync(join(project, file), MODEL)
  return project
}

interface Said {
  readonly code: number | null
  readonly out: string
  readonly err: string
}
const spillwayIn = (cwd: string, ...args: readonly string[]): Said => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(root, 'scripts', 'spillway.js'), ...args], {
    cwd,
    encoding: 'utf8',
  })
  return { code: status, out: stdout, err: stderr }
}
const trainFor = (steps: number): readonly string[] => [
  'train',
  'net.ts',
  '--steps',
  `${steps}`,
  '--algorithms',
  'fixed',
  '--device',
  'ref',
]
const TRAIN = trainFor(2)
/** Some seconds, enough for a compiler's answer on a busy machine, too. */
const LONG = trainFor(3000)
const WARNED =
  /warning: the type check of the model file reports:\nnet\.ts:2:7: Type 'number' is not assignable to type 'string'\. \(TS2322\)\n/

test('a type error is printed on stderr with its place, and the command continues', () => {
  const project = projectOf({ compiler: { text: FAULT } })
  const { code, out, err } = spillwayIn(project, ...LONG, '--json')
  assert.is(code, 0, err)
  assert.match(err, WARNED)
  assert.is((JSON.parse(out) as { readonly model: string }).model, 'net')
  assert.equal(readdirSync(join(project, 'node_modules', '.cache', 'spillway')), [], 'nothing is left')
})

test("a project's own compiler is asked: what it says stands there in its words", () => {
  const { code, err } = spillwayIn(projectOf({ compiler: { from: 'typescript-newest' } }), ...TRAIN)
  assert.is(code, 0, err)
  if (err !== '') assert.match(err, WARNED)
})

test('a type check without an answer is not waited for, and leaves no process', () => {
  const project = projectOf({ compiler: { text: 'setTimeout(() => {}, 3_600_000)\n' } })
  const { code, err } = spillwayIn(project, ...TRAIN)
  assert.equal([code, err], [0, ''])
  assert.equal(readdirSync(join(project, 'node_modules', '.cache', 'spillway')), [])
})

test('a killed command leaves no compiler running', async () => {
  const project = projectOf({ compiler: { text: "require('fs').writeFileSync('pid', String(process.pid)); for (;;);\n" } })
  const child = spawn(process.execPath, [join(root, 'scripts', 'spillway.js'), ...LONG], { cwd: project, stdio: 'ignore' })
  const told = join(project, 'node_modules', '.cache', 'spillway', 'pid')
  // The limit of the file ends a wait without end.
  const until = async (done: () => boolean): Promise<void> => {
    while (!done()) await new Promise((r) => setTimeout(r, 50))
  }
  /** A process may end between any two calls. */
  const runs = (pid: number): boolean => {
    try {
      return !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
    } catch {
      return false
    }
  }
  await until(() => existsSync(told) && readFileSync(told, 'utf8') !== '')
  const compiler = Number(readFileSync(told, 'utf8'))
  child.kill('SIGKILL')
  await until(() => !runs(compiler))
})

test('a command that fails prints its own error', () => {
  const { code, err } = spillwayIn(
    projectOf({ compiler: { text: FAULT } }),
    ...TRAIN,
    '--budget',
    '1MiB',
    '--strategy',
    'in-core',
  )
  assert.is(code, 3)
  assert.match(err, /no plan of strategy 'in-core' fits 1\.00 MiB/)
})

const SILENT: readonly (readonly [why: string, project: Project])[] = [
  ['nothing is wrong', { compiler: { text: '' } }],
  ['the compiler breaks', { compiler: { text: "throw new Error('broken')\n" } }],
  ['there is no tsconfig', { compiler: { text: FAULT }, tsconfig: false }],
  ['there is no TypeScript', {}],
  ['the TypeScript is too old', { compiler: { text: FAULT }, version: '5.8.3' }],
]
for (const [why, project] of fewOrAll(SILENT.slice(0, 2), SILENT))
  test(`silence: ${why}`, () => {
    const { code, err } = spillwayIn(projectOf(project), ...TRAIN)
    assert.equal([code, err], [0, ''])
  })

test.run()
