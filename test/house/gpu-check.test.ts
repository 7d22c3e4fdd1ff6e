// timeout 900
// What a GPU box runs from its bundle, rehearsed in the checkout: every section on the cuda device's own sources and an imitated CUDA
// (test/native/host_cuda), or, where its headers are not and with SPILLWAY_FULL=1, on the plugin that imitates a GPU; what sections leave
// behind, and what is written when time runs out.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { addonFile } from '../../src/device/native'
import { FULL, fewOrAll, fullTest, gateTest } from '../full'

const { nativeLibrary } = require('../../scripts/testing/native') as {
  readonly nativeLibrary: (root: string, target: string) => Promise<string | null>
}
const ROOT = join(__dirname, '..', '..')
const root = mkdtempSync(join(tmpdir(), 'spillway-gpu-check-'))
test.after(() => rmSync(root, { recursive: true }))

interface Left {
  readonly imitated: boolean
  readonly conformanceFailures: number | null
  readonly checks: readonly {
    readonly section: string
    readonly what: string
    readonly holds: boolean
    readonly words?: readonly string[]
  }[]
  readonly cases: readonly {
    readonly name: string
    readonly secondsPerStep?: number
    readonly peakBytes?: number
    readonly bytesOut?: number
    readonly deviceMemory?: { readonly poolBytes: number; readonly ofProcess: boolean }
    readonly peer?: { readonly error?: string; readonly device?: string }
  }[]
  readonly sectionSeconds: Readonly<Record<string, number>>
  readonly sections: Readonly<
    Record<
      string,
      { readonly wanted: number; readonly given: number; readonly took: number; readonly skipped: readonly string[] }
    >
  >
  readonly skipped: readonly string[]
}

const rehearsed = (seconds: number, sections: readonly string[], on: Readonly<Record<string, string>> = {}) => {
  const out = mkdtempSync(join(root, 'out-'))
  const env = {
    ...process.env,
    SPILLWAY_GPU_IMITATED: '1',
    SPILLWAY_GPU_SECONDS: String(seconds),
    SPILLWAY_GPU_STARTED: String(Date.now() / 1000),
    XDG_CACHE_HOME: join(root, 'cache'),
    SPILLWAY_CUDA: join(dirname(addonFile()!), 'spillway_imitation.so'),
    ...on,
  }
  const r = spawnSync(process.execPath, [join(ROOT, 'scripts', 'gpu', 'check.js'), out, ...sections], { encoding: 'utf8', env })
  return { ...r, files: readdirSync(out), read: (file: string) => readFileSync(join(out, file), 'utf8') }
}
const leftBy = (r: ReturnType<typeof rehearsed>): Left => JSON.parse(r.read('gpu.json')) as Left

test('an unknown section is refused with the list of sections', () => {
  const r = rehearsed(60, ['speed'])
  assert.is(r.status, 2)
  assert.match(
    r.stderr,
    /no section speed; there are: conformance, identity, ways, faults, ranks, sanitizer, incore, incoremore, outofcore, large/,
  )
})

test('--list prints the seconds of each section, within a call of ten minutes, and writes nothing', () => {
  const folder = mkdtempSync(join(root, 'list-'))
  const listed = (arg: string) =>
    spawnSync(process.execPath, [join(ROOT, 'scripts', 'gpu', 'check.js'), arg], { encoding: 'utf8', cwd: folder })
  const sections = listed('--list').stdout.trim().split('\n')
  assert.is(sections.length, 18)
  for (const line of sections) assert.ok(Number(/^\w+ (\d+) s$/.exec(line)?.[1]) <= 520, line)
  const wrong = listed('--lists')
  assert.is(wrong.status, 2)
  assert.match(wrong.stderr, 'the first argument must be the folder for the results, or --list; found --lists')
  assert.equal(readdirSync(folder), [])
})

/** Their time depends on the machine: a minute or two if nothing else runs. */
const PATIENT = 600

const ALL = ['conformance', 'identity', 'ways', 'faults', 'ranks', 'sanitizer', 'incore', 'incoremore', 'outofcore', 'large']
/** Other sections train as these do, on other sizes and budgets; test/e2e/cuda-ways.test.ts and cuda-host.test.ts have the same bits. */
const SECTIONS = fewOrAll(['conformance', 'faults', 'ranks', 'sanitizer', 'incore'], ALL)
const PROOF = ['smoke', 'plans', 'digests', 'swapped', 'peers', 'swappedmore', 'beyond', 'memcheck']
const TESTS = join(ROOT, 'build', 'addon', 'tests')

/** PyTorch may be on this machine. */
const leftOut = ({ skipped }: Left): readonly string[] => skipped.filter((what) => !what.endsWith('no time of PyTorch beside it'))

const everySectionRan = (r: ReturnType<typeof rehearsed>): Left => {
  assert.is(r.status, 0, r.stdout + r.stderr)
  const left = leftBy(r)
  assert.equal([left.imitated, Object.keys(left.sections), left.conformanceFailures], [true, SECTIONS, 0])
  const checked = new Set(left.checks.map((c) => c.section))
  for (const section of fewOrAll(
    ['conformance', 'faults', 'sanitizer'],
    ['conformance', 'identity', 'ways', 'faults', 'sanitizer'],
  ))
    assert.ok(checked.has(section), r.stdout)
  for (const c of left.cases) assert.ok(c.secondsPerStep! > 0 && c.peakBytes! > 0, JSON.stringify(c))
  const named = (part: string) => left.cases.filter((c) => c.name.includes(part))
  if (FULL) {
    assert.equal([named('fp32 auto').length, named('in 10 MiB').length, named('bf16').length], [1, 1, 1], r.stdout)
    assert.ok(named('swap:window')[0]!.bytesOut! > 0, r.stdout)
  }
  const [one] = named('small b2@24 tf32')
  assert.ok(one!.peer?.error || one!.peer?.device === 'cpu', 'PyTorch is not here, or finds no GPU, and says so')
  if (one!.peer?.error) assert.ok(left.skipped.includes(`${one!.name}: no time of PyTorch beside it`), left.skipped.join())
  assert.match(r.read('small_b2_24_tf32.svg'), /^<svg .*<circle/)
  assert.match(r.read('runs.log'), /(\d+) fault: after: .* train .*\n\1 fault: after: = 0 after/)
  assert.match(r.read('logs/001-conformance_fp32_1.out'), /\d+ passed, 0 failed/)
  assert.ok(Object.values(left.sections).every((o) => o.given > 0))
  return left
}

const NO_CARD = 'faults: a card that another process holds: a rehearsal has no card'

gateTest("every section runs on the cuda device's own sources, and leaves its checks, cases, plots and logs", async () => {
  const library = await nativeLibrary(ROOT, 'spillway_host_cuda')
  if (library === null) return console.log('skipped: the headers of CUDA, cuDNN and cuBLAS are not here')
  await nativeLibrary(ROOT, 'kernels_cuda')
  const left = everySectionRan(rehearsed(PATIENT, SECTIONS, { SPILLWAY_GPU_TESTS: TESTS, SPILLWAY_CUDA: library }))
  assert.equal(leftOut(left), [NO_CARD, 'ranks: several GPUs: there is one here'])
  assert.ok(left.checks.some((c) => c.what === 'NCCL 2.32.3: one rank, which sends to itself'))
  assert.ok(left.cases.every((c) => c.deviceMemory!.ofProcess && c.deviceMemory!.poolBytes === c.peakBytes))
})

gateTest('every section runs on the plugin that imitates a GPU', async () => {
  if (!FULL && (await nativeLibrary(ROOT, 'spillway_host_cuda')) !== null) return
  await nativeLibrary(ROOT, 'kernels_cuda')
  const left = everySectionRan(rehearsed(PATIENT, SECTIONS, { SPILLWAY_GPU_TESTS: TESTS }))
  assert.equal(leftOut(left), [NO_CARD, 'ranks: on this device the host carries'])
})

gateTest('the proof runs to its end, and its rules judge every run', async () => {
  const library = (await nativeLibrary(ROOT, 'spillway_host_cuda')) ?? join(dirname(addonFile()!), 'spillway_imitation.so')
  const peer = `${process.execPath} scripts/gpu/fakepeer.js`
  const r = rehearsed(PATIENT, ['proof'], { SPILLWAY_CUDA: library, SPILLWAY_GPU_PEER: peer })
  assert.is(r.status, 0, r.stdout + r.stderr)
  const left = leftBy(r)
  assert.equal(Object.keys(left.sections), PROOF)
  assert.equal(left.skipped, [])
  const bits = left.checks.filter((c) => c.section === 'digests').map((c) => c.what)
  assert.equal(bits, ['swap: the same bits after 6 steps', '1/1.3: the same bits after 6 steps'])
  assert.is(left.checks.filter((c) => c.what.endsWith("the driver counts the plan's bytes")).length, 8)
  const rules = left.cases.filter((c) => c.name.startsWith('rule: ')).map((c) => c.name.slice(6))
  assert.is(rules.filter((name) => name.includes('predicted within')).length, 8)
  assert.ok(rules.includes('swapped: after measuring: predicted within 10 %'), rules.join())
  for (const mode of ['checkpoint:2', 'checkpoint:4', 'save_on_cpu', 'checkpoint:4+save_on_cpu', 'budget:0.5'])
    assert.ok(rules.includes(`peers: faster than ${mode} at its own peak`), mode)
  assert.ok(rules.some((name) => /^beyond: [\d.]+ times beyond memory$/.test(name)))
})

fullTest('the bundle has all files of the run, and the results are one file', () => {
  if (spawnSync('xz', ['--version']).error) return console.log('skipped: xz is not here')
  const [bundle, out] = [join(root, 'bundle.tar.xz'), join(root, 'box')]
  const env = {
    PATH: process.env['PATH'],
    SPILLWAY_GPU_IMITATED: '1',
    SPILLWAY_GPU_ONE_FILE: '1',
    XZ_OPT: '-0',
    SPILLWAY_GPU_WHERE: mkdtempSync(join(root, 'where-')),
  }
  const made = spawnSync('bash', [join(ROOT, 'scripts', 'gpu-bundle.sh'), bundle], { encoding: 'utf8', env })
  assert.is(made.status, 0, made.stdout + made.stderr)
  const ran = spawnSync('bash', [join(ROOT, 'scripts', 'gpu-check.sh'), bundle, out, 'faults'], {
    encoding: 'utf8',
    env,
    cwd: root,
  })
  assert.is(ran.status, 0, ran.stdout + ran.stderr)
  assert.equal(readdirSync(out).sort(), ['gpu.json', 'results.tar.xz', 'runs.log'])
  const left = JSON.parse(readFileSync(join(out, 'gpu.json'), 'utf8')) as Left
  assert.equal(
    left.checks.map((c) => [c.section, c.holds]),
    [['faults', true]],
  )
  const packed = spawnSync('tar', ['-tJf', join(out, 'results.tar.xz')], { encoding: 'utf8' }).stdout
  for (const file of ['./gpu.json', './device.json', './doctor.txt', './logs/001-fault_after.out'])
    assert.ok(packed.split('\n').includes(file), packed)
})

gateTest('failed parts are reported with the reason; the others are kept', () => {
  const r = rehearsed(240, ['conformance', 'faults'])
  const left = leftBy(r)
  assert.is(r.status, 1)
  assert.equal(
    [left.conformanceFailures, left.checks.map((c) => c.holds)],
    [6, [false, false, false, true]],
    'the test program is not in a checkout',
  )
  assert.match(left.checks[0]!.words![1]!, /part 2: spawn tests\/kernels_cuda ENOENT/)
})

test('parts that are skipped for lack of time are listed in gpu.json', () => {
  const r = rehearsed(1, [])
  assert.is(r.status, 0)
  assert.equal(leftBy(r).skipped, ALL)
})

test.run()
