// Builds the native addon. In: native/, the compiler, oneDNN and this CPU. Out: Release/spillway.node where find.js looks for it.
// Invariant: the stamp beside it names what it was built from, and is written only when it is whole; a build folder whose CMake cache was
// made by other tools or elsewhere begins anew.
'use strict'
const { createHash } = require('node:crypto')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { runLogged, tellingLines } = require('./child')
const { ADDON, STAMP, findAddon, findPrebuilt, fitKey, placeToBuild } = require('./find')
const { lock } = require('./lock')
const { SetupProblem } = require('./problem')
const { removeStamp, stampHolds, writeStamp } = require('./stamp')
const { compilerPath, dnnlConfig, ensureSystem, onPath } = require('./system')

const contentOf = (file) => (file && fs.existsSync(file) ? fs.readFileSync(file) : 'none')
const generator = () => (onPath('ninja') ? 'Ninja' : 'Unix Makefiles')

/** The compiler and oneDNN, by what they are: with others the addon is built anew. */
const toolsKey = () => {
  const dnnl = dnnlConfig()
  const hash = createHash('sha256').update(generator())
  for (const file of [compilerPath(), dnnl && path.join(dnnl, 'dnnl-config-version.cmake')])
    hash.update('\0').update(contentOf(file))
  return hash.digest('hex')
}

/** CMake's arguments to configure `folder`. One that was configured for another place or with another generator is of no use to it. */
const configuring = (root, folder) => {
  const native = path.join(root, 'native')
  const cache = String(contentOf(path.join(folder, 'CMakeCache.txt')))
  const isOurs =
    cache.includes(`CMAKE_HOME_DIRECTORY:INTERNAL=${native}\n`) && cache.includes(`CMAKE_GENERATOR:INTERNAL=${generator()}\n`)
  if (!isOurs)
    for (const name of ['CMakeCache.txt', 'CMakeFiles']) fs.rmSync(path.join(folder, name), { recursive: true, force: true })
  const output = `-DCMAKE_LIBRARY_OUTPUT_DIRECTORY=${path.join(folder, 'Release')}`
  return ['-S', native, '-B', folder, '-G', generator(), '-DCMAKE_BUILD_TYPE=Release', '-DSPILLWAY_ADDON=ON', output]
}

const toolsStamp = (folder) => path.join(folder, 'tools-stamp')

/** Without the compiler, what was built with it still serves. */
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
      `the whole log: ${log}`,
      `if a half-built folder is to blame: rm -r ${folder}, and run the same command again; 'npx spillway doctor' says what is missing`,
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

  say('building the native addon (a few minutes the first time)')
  const cmake = (args, onLine) => runLogged('cmake', args, { cwd: root, log, onLine })
  const configured = await cmake(configuring(root, folder))
  if (configured.code !== 0) throw buildProblem(folder, log, 'configuring the native build', configured.code)
  const bar = progress('compiled')
  const built = await cmake(['--build', folder, '--parallel', String(jobs())], (line) => {
    const percent = percentOf(line)
    if (percent !== null) bar.at(percent)
  })
  bar.end()
  if (built.code !== 0) throw buildProblem(folder, log, 'building the native addon', built.code)
  if (!fs.existsSync(path.join(folder, ADDON))) throw buildProblem(folder, log, `the build left no ${ADDON}: it`, 0)
  writeStamp(path.join(folder, STAMP), fitKey(root))
}

const buildAddon = async (root, say) => {
  await ensureSystem(root, say)
  const folder = placeToBuild(root)
  if (folder === null)
    throw new SetupProblem('there is no folder to build the native addon in', {
      exitCode: 2,
      details: ['neither the cache (XDG_CACHE_HOME, or ~/.cache) nor the package can be written to'],
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
