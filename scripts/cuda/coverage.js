// `node scripts/cuda/coverage.js`: the lines of the cuda device's sources that its tests on the imitated CUDA execute. In: this checkout, the headers
// of CUDA, cuDNN and cuBLAS, and gcov. Out: bench/results/cuda-coverage.json, for each file its lines, the executed ones, and the functions with
// unexecuted ones; exit code 0 if nine lines of ten ran. A line of several template instances ran if one of them did.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const { headersHere } = require('./toolkit')

const ROOT = path.join(__dirname, '..', '..')
const BUILD = path.join(ROOT, 'build', 'covered')
const OBJECTS = path.join(BUILD, 'CMakeFiles', 'spillway_host_cuda.dir')
const RESULT = path.join(ROOT, 'bench', 'results', 'cuda-coverage.json')
const LEAST_SHARE = 0.9

const run = (program, args, options = {}) => {
  const r = spawnSync(program, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 2 ** 30, ...options })
  if (r.status !== 0) {
    console.error(`${program} ${args.join(' ')}\n${`${r.stdout ?? ''}${r.stderr ?? ''}`.slice(-3000)}`)
    process.exit(1)
  }
  return r.stdout
}

const build = () => {
  const why = headersHere()
  if (why) {
    console.error(why)
    process.exit(1)
  }
  run('cmake', [
    ...['-S', 'native', '-B', BUILD, '-DSPILLWAY_ADDON=ON', '-DCMAKE_BUILD_TYPE=Release'],
    '-DSPILLWAY_HOST_CUDA_OPTIONS=--coverage;-DSPILLWAY_COVERED',
  ])
  run('cmake', ['--build', BUILD, '--parallel', '2', '--target', 'host_cuda_test', 'host_cuda_ranks_test', 'kernels_host_cuda'])
}

const filesUnder = (folder, ending) =>
  fs
    .readdirSync(folder, { recursive: true })
    .filter((name) => name.endsWith(ending))
    .map((name) => path.join(folder, name))

const countAnew = () => {
  for (const file of filesUnder(OBJECTS, '.gcda')) fs.rmSync(file)
  for (const [program, env] of [
    ['host_cuda_test', {}],
    ['host_cuda_ranks_test', {}],
    ['kernels_host_cuda', { SPILLWAY_TEST_SHARE: '10' }],
  ])
    run(path.join(BUILD, 'tests', program), [], { env: { ...process.env, ...env } })
}

/** For each source file: its lines, and its functions, by where they begin; with how often they ran. */
const counted = () => {
  const files = new Map()
  for (const data of filesUnder(OBJECTS, '.gcda')) {
    const told = JSON.parse(run('gcov', ['--json-format', '--stdout', '--demangled-names', data], { cwd: OBJECTS }))
    for (const { file, lines, functions } of told.files) {
      const name = path.relative(ROOT, path.resolve(told.current_working_directory, file))
      if (!name.startsWith('native/cuda/')) continue
      const { ran, starts } = files.get(name) ?? { ran: new Map(), starts: new Map() }
      for (const { line_number: line, count } of lines) ran.set(line, (ran.get(line) ?? 0) + count)
      for (const { start_line: from, end_line: to, demangled_name: called } of functions) starts.set(from, { to, name: called })
      files.set(name, { ran, starts })
    }
  }
  return files
}

/** `spillway::cuda::(anonymous namespace)::f<float>(int)` -> `f` */
const shortName = (name) =>
  name
    .replace(/\(anonymous namespace\)::/g, '')
    .replace(/<.*>/g, '')
    .replace(/\(.*$/, '')
    .split(/::| /)
    .pop()

const rowOf = (file, { ran, starts }) => {
  const missed = [...ran].filter(([, count]) => count === 0).map(([line]) => line)
  const functions = [...starts]
    .map(([from, { to, name }]) => {
      const own = [...ran.keys()].filter((line) => line >= from && line <= to)
      return { name: shortName(name), from, lines: own.length, missed: own.filter((line) => missed.includes(line)) }
    })
    .filter((f) => f.missed.length > 0)
    .sort((a, b) => a.from - b.from)
    .map(({ name, lines, missed: ofIt }) => ({ name, lines, missed: ofIt }))
  return { file, lines: ran.size, ran: ran.size - missed.length, functions }
}

const sum = (rows, key) => rows.reduce((n, row) => n + row[key], 0)

const main = () => {
  build()
  countAnew()
  const rows = [...counted()].map(([file, of]) => rowOf(file, of)).sort((a, b) => (a.file < b.file ? -1 : 1))
  const [lines, ran] = [sum(rows, 'lines'), sum(rows, 'ran')]
  for (const row of rows) {
    console.log(
      `${((100 * row.ran) / row.lines).toFixed(1).padStart(5)} %  ${row.file} (${row.lines - row.ran} of ${row.lines} never run)`,
    )
    for (const f of row.functions) console.log(`           ${f.name}: ${f.missed.join(', ')}`)
  }
  fs.writeFileSync(RESULT, `${JSON.stringify({ lines, ran, share: Number((ran / lines).toFixed(4)), files: rows }, null, 2)}\n`)
  console.log(`${ran} of ${lines} lines ran: ${((100 * ran) / lines).toFixed(1)} %`)
  process.exitCode = ran >= LEAST_SHARE * lines ? 0 : 1
}

main()
