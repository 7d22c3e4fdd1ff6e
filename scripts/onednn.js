// `node scripts/onednn.js [--json] [VERSION …]`: an addon for each version of oneDNN, or those named, in build/onednn/VERSION. In: this system's
// oneDNN; PyPI's wheels for GNU OpenMP; Debian 13's and unstable's packages, from this system's own mirror. Out: the built versions and their
// sources; the addons, chosen by SPILLWAY_ADDON. Invariant: nothing is installed; packages are downloaded once. Libraries that were linked with a
// newer glibc need four functions of it or of libstdc++ here: a shim has them, and the demand is marked as weak.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { configuring } = require('./setup/addon')
const { ADDON, findAddon } = require('./setup/find')
const { mirror } = require('./setup/mirror')

const ROOT = path.dirname(__dirname)
const PLACE = path.join(ROOT, 'build', 'onednn')

/** The source of each version, and the names of its packages there. */
const VERSIONS = {
  2.6: { from: 'this system' },
  3.2: { from: 'PyPI', wheels: ['onednn-cpu-gomp==2023.2.0', 'onednn-devel-cpu-gomp==2023.2.0'] },
  3.7: { from: 'Debian trixie', suite: 'trixie', packages: ['libdnnl3.6', 'libdnnl-dev'] },
  3.12: { from: 'Debian sid', suite: 'sid', packages: ['libdnnl3.6', 'libdnnl-dev'] },
}

const run = (command, args, o = {}) => {
  const { status, error, stdout, stderr } = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 28, ...o })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? `${stdout}${stderr}`.slice(-2000)}`)
  return stdout
}

const filesIn = (folder, name) =>
  fs
    .readdirSync(folder, { recursive: true })
    .filter((file) => name.test(path.basename(file)))
    .map((file) => path.join(folder, file))

// ---------------------------------------------------------------- packages

/** Both wheels hold parts of one tree. */
const unpackWheels = (wheels, folder) => {
  const fetched = fs.mkdtempSync(path.join(os.tmpdir(), 'spillway-wheels-'))
  run('pip', ['download', '--quiet', '--no-deps', '-d', fetched, ...wheels])
  for (const wheel of filesIn(fetched, /\.whl$/)) run('python3', ['-m', 'zipfile', '-e', wheel, fetched])
  for (const data of filesIn(fetched, /\.data$/)) fs.cpSync(path.join(data, 'data'), folder, { recursive: true })
  fs.rmSync(fetched, { recursive: true })
}

/** With lists of its own, so that this system's stay as they are. */
const unpackDebian = ({ suite, packages }, folder) => {
  const uri = mirror()
  if (uri === undefined) throw new Error('this system is no Debian whose mirror has other releases')
  const own = fs.mkdtempSync(path.join(os.tmpdir(), 'spillway-apt-'))
  const at = (...names) => path.join(own, ...names)
  for (const name of ['lists/partial', 'cache/archives/partial']) fs.mkdirSync(at(name), { recursive: true })
  fs.writeFileSync(at('sources.list'), `deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${uri} ${suite} main\n`)
  const settings = {
    'Dir::Etc::sourcelist': at('sources.list'),
    'Dir::Etc::sourceparts': '-',
    'Dir::State::lists': at('lists'),
    'Dir::Cache': at('cache'),
    'APT::Sandbox::User': os.userInfo().username,
  }
  const options = Object.entries(settings).flatMap(([key, value]) => ['-o', `${key}=${value}`])
  run('apt-get', [...options, '-qq', 'update'])
  // Its own lists alone: this system's packages are no candidates.
  run('apt-get', [...options, '-t', suite, 'download', ...packages], { cwd: own })
  for (const file of filesIn(own, /\.deb$/)) run('dpkg-deb', ['-x', file, folder])
  fs.rmSync(own, { recursive: true })
}

// ---------------------------------------------------------------- a newer glibc's functions

const SHIM = `#include <cstdlib>
#include <exception>
#include <iostream>
extern "C" long __isoc23_strtol(const char* s, char** end, int base) { return std::strtol(s, end, base); }
extern "C" long long __isoc23_strtoll(const char* s, char** end, int base) { return std::strtoll(s, end, base); }
extern "C" void __cxa_call_terminate(void*) { std::terminate(); }
namespace std { void ios_base_library_init() {} }
`
const WANTED = ['GLIBC_2.38', 'GLIBCXX_3.4.32', 'CXXABI_1.3.15']

/** Marks version demands of an ELF file as weak: a loader without them continues. Returns true if there were any. */
const weaken = (file) => {
  const bytes = fs.readFileSync(file)
  const sections = Number(bytes.readBigUInt64LE(40))
  const at = (i) => sections + i * bytes.readUInt16LE(58)
  const fields = (i) => ({
    type: bytes.readUInt32LE(at(i) + 4),
    offset: Number(bytes.readBigUInt64LE(at(i) + 24)),
    link: bytes.readUInt32LE(at(i) + 40),
  })
  const VERNEED = 0x6ffffffe
  const WEAK = 2
  const all = Array.from({ length: bytes.readUInt16LE(60) }, (_, i) => fields(i))
  const demands = all.find(({ type }) => type === VERNEED)
  if (!demands) return false
  const names = all[demands.link].offset
  const nameAt = (offset) => bytes.toString('latin1', names + offset, bytes.indexOf(0, names + offset))
  let found = false
  for (let need = demands.offset, more = true; more; ) {
    for (let i = bytes.readUInt16LE(need + 2), one = need + bytes.readUInt32LE(need + 8); i > 0; i--) {
      if (WANTED.includes(nameAt(bytes.readUInt32LE(one + 8)))) {
        bytes.writeUInt16LE(bytes.readUInt16LE(one + 4) | WEAK, one + 4)
        found = true
      }
      one += bytes.readUInt32LE(one + 12)
    }
    const next = bytes.readUInt32LE(need + 12)
    more = next > 0
    need += next
  }
  if (found) fs.writeFileSync(file, bytes)
  return found
}

/** Linked into the addon, so that it is looked through with it. */
const shimFor = (folder) => {
  const library = filesIn(folder, /^libdnnl\.so\.\d+\.\d+$/).find((file) => !fs.lstatSync(file).isSymbolicLink())
  if (!weaken(library)) return undefined
  const shim = path.join(path.dirname(library), 'libspillway-shim.so')
  fs.writeFileSync(path.join(folder, 'shim.cpp'), SHIM)
  run('c++', ['-shared', '-fPIC', '-O2', '-o', shim, path.join(folder, 'shim.cpp')])
  return shim
}

// ---------------------------------------------------------------- the addon

const configOf = (folder) => path.dirname(filesIn(folder, /^dnnl-config\.cmake$/)[0])

const build = (version, from) => {
  if (!from.wheels && !from.suite) {
    run(process.execPath, ['scripts/setup.js'])
    return findAddon(ROOT)
  }
  const folder = path.join(PLACE, version)
  const library = path.join(folder, 'library')
  const { wheels } = from
  if (!fs.existsSync(library)) {
    const fresh = `${library}.new`
    fs.rmSync(fresh, { recursive: true, force: true })
    fs.mkdirSync(fresh, { recursive: true })
    if (wheels) unpackWheels(wheels, fresh)
    else unpackDebian(from, fresh)
    fs.renameSync(fresh, library)
  }
  const shim = shimFor(library)
  const addon = path.join(folder, 'addon')
  fs.mkdirSync(addon, { recursive: true })
  const env = { ...process.env, DNNL_DIR: configOf(library) }
  const flags = `-Wl,--allow-shlib-undefined,--no-as-needed,${shim},-rpath,${path.dirname(shim ?? '')}`
  const more = shim ? ['SHARED', 'MODULE', 'EXE'].map((kind) => `-DCMAKE_${kind}_LINKER_FLAGS=${flags}`) : []
  run(...configuring(ROOT, addon, more), { env })
  run('cmake', ['--build', addon, '--parallel', String(os.availableParallelism())], { env })
  return path.join(addon, ADDON)
}

/** The version of the library that an addon loads. */
const loaded = (addon) => run(process.execPath, ['-e', 'console.log(require(process.argv[1]).deviceInfo().oneDnn)', addon]).trim()

/** Each version's addon; those that cannot be had, with why. */
const addons = (versions = Object.keys(VERSIONS)) =>
  versions.map((version) => {
    try {
      const addon = build(version, VERSIONS[version])
      return { version, from: VERSIONS[version].from, addon, oneDnn: loaded(addon) }
    } catch (e) {
      return { version, from: VERSIONS[version]?.from, why: e.message }
    }
  })

const asked = process.argv.slice(2).filter((name) => name !== '--json')
const built = addons(asked.length > 0 ? asked : undefined)
if (process.argv.includes('--json')) console.log(JSON.stringify(built))
else
  for (const { version, from, addon, oneDnn, why } of built)
    console.log(
      why ? `${version}, ${from}: not built: ${why}` : `${version}, ${from}: oneDNN ${oneDnn}, ${path.relative(ROOT, addon)}`,
    )
