// The native code under sanitizers. In: `address` (ASan and UBSan), `thread` (TSan, on the null and ref devices), `fuzz [N]`
// (N damaged tapes under ASan and UBSan) or `zoo [WORD]` (a training of each family whose name holds WORD, on the cuda device and an imitated
// CUDA, under TSan). Out: exit code 0 if the build is clean and every test passes.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')

const ROOT = path.dirname(__dirname)

const testsWhere = (wanted) =>
  fs
    .readdirSync(path.join(ROOT, 'test', 'native'))
    .filter((name) => name.endsWith('.cpp') && wanted(name))
    .map((name) => `run_${path.basename(name, '.cpp')}`)

/** Sanitizers make compilation several times as long: sources are compiled together (native/joined.cmake). */
const JOINED = '-DSPILLWAY_JOINED=ON'

/** TSan does not understand OpenMP's barriers, so the threads build leaves the cpu device out; the other kernels have no threads. */
const BUILDS = {
  address: { folder: 'build/asan', options: ['-DSPILLWAY_SANITIZE=address', JOINED], targets: () => testsWhere(() => true) },
  thread: {
    folder: 'build/tsan',
    options: ['-DSPILLWAY_SANITIZE=thread', '-DSPILLWAY_CPU=OFF', JOINED],
    targets: () => testsWhere((name) => !name.startsWith('kernels')),
  },
}

/** Leaks inside the OpenMP runtime and oneDNN are not ours; everything else counts. */
const ENV = {
  ASAN_OPTIONS: 'detect_leaks=1:abort_on_error=1:strict_string_checks=1',
  UBSAN_OPTIONS: 'halt_on_error=1:print_stacktrace=1',
  TSAN_OPTIONS: 'halt_on_error=1:second_deadlock_stack=1',
}

const run = (program, args) => {
  console.log(`$ ${program} ${args.join(' ')}`)
  const { status, signal, error } = spawnSync(program, args, { cwd: ROOT, stdio: 'inherit', env: { ...process.env, ...ENV } })
  if (status === 0) return
  console.error(`${program} failed: ${error?.message ?? signal ?? `exit ${status}`}`)
  process.exit(1)
}

const build = ({ folder, options }, targets) => {
  run('cmake', ['-S', 'native', '-B', folder, '-G', 'Unix Makefiles', '-DCMAKE_BUILD_TYPE=Release', ...options])
  const jobs = String(Math.min(2, os.availableParallelism()))
  // -k: the failure of one program does not hide those of the others.
  run('cmake', ['--build', folder, '--parallel', jobs, '--target', ...targets, '--', '-k'])
}

const FUZZED = '100000'

const fuzz = (count = FUZZED) => {
  build(BUILDS.address, ['fuzz_tape'])
  const folder = path.join('build', 'tapes')
  fs.rmSync(path.join(ROOT, folder), { recursive: true, force: true })
  run(process.execPath, ['-r', require.resolve('./testing/typescript'), path.join('scripts', 'write-tapes.ts'), folder])
  const tapes = fs.readdirSync(path.join(ROOT, folder)).map((name) => path.join(folder, name))
  run(path.join(BUILDS.address.folder, 'fuzz_tape'), [count, '1', ...tapes])
}

/** The first two steps run call by call, the next are graphs, one for each input buffer. */
const ZOO_STEPS = '4'
/** Less than a swapped training puts aside: the rest goes through a thread to a file. */
const HOST_BYTES = String(2 ** 20)

const trained = (tape, spill) => {
  const args = [tape, '--device', 'cuda', '--steps', ZOO_STEPS, '--spill', spill, '--host-memory', HOST_BYTES]
  const library = path.join(ROOT, BUILDS.thread.folder, 'spillway_host_cuda.so')
  const { status, signal, stdout, stderr } = spawnSync(path.join(ROOT, BUILDS.thread.folder, 'runplan'), args, {
    encoding: 'utf8',
    env: { ...process.env, ...ENV, SPILLWAY_CUDA: library },
  })
  const losses = [...stdout.matchAll(/loss ([^,]+)/g)].map(([, loss]) => loss)
  const moved = [...stdout.matchAll(/, out (\d+)/g)].reduce((n, [, bytes]) => n + Number(bytes), 0)
  if (status === 0 && losses.length === Number(ZOO_STEPS)) return { losses: losses.join(' '), moved }
  console.error(`${path.basename(tape)} failed: ${signal ?? `exit ${status}`}\n${stdout}${stderr}`)
  process.exit(1)
}

/** Each family in-core and swapped: no race, and the same losses, digit by digit. */
const zoo = (word = '') => {
  const folder = path.join(ROOT, 'build', 'zoo-tapes')
  fs.rmSync(folder, { recursive: true, force: true })
  run(process.execPath, ['-r', require.resolve('./testing/typescript'), path.join('scripts', 'cuda', 'tapes.ts'), folder, word])
  const tapes = fs.existsSync(folder) ? fs.readdirSync(folder) : []
  if (tapes.length === 0) return
  build(BUILDS.thread, ['runplan', 'spillway_host_cuda'])
  const spill = fs.mkdtempSync(path.join(os.tmpdir(), 'spillway-zoo-'))
  process.on('exit', () => fs.rmSync(spill, { recursive: true, force: true }))
  const families = [...new Set(tapes.map((file) => file.split('.')[0]))]
  const moving = families.filter((family) => {
    const began = Date.now()
    const [inCore, swapped] = ['in-core', 'swapped'].map((how) => trained(path.join(folder, `${family}.${how}.tape`), spill))
    console.log(`${family}: ${swapped.moved} bytes moved, ${((Date.now() - began) / 1000).toFixed(0)} s`)
    if (inCore.losses !== swapped.losses) {
      console.error(`${family}: in-core ${inCore.losses}, swapped ${swapped.losses}`)
      process.exit(1)
    }
    return swapped.moved > 0
  })
  // If nearly all bytes are parameters, as in alexnet, no move pays.
  if (word !== '' || moving.length * 2 > families.length) return
  console.error(`of ${families.length} trainings ${moving.length} move values`)
  process.exit(1)
}

const main = (mode, count) => {
  if (mode === 'zoo') return zoo(count)
  if (mode === 'fuzz') return fuzz(count)
  if (mode in BUILDS) return build(BUILDS[mode], BUILDS[mode].targets())
  console.error(`check-native: '${mode}' is none of address, thread, fuzz, zoo`)
  process.exit(2)
}

main(process.argv[2] ?? '', process.argv[3])
