// Checks the promises of a platform package. In: its folder, its processor. Out: the errors, a line each; none if it is right. It only reads files,
// so packages for other processors are checked alike.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { readElf } = require('./elf')

/** Libraries of every system with this glibc and Node. */
const SYSTEM = /^(libc\.so\.6|lib(m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.\d|ld-linux-[\w-]+\.so\.\d)$/
/** Debian 10's and Red Hat 8's. */
const NEWEST = { GLIBC: [2, 28], GLIBCXX: [3, 4, 25], CXXABI: [1, 3, 11] }
/** The cuda plugin is compiled by this system's compiler, because nvcc needs one: Debian 12's. */
const NEWEST_OF_PLUGIN = { GLIBC: [2, 34], GLIBCXX: [3, 4, 30], CXXABI: [1, 3, 13], GCC: [3, 3, 1] }
const EXPORTS = /^(napi|node_api)_/
const PLUGIN = 'spillway_cuda.so'

const isNewerThan = (newestOf) => (version) => {
  const [, family, digits] = /^(\w+?)_([\d.]+)$/.exec(version) ?? []
  const newest = newestOf[family]
  if (newest === undefined) return false
  const parts = digits.split('.').map(Number)
  const differing = newest.findIndex((part, i) => part !== (parts[i] ?? 0))
  return differing >= 0 && (parts[differing] ?? 0) > newest[differing]
}

const pluginFaults = (elf, arch) => [
  ...(elf.arch === arch ? [] : [`is for ${elf.arch}`]),
  ...elf.needed.filter((name) => !SYSTEM.test(name)).map((name) => `needs ${name}`),
  ...[...new Set(elf.versions.filter(isNewerThan(NEWEST_OF_PLUGIN)))].map((version) => `needs ${version}`),
  ...(elf.exports.join() === 'spillway_device_table' ? [] : [`shows ${elf.exports.slice(0, 3).join(', ')} to others`]),
]

/** `carried`: names of the libraries in the package. */
const faultsOf = (elf, arch, carried) => {
  const isAddon = elf.soname === null || elf.soname.endsWith('.node')
  const paths = isAddon ? ['$ORIGIN/../lib'] : ['$ORIGIN']
  return [
    ...(elf.arch === arch ? [] : [`is for ${elf.arch}`]),
    ...elf.needed
      .filter((name) => !SYSTEM.test(name) && !carried.includes(name))
      .map((name) => `needs ${name}, which it does not carry`),
    ...[...new Set(elf.versions.filter(isNewerThan(NEWEST)))].map((version) => `needs ${version}`),
    ...elf.paths.filter((found) => !paths.includes(found)).map((found) => `looks for libraries in ${found}`),
    ...(isAddon
      ? elf.exports
          .filter((name) => !EXPORTS.test(name))
          .slice(0, 3)
          .map((name) => `shows ${name} to others`)
      : []),
    ...(isAddon && !elf.exports.includes('napi_register_module_v1') ? ['is no addon'] : []),
  ]
}

const filesIn = (folder) =>
  fs
    .readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name))

const packageFaults = (folder, arch, licences) => {
  const files = filesIn(folder)
  const libraries = files.filter((file) => /\.so(\.\d+)*$/.test(file))
  const objects = [...libraries, ...files.filter((file) => file.endsWith('.node'))]
  const carried = libraries.map((file) => path.basename(file))
  return [
    ...objects.flatMap((file) =>
      (path.basename(file) === PLUGIN ? pluginFaults(readElf(file), arch) : faultsOf(readElf(file), arch, carried)).map(
        (fault) => `${path.relative(folder, file)} ${fault}`,
      ),
    ),
    ...licences
      .filter((name) => !fs.existsSync(path.join(folder, name)) || fs.statSync(path.join(folder, name)).size === 0)
      .map((name) => `${name} is missing`),
  ]
}

module.exports = { faultsOf, packageFaults }
