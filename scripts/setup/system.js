// The system's part of the native build: a C++20 compiler, CMake, make and oneDNN. In: PATH and the usual library folders. Out: the missing parts, by
// the system's own names; installs them with apt-get if that needs no password.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { runLogged, tellingLines } = require('./child')
const { distributionOf } = require('./distributions')
const { isCheckout } = require('./find')
const { SetupProblem } = require('./problem')

const onPath = (command) => {
  if (command.includes('/')) return fs.existsSync(command) ? command : null
  const folders = (process.env.PATH ?? '').split(':').filter(Boolean)
  return folders.map((folder) => path.join(folder, command)).find((file) => fs.existsSync(file)) ?? null
}

const compilerPath = () => onPath(process.env.CXX || 'c++') ?? onPath('g++')

/** Major version of a compiler, 0 when it does not say. */
const compilerMajor = (compiler) =>
  Number.parseInt(spawnSync(compiler, ['-dumpversion'], { encoding: 'utf8' }).stdout ?? '', 10) || 0

const isCpp20 = (compiler) => compilerMajor(compiler) >= (/clang/.test(fs.realpathSync(compiler)) ? 14 : 11)

const hasCompiler = () => {
  const compiler = compilerPath()
  return compiler !== null && isCpp20(compiler)
}

/** Folder with dnnl's CMake package, searched where CMake searches. */
const dnnlConfig = () => {
  const prefixes = [
    ...(process.env.CMAKE_PREFIX_PATH ?? '').split(':').filter(Boolean),
    '/usr/local',
    '/usr',
    '/opt/intel/oneapi/dnnl/latest',
  ]
  const libraries = prefixes.flatMap((prefix) => {
    const lib = path.join(prefix, 'lib')
    const triplets = fs.existsSync(lib) ? fs.readdirSync(lib).filter((name) => name.endsWith('-linux-gnu')) : []
    return [lib, path.join(prefix, 'lib64'), ...triplets.map((name) => path.join(lib, name))]
  })
  const folders = [process.env.dnnl_DIR, process.env.DNNL_DIR, ...libraries.map((lib) => path.join(lib, 'cmake', 'dnnl'))]
  return folders.find((folder) => folder && fs.existsSync(path.join(folder, 'dnnl-config.cmake'))) ?? null
}

const OLDEST = [2, 6]

/** An error that no package manager mends: Ubuntu 22.04 has 2.2. */
const refuseOldOneDnn = () => {
  const folder = dnnlConfig()
  const file = folder && path.join(folder, 'dnnl-config-version.cmake')
  const version = file && fs.existsSync(file) ? /PACKAGE_VERSION "([\d.]+)"/.exec(fs.readFileSync(file, 'utf8'))?.[1] : undefined
  const [major, minor] = (version ?? OLDEST.join('.')).split('.').map(Number)
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return
  throw new SetupProblem(`oneDNN ${version} in ${folder} is too old: the native build needs ${OLDEST.join('.')} or newer`, {
    exitCode: 2,
    details: ['install the platform package, which includes oneDNN, or set DNNL_DIR to the folder of a newer dnnl-config.cmake'],
  })
}

/** Debian builds oneDNN with OpenCL, so its CMake package asks for OpenCL's headers, which libdnnl-dev only recommends. */
const hasOpenClIfNeeded = () => {
  const config = dnnlConfig()
  if (config !== null && !fs.existsSync(path.join(config, 'FindOpenCL.cmake'))) return true
  return ['/usr/include', '/usr/local/include'].some((folder) => fs.existsSync(path.join(folder, 'CL', 'cl.h')))
}

const NEEDS = [
  { what: 'a C++20 compiler', package: 'compiler', found: hasCompiler },
  { what: 'CMake', package: 'cmake', found: () => onPath('cmake') !== null },
  { what: 'make', package: 'make', found: () => onPath('make') !== null || onPath('ninja') !== null },
  { what: 'oneDNN with headers', package: 'oneDNN', found: () => dnnlConfig() !== null },
  { what: "OpenCL's headers (for oneDNN's CMake package)", package: 'openCl', found: hasOpenClIfNeeded },
]

const missingFromSystem = () => NEEDS.filter((need) => !need.found())

/** This system, and its names of the missing parts. */
const system = () => distributionOf(fs.existsSync('/etc/os-release') ? fs.readFileSync('/etc/os-release', 'utf8') : '')
const namesOf = (missing, { names } = system()) => missing.flatMap((need) => names[need.package])

/** How this user may run apt-get without being asked: nothing before it, sudo before it, or null. */
const aptPrefix = () => {
  if (!onPath('apt-get')) return null
  if (process.getuid?.() === 0) return []
  if (onPath('sudo') && spawnSync('sudo', ['-n', 'true'], { stdio: 'ignore' }).status === 0) return ['sudo', '-n']
  return null
}

/** A checkout keeps its logs; an installed package may not be written to. */
const logFolder = (root) => (isCheckout(root) ? path.join(root, 'build') : fs.mkdtempSync(path.join(os.tmpdir(), 'spillway-')))

/** Seconds to wait for another installation to finish, e.g. automatic updates. */
const LOCK_SECONDS = 300

const aptInstall = async (root, prefix, packages) => {
  const log = path.join(logFolder(root), 'system.log')
  fs.rmSync(log, { force: true })
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = (args) => {
    const [command, ...rest] = [...prefix, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get', ...args]
    return runLogged(command, rest, { cwd: root, env, log })
  }
  await apt(['update'])
  const { code } = await apt([
    'install',
    '-y',
    '--no-install-recommends',
    '-o',
    `DPkg::Lock::Timeout=${LOCK_SECONDS}`,
    ...packages,
  ])
  return { code, log }
}

const ensureSystem = async (root, say) => {
  await ensurePackages(root, say)
  refuseOldOneDnn()
}

const ensurePackages = async (root, say) => {
  const missing = missingFromSystem()
  if (missing.length === 0) return
  const packages = namesOf(missing)
  const line = system().line(packages)
  const words = missing.map((need) => need.what).join(', ')
  const prefix = aptPrefix()
  if (prefix === null) {
    const details = ['run this line, then the same command again:', '', `  sudo sh -c '${line}'`, '']
    throw new SetupProblem(`the native build needs ${words}`, { exitCode: 2, details })
  }
  say(`installing system packages: ${packages.join(' ')}`)
  const { code, log } = await aptInstall(root, prefix, packages)
  const left = missingFromSystem()
  if (code === 0 && left.length === 0) return
  throw new SetupProblem(`apt-get could not install ${packages.join(' ')} (exit ${code})`, {
    exitCode: 2,
    details: [...tellingLines(log), `full log: ${log}`, `run it yourself: ${line}`],
  })
}

module.exports = { dnnlConfig, ensureSystem, missingFromSystem, compilerPath, onPath }
