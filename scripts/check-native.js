// The native code under sanitizers. In: `address` (ASan and UBSan), `thread` (TSan, on the null and ref devices) or
// `fuzz [N]` (so many damaged tapes under ASan and UBSan). Out: exit code 0 if the build is clean and every test passes.
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

/**
 * TSan does not understand OpenMP's barriers, so the threads build leaves the cpu device out; what is left of the kernels
 * has no threads.
 */
const BUILDS = {
  address: { folder: 'build/asan', options: ['-DSPILLWAY_SANITIZE=address'], targets: () => testsWhere(() => true) },
  thread: {
    folder: 'build/tsan',
    options: ['-DSPILLWAY_SANITIZE=thread', '-DSPILLWAY_CPU=OFF'],
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

const main = (mode, count) => {
  if (mode === 'fuzz') return fuzz(count)
  if (mode in BUILDS) return build(BUILDS[mode], BUILDS[mode].targets())
  console.error(`check-native: '${mode}' is none of address, thread, fuzz`)
  process.exit(2)
}

main(process.argv[2] ?? '', process.argv[3])
