// The addon of a platform package (@spillway/linux-x64, @spillway/linux-arm64), for users who install Spillway: nothing has to be compiled there. In:
// the package's folder, this processor's flags. Out: the addon, or in words the reason why there is none. The platform package's addons.json has its
// native sources and the needs of each of its addons, the best first. Invariant: it is used only if its sources are this package's own, byte for
// byte; SPILLWAY_PREBUILT=off leaves it out.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { contentKey, filesUnder } = require('./stamp')

const MANIFEST = 'addons.json'

const platformPackage = (arch = process.arch) => `@spillway/${process.platform}-${arch}`

/** The sources of the addon, alike in a checkout and in the package that is packed from it. */
const addonSources = (root) => contentKey(root, filesUnder(root, ['native']))

/** Beside the package, or in a folder above it. */
const platformFolder = (root, name) => {
  try {
    return path.dirname(require.resolve(`${name}/package.json`, { paths: [root] }))
  } catch {
    return null
  }
}

const read = (folder, name) => JSON.parse(fs.readFileSync(path.join(folder, name), 'utf8'))

const chosenIn = (folder, root, flags) => {
  const { sources, addons } = read(folder, MANIFEST)
  const { name, version } = read(folder, 'package.json')
  const named = `${name} ${version}`
  if (sources !== addonSources(root))
    return {
      state: 'other',
      name: named,
      words: `${named} was built from other native sources than spillway ${read(root, 'package.json').version}`,
    }
  const own = new Set(flags.split(/\s+/))
  const fitting = addons.find(({ needs }) => needs.every((flag) => own.has(flag)))
  if (fitting === undefined) return { state: 'unfit', name: named, words: `${named} has no addon for this processor` }
  return { state: 'fits', name: named, file: path.join(folder, fitting.file), words: `${named}, ${path.dirname(fitting.file)}` }
}

/** `{ state, name, words, file }`; there is a file where the state is 'fits'. */
const prebuiltAddon = (root, flags, arch = process.arch) => {
  const name = platformPackage(arch)
  if (process.env.SPILLWAY_PREBUILT === 'off') return { state: 'off', name, words: 'not used, because SPILLWAY_PREBUILT=off' }
  const folder = platformFolder(root, name)
  if (folder === null) return { state: 'missing', name, words: `${name} is not installed` }
  try {
    return chosenIn(folder, root, flags)
  } catch (error) {
    return { state: 'broken', name, words: `${folder} cannot be read: ${error.message}` }
  }
}

module.exports = { MANIFEST, addonSources, platformPackage, prebuiltAddon }
