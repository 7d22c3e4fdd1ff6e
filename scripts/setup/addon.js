// Builds the native addon with cmake-js. In: native/, the compiler, oneDNN and this CPU. Out: Release/spillway.node, where find.js looks.
// Invariant: the stamp beside the addon holds the key of its inputs and is written last. A build folder that other tools or another
// checkout configured is emptied first.
'use strict'
const { createHash } = require('node:crypto')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { runLogged, tellingLines } = require('./child')
const { cmakeJs, nativeOf } = require('./cmakejs')
const { ADDON, STAMP, findAddon, findPrebuilt, fitKey, placeToBuild } = require('./find')
const { lock } = require('./lock')
const { SetupProblem } = require('./problem')
const { removeStamp, stampHolds, writeStamp } = require('./stamp')
const { compilerPath, dnnlConfig, ensureSystem, onPath } = require('./system')

const contentOf = (file) => (file && fs.existsSync(file) ? fs.readFileSync(file) : 'none')
const generator = () => (onPath('ninja') ? 'Ninja' : 'Unix Makefiles')

/** The identity of the compiler and oneDNN: with others the addon is built anew. */
const toolsKey = () => {
  const dnnl = dnnlConfig()
  const hash = createHash('sha256').update(generator())
  for (const file of [compilerPath(), dnnl && path.join(dnnl, 'dnnl-config-version.cmake')])
    hash.update('\0').update(contentOf(file))
  return hash.digest('hex')
}

/** Removes CMake's cache from `folder` if it belongs to another checkout or generator: CMake would refuse it. */
const dropForeignCache = (root, folder) => {
  const cache = String(contentOf(path.join(folder, 'CMakeCache.txt')))
  const isOurs =
    cache.includes(`CMAKE_HOME_DIRECTORY:INTERNAL=${nativeOf(root)}\n`) &&
    cache.includes(`CMAKE_GENERATOR:INTERNAL=${generator()}\n`)
  if (!isOurs)
    for (const name of ['CMakeCache.txt', 'CMakeFiles']) fs.rmSync(path.join(folder, name), { recursive: true, force: true })
}

/**
 * The command that configures `folder`. The compiler is given by its path, since cmake-js itself looks only for `g++` and `clang++`.
 * cmake-js replaces CMake's default for CMAKE_CXX_FLAGS, so the user's CXXFLAGS follow as an argument of CMake.
 */
const configuring = (root, folder, extraCMakeArgs = []) => {
  dropForeignCache(root, folder)
  const compiler = compilerPath() ?? undefined
  const { CXXFLAGS } = process.env
  return cmakeJs('configure', root, folder, {
    cMakeOptions: { SPILLWAY_ADDON: 'ON' },
    cCompilerPath: compiler,
    cppCompilerPath: compiler,
    extraCMakeArgs: [...(CXXFLAGS ? [`-DCMAKE_CXX_FLAGS=${CXXFLAGS}`] : []), ...extraCMakeArgs],
  })
}

const toolsStamp = (folder) => path.join(folder, 'tools-stamp')

/** Without the compiler, an addon that it built still serves. */
const isCurrent = (root) => {
  const addon = findAddon(root)
  if (addon === null || process.env.SPILLWAY_ADDON) return addon !== null
  if (addon === findPrebuilt(root)?.file) return true
  return compilerPath() === null || stampHolds(toolsStamp(path.dirname(path.dirname(addon))), toolsKey())
}

/** Rewrites one line on a terminal; elsewhere a line for each quarter. */
const progress = (what) => {
  let quarter = 0
  return {
    at: (percent) => {
      if (process.stderr.isTTY) process.stderr.write(`\r  ${what}: ${String(percent).padStart(3)} %`)
      else if (percent >= 25 * (quarter + 1)) {
        quarter = Math.floor(percent / 25)
        process.stderr.write(`  ${what}: ${percent} %\n`)
      }
    },
    end: () => process.stderr.isTTY && process.stderr.write('\r\x1b[K'),
  }
}

/** make says `[ 42%]`, ninja `[12/40]`. */
const percentOf = (line) => {
  const [, percent, done, all] = /^\[(?:\s*(\d+)%|(\d+)\/(\d+))\]/.exec(line) ?? []
  if (percent !== undefined) return Number(percent)
  return done === undefined ? null : Math.floor((100 * Number(done)) / Number(all))
}

const buildProblem = (folder, log, doing, code) =>
  new SetupProblem(`${doing} failed (exit ${code})`, {
    details: [
      ...tellingLines(log),
      `full log: ${log}`,
      `to start the build again: rm -r ${folder}, and run the same command; 'npx spillway doctor' lists missing parts`,
    ],
  })

/** A compiler process of this code base takes up to about 1 GiB. */
const jobs = () => Math.max(1, Math.min(os.availableParallelism(), Math.floor(os.freemem() / 2 ** 30) || 1))

const buildIn = async (root, folder, say) => {
  const log = path.join(folder, 'build.log')
  const tools = toolsKey()
  removeStamp(path.join(folder, STAMP))
  if (!stampHolds(toolsStamp(folder), tools))
    for (const name of fs.readdirSync(folder))
      if (!name.endsWith('.lock')) fs.rmSync(path.join(folder, name), { recursive: true, force: true })
  writeStamp(toolsStamp(folder), tools)
  fs.rmSync(log, { force: true })

  say('building the native addon (once, about 3 minutes)')
  const run = ([command, args], onLine) => runLogged(command, args, { cwd: root, log, onLine })
  const configured = await run(configuring(root, folder))
  if (configured.code !== 0) throw buildProblem(folder, log, 'configuring the native build', configured.code)
  const bar = progress('compiled')
  const built = await run(cmakeJs('build', root, folder, { parallel: jobs() }), (line) => {
    const percent = percentOf(line)
    if (percent !== null) bar.at(percent)
  })
  bar.end()
  if (built.code !== 0) throw buildProblem(folder, log, 'building the native addon', built.code)
  if (!fs.existsSync(path.join(folder, ADDON))) throw buildProblem(folder, log, `the build made no ${ADDON}: it`, 0)
  writeStamp(path.join(folder, STAMP), fitKey(root))
}

const buildAddon = async (root, say) => {
  await ensureSystem(root, say)
  const folder = placeToBuild(root)
  if (folder === null)
    throw new SetupProblem('cannot find a writable folder for the native addon', {
      exitCode: 2,
      details: ['neither the cache (XDG_CACHE_HOME, or ~/.cache) nor the package folder is writable'],
    })
  const release = await lock(path.join(folder, 'build.lock'), (pid) => say(`waiting for another build (process ${pid})`))
  try {
    if (!isCurrent(root)) await buildIn(root, folder, say)
  } finally {
    release()
  }
}

const addonStep = () => ({ name: 'native addon', isDone: isCurrent, run: buildAddon })

module.exports = { addonStep, configuring }
