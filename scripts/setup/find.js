// The place of the native addon. In: the package's folder, its native sources, this processor. Out: the addon that was built from exactly these for
// exactly this processor, or null. A checkout keeps it in build/; an installed package uses its platform package's, or keeps one in the user's cache,
// where it survives a new installation. Invariant: contents decide, never places or times: a copied or moved checkout keeps its addon.
'use strict'
const { createHash } = require('node:crypto')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { prebuiltAddon } = require('./prebuilt')
const { contentKey, filesUnder, stampHolds } = require('./stamp')

/** The addon in its build folder. */
const ADDON = path.join('Release', 'spillway.node')
const STAMP = 'stamp'

/** Sources and their tools come with a checkout; a package holds their compiled form. */
const isCheckout = (root) => fs.existsSync(path.join(root, 'tsconfig.build.json'))

const NATIVE = ['native', 'test/native/imitation', 'test/native/tests.cmake']
const sourcesKey = (root) => contentKey(root, filesUnder(root, NATIVE))

/** The CPU kernels are compiled for this CPU, so another one needs another build. */
const cpuFlags = () => /^(flags|Features)\s*:(.*)$/m.exec(fs.readFileSync('/proc/cpuinfo', 'utf8'))?.[2] ?? os.arch()

const fitKey = (root) =>
  createHash('sha256')
    .update([sourcesKey(root), process.platform, process.arch, cpuFlags()].join('\0'))
    .digest('hex')

const cacheFolder = () => path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'spillway')

/** Folders that an addon with this key may lie in, the best first. */
const placesFor = (root, key) => {
  const inPackage = path.join(root, 'build', 'addon')
  return isCheckout(root) ? [inPackage] : [path.join(cacheFolder(), `addon-${key.slice(0, 16)}`), inPackage]
}

const canWrite = (folder) => {
  try {
    fs.mkdirSync(folder, { recursive: true })
    fs.accessSync(folder, fs.constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** The folder to build in: the best that can be written to; null when none can. */
const placeToBuild = (root) => placesFor(root, fitKey(root)).find(canWrite) ?? null

const holdsAddon = (key) => (place) => fs.existsSync(path.join(place, ADDON)) && stampHolds(path.join(place, STAMP), key)

/** The platform package's addon for an installed package; null for a checkout, which builds its own. */
const findPrebuilt = (root) => (isCheckout(root) ? null : prebuiltAddon(root, cpuFlags()))

/** The addon's path, or null when none is built that fits. SPILLWAY_ADDON names one that is taken as it is. */
const findAddon = (root) => {
  if (process.env.SPILLWAY_ADDON) return process.env.SPILLWAY_ADDON
  const prebuilt = findPrebuilt(root)?.file
  if (prebuilt !== undefined) return prebuilt
  const key = fitKey(root)
  const place = placesFor(root, key).find(holdsAddon(key))
  return place === undefined ? null : path.join(place, ADDON)
}

module.exports = { ADDON, STAMP, findAddon, findPrebuilt, fitKey, isCheckout, placeToBuild }
