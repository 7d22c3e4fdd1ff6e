// Formats C++ with clang-format, or checks it: `--check`, a step of `npm run check`; `--tidy [FILE …]` runs clang-tidy instead. In: .clang-format,
// .clang-tidy, the files that git tracks. Out: the files, or exit code 1 with the names of files in another form.
// Invariant: only version 16 decides, since versions differ; without it the check is skipped with a line that says so.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const { onPath } = require('./setup/system')

const ROOT = path.dirname(__dirname)
const VERSION = '16'

/** The program of this version, or null. */
const toolOf = (name) =>
  [`${name}-${VERSION}`, name].map(onPath).find((file) => {
    if (file === null) return false
    const { stdout } = spawnSync(file, ['--version'], { encoding: 'utf8' })
    return new RegExp(`version ${VERSION}\\.`).test(stdout ?? '')
  }) ?? null

const isGenerated = (file) =>
  /^\/\/ (Generated|Made) by /.test(fs.readFileSync(path.join(ROOT, file), 'utf8').replace(/^#pragma once\s*/, ''))

const sources = () =>
  spawnSync('git', ['ls-files', '-co', '--exclude-standard', 'native', 'test/native', 'test/e2e'], {
    cwd: ROOT,
    encoding: 'utf8',
  })
    .stdout.split('\n')
    .filter((file) => /\.(cpp|hpp|cu|cuh|h)$/.test(file) && !isGenerated(file))

const missing = (name) =>
  `skipped: ${name} ${VERSION} is not installed ('apt-get install ${name}-${VERSION}' on Debian 12 or Ubuntu 24.04)`

/** The packages of headers that a machine may lack. */
const OPTIONAL = { 'mpi.h': 'libopenmpi-dev', 'omp.h': `libomp-${VERSION}-dev` }

const runOn = (tool, options, files) => {
  const { status, stdout, stderr } = spawnSync(tool, [...options, ...files], { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 28 })
  return { ok: status === 0, lines: `${stdout}${stderr}`.split('\n').filter((line) => /(warning|error): /.test(line)) }
}

const format = (tool, options, files) => {
  const { ok, lines } = runOn(tool, options, files)
  for (const line of lines.slice(0, 40)) console.log(line)
  if (lines.length > 40) console.log(`and ${lines.length - 40} more`)
  if (!ok) console.log("'npm run format' formats these files")
  return ok
}

const DATABASE = 'compile_commands.json'
/** Headers that CMake has compiled once: the compiled form lies beside each. */
const COMPILED_ONCE = /\S+cmake_pch\.hxx(?=\s)/g

/** Returns a folder with the commands of the addon's build. Headers that g++ compiled once are copied: clang cannot read its form of them. */
const commands = () => {
  const folder = path.join(ROOT, 'build', 'tidy')
  fs.mkdirSync(folder, { recursive: true })
  const copied = (file) => {
    const copy = path.join(folder, `${path.basename(path.dirname(file))}.hxx`)
    fs.copyFileSync(file, copy)
    return copy
  }
  const text = fs.readFileSync(path.join(ROOT, 'build', 'addon', DATABASE), 'utf8')
  fs.writeFileSync(path.join(folder, DATABASE), text.replace(COMPILED_ONCE, copied))
  return folder
}

/** Checks one file at a time and prints each finding once, so that a long run shows its state. Leaves out files that lack a header. */
const tidy = (tool, files) => {
  const options = ['-p', commands(), '--quiet', '--extra-arg=-Wno-unknown-warning-option']
  const printed = new Set()
  const failed = files.filter((file) => {
    const { ok, lines } = runOn(tool, options, [file])
    const header = lines
      .map((line) => /error: '(\S+)' file not found/.exec(line)?.[1])
      .find((name) => Object.hasOwn(OPTIONAL, name))
    if (header !== undefined)
      console.log(`left out: ${file}: ${header} is missing ('apt-get install ${OPTIONAL[header]}', then rebuild the addon)`)
    const found = header === undefined ? lines.filter((line) => !printed.has(line)) : []
    for (const line of found) console.log(line)
    for (const line of found) printed.add(line)
    return header === undefined && !ok
  })
  console.log(`${files.length} files, ${failed.length} with findings`)
  return failed.length === 0
}

const main = (args) => {
  const tidies = args.includes('--tidy')
  const name = tidies ? 'clang-tidy' : 'clang-format'
  const tool = toolOf(name)
  if (tool === null) return void console.log(missing(name))
  const named = args.filter((arg) => !arg.startsWith('--'))
  const files = named.length > 0 ? named : sources().filter((file) => !tidies || /^native\/(?!cuda).*\.cpp$/.test(file))
  const ok = tidies ? tidy(tool, files) : format(tool, args.includes('--check') ? ['--dry-run', '--Werror'] : ['-i'], files)
  process.exitCode = ok ? 0 : 1
}

main(process.argv.slice(2))
