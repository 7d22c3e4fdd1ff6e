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
const { toolchainIn, toolsIn, wheelsIn } = require('./prebuilt/tools')

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
  if (platform.onednn === undefined) return { options: ['-DSPILLWAY_ONEDNN=OFF'], libraries: [], licences: {} }
  const onednn = wheelsIn(path.join(folder, 'onednn'), platform.onednn, platform.wheelsFor, tools, run)
  const library = path.join(folder, 'libdnnl.so.3')
  fs.copyFileSync(path.join(onednn, 'lib', 'libdnnl.so.3'), library)
  run(tools.patchelf, ['--replace-needed', 'libgomp.so.1', 'libomp.so', '--set-rpath', '$ORIGIN', library])
  const words = path.join(onednn, 'share', 'doc', 'onednn')
  return {
    options: [`-Ddnnl_DIR=${onednn}/lib/cmake/dnnl`],
    libraries: [library],
    licences: {
      'onednn.txt': path.join(words, 'LICENSE'),
      'onednn-third-parties.txt': path.join(words, 'THIRD-PARTY-PROGRAMS'),
    },
  }
}

const configure = (folder, addon, { compiler, openmp, onednn }) => [
  ...['-S', 'native', '-B', path.join(folder, addon.name), '-DCMAKE_BUILD_TYPE=Release', '-DSPILLWAY_ADDON=ON'],
  `-DCMAKE_TOOLCHAIN_FILE=${compiler}`,
  `-DCMAKE_CXX_FLAGS=-ffp-contract=fast -isystem ${openmp}/include`,
  '-DCMAKE_MODULE_LINKER_FLAGS=-s',
  ...['-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON', '-DCMAKE_INSTALL_RPATH=$ORIGIN/../lib'],
  ...['-DOpenMP_CXX_FLAGS=-fopenmp', '-DOpenMP_CXX_LIB_NAMES=omp', `-DOpenMP_omp_LIBRARY=${openmp}/lib/libomp.so`],
  ...onednn.options,
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

const licencesOf = ({ libraries }) => `What this package holds, and under which licences:

- the addons, spillway.node: Spillway, MIT (spillway.txt); libc++, libc++abi and libunwind of LLVM, linked in, Apache-2.0 with LLVM's
  exceptions (llvm.txt)
- lib/libomp.so: LLVM's OpenMP runtime, Apache-2.0 with LLVM's exceptions (llvm.txt)
${
  libraries.length === 0
    ? ''
    : `- lib/libdnnl.so.3: oneDNN, Apache-2.0 (onednn.txt, with its third parties' in onednn-third-parties.txt). Changed: it names lib/libomp.so as
  its OpenMP runtime where it named libgomp.so.1, and looks for it in its own folder. Its code is as PyPI's wheel has it
`
}`

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
  write('licences/README.md', made.words)
  write('package.json', `${JSON.stringify(describe(arch), null, 2)}\n`)
  write(MANIFEST, `${JSON.stringify({ sources: addonSources(ROOT), addons }, null, 2)}\n`)
}

const makePackage = (arch) => {
  const platform = PLATFORMS[arch]
  const folder = path.join(OUT, arch)
  const tools = toolsIn(path.join(OUT, 'tools'), run)
  const compiler = toolchainIn(path.join(folder, 'compiler'), tools, platform, run)
  const wheel = wheelsIn(path.join(folder, 'openmp'), [platform.openmp], platform.wheelsFor, tools, run)
  const openmp = path.join(wheel, 'cmeel.prefix')
  const onednn = onednnIn(folder, platform, tools)
  const parts = { compiler, openmp, onednn }
  const made = {
    addons: Object.fromEntries(platform.addons.map((addon) => [addon.name, built(folder, addon, parts)])),
    libraries: [...onednn.libraries, path.join(openmp, 'lib', 'libomp.so')],
    licences: {
      'spillway.txt': path.join(ROOT, 'LICENSE'),
      'llvm.txt': path.join(tools.zig, 'lib', 'libcxx', 'LICENSE.TXT'),
      ...onednn.licences,
    },
    words: licencesOf(onednn),
  }
  const packed = path.join(folder, 'package')
  assemble(packed, arch, platform, made)
  const licences = [...Object.keys(made.licences), 'README.md'].map((name) => `licences/${name}`)
  const faults = packageFaults(packed, arch, licences)
  if (faults.length > 0) stop(`the package is not right:\n${faults.join('\n')}`)
  run('npm', ['pack', '--silent', '--pack-destination', OUT, packed])
}

const main = (arch) => {
  if (PLATFORMS[arch] === undefined) return stop(`'${arch ?? ''}' is none of ${Object.keys(PLATFORMS).join(', ')}`, 2)
  makePackage(arch)
}

main(process.argv[2])
