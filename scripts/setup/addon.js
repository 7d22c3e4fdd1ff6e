// The native addon. In: native/, the compiler, Node and this CPU. Out: build/addon/Release/spillway.node.
// Invariant: build/addon/stamp names the sources that the addon was built from, and is written only when it is whole.
'use strict'
const { createHash } = require('node:crypto')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { runLogged, tellingLines } = require('./child')
const { SetupProblem } = require('./problem')
const { contentKey, filesUnder, removeStamp, stampHolds, writeStamp } = require('./stamp')
const { compilerPath, ensureSystem, onPath } = require('./system')

const BUILD = path.join('build', 'addon')
const ADDON = path.join(BUILD, 'Release', 'spillway.node')
const STAMP = path.join(BUILD, 'stamp')
const TOOLS_STAMP = path.join(BUILD, 'tools-stamp')
const LOG = path.join('build', 'addon.log')

const lockedVersion = (root, name) => {
  const lock = JSON.parse(fs.readFileSync(path.join(root, 'package-lock.json'), 'utf8'))
  return lock.packages[`node_modules/${name}`]?.version ?? 'none'
}

/** The CPU kernels are compiled for this CPU, so another one needs another build. */
const cpuFlags = () => /^(flags|Features)\s*:(.*)$/m.exec(fs.readFileSync('/proc/cpuinfo', 'utf8'))?.[2] ?? os.arch()

const compilerIdentity = () => {
  const compiler = compilerPath()
  if (!compiler) return 'no compiler'
  const file = fs.realpathSync(compiler)
  const { size, mtimeMs } = fs.statSync(file)
  return `${file} ${size} ${mtimeMs}`
}

/** All but the sources: when it changes, CMake's cache is stale and the build starts from nothing. */
const toolsKey = (root) => {
  const packages = ['cmake-js', 'node-addon-api', 'node-api-headers'].map((name) => lockedVersion(root, name))
  const parts = [
    root,
    process.arch,
    process.versions.modules,
    compilerIdentity(),
    onPath('cmake'),
    onPath('ninja'),
    cpuFlags(),
    ...packages,
  ]
  return createHash('sha256').update(parts.join('\0')).digest('hex')
}

const addonKey = (root, tools) =>
  contentKey(root, filesUnder(root, ['native', 'test/native/imitation', 'test/native/tests.cmake']), tools)

const addonIsCurrent = (root) =>
  fs.existsSync(path.join(root, ADDON)) && stampHolds(path.join(root, STAMP), addonKey(root, toolsKey(root)))

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

const buildProblem = (root, doing, code) =>
  new SetupProblem(`${doing} failed (exit ${code})`, {
    details: [
      ...tellingLines(path.join(root, LOG)),
      `the whole log: ${LOG}`,
      `if a half-built folder is to blame: rm -r ${BUILD}, and run the same command again; 'npx spillway doctor' says what is missing`,
    ],
  })

/** A compiler process of this code base takes up to about 1 GiB. */
const jobs = () => Math.max(1, Math.min(os.availableParallelism(), Math.floor(os.freemem() / 2 ** 30) || 1))

/** cmake-js takes the headers from node-api-headers, and downloads none, only if a package.json in its folder says so. */
const PROJECT = 'native'

const buildAddon = async (root, say) => {
  await ensureSystem(root, say)
  const tools = toolsKey(root)
  const key = addonKey(root, tools)
  removeStamp(path.join(root, STAMP))
  if (!stampHolds(path.join(root, TOOLS_STAMP), tools)) fs.rmSync(path.join(root, BUILD), { recursive: true, force: true })
  writeStamp(path.join(root, TOOLS_STAMP), tools)
  fs.rmSync(path.join(root, LOG), { force: true })

  const cmakeJs = [path.join(root, 'node_modules', 'cmake-js', 'bin', 'cmake-js')]
  const where = ['-d', PROJECT, '-O', BUILD]
  const log = path.join(root, LOG)
  const run = (args, onLine) => runLogged(process.execPath, [...cmakeJs, ...args], { cwd: root, log, onLine })

  say('building the native addon (a few minutes the first time)')
  const configured = await run(['configure', ...where])
  if (configured.code !== 0) throw buildProblem(root, 'configuring the native build', configured.code)
  const bar = progress('compiled')
  const built = await run(['build', ...where, '-p', String(jobs())], (line) => {
    const percent = percentOf(line)
    if (percent !== null) bar.at(percent)
  })
  bar.end()
  if (built.code !== 0) throw buildProblem(root, 'building the native addon', built.code)
  if (!fs.existsSync(path.join(root, ADDON))) throw buildProblem(root, `the build left no ${ADDON}: it`, 0)
  writeStamp(path.join(root, STAMP), key)
}

const addonStep = () => ({ name: 'native addon', isDone: addonIsCurrent, run: buildAddon })

module.exports = { addonStep, addonIsCurrent, ADDON }
