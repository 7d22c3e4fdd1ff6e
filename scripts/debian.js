// Spillway on a fresh Debian: a root made with debootstrap, Node, a clean clone, `npm start`, `npm test`, `doctor`. In: this system's
// mirror, proxies and certificates, read at run time. Out: the output of the commands; exit code 1 when one fails.
// Invariant: set-up alone installs the needs of the native build; mounts end with the process that made them.
//
//   node scripts/debian.js trixie                        Debian 13; a root under the system's temporary folder, removed at the end
//   node scripts/debian.js bookworm                      Debian 12, with this system's Node: its own is too old
//   node scripts/debian.js trixie --keep DIR swaps       the root stays in DIR and is used again; only the tests about `swaps`
//   node scripts/debian.js bookworm --install NPM.tgz PLATFORM.tgz
//                                                        the packages in an empty project, then `spillway setup cuda`: no clone, no compiler
//   SPILLWAY_DEBIAN13=DIR, SPILLWAY_DEBIAN12=DIR         the same for check:full and acceptance
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { mirror } = require('./setup/mirror')
const { onPath } = require('./setup/system')

const ROOT = path.dirname(__dirname)
/** Each suite with its packages and the variable that names a kept root. */
const SUITES = {
  trixie: { packages: ['ca-certificates', 'git', 'nodejs', 'npm'], kept: process.env.SPILLWAY_DEBIAN13 },
  bookworm: {
    packages: ['ca-certificates', 'git', 'libatomic1', 'libstdc++6'],
    kept: process.env.SPILLWAY_DEBIAN12,
    copiesNode: true,
  },
}
/** The root's folders of the clone and of a project, and the certificates that this system trusts. */
const CLONE = '/srv/spillway'
const PROJECT = '/srv/project'
const CERTIFICATES = '/etc/ssl/host-certificates.pem'

const read = (file) => (fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '')
const output = (command, ...args) => spawnSync(command, args, { encoding: 'utf8', cwd: ROOT }).stdout?.trim() ?? ''

// ---------------------------------------------------------------- what this system has

/** apt's settings for fetching, proxies among them. */
const aptFetching = () =>
  output('apt-config', 'dump')
    .split('\n')
    .filter((line) => /^Acquire::(https?::Proxy|Check-|Retries)/.test(line))
    .join('\n')

const aptProxy = () => /^Acquire::http::Proxy "(.+)";$/m.exec(aptFetching())?.[1]

const PROXIES = ['http_proxy', 'https_proxy', 'no_proxy', 'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY']
const proxies = () => PROXIES.filter((name) => process.env[name]).map((name) => `${name}=${process.env[name]}`)

const npmSetting = (name) => {
  const value = output('npm', 'config', 'get', name)
  return value === '' || value === 'null' || value === 'undefined' ? undefined : value
}

/** How npm reaches its registry here. Certificates get a place of their own in the root. */
const npmFetching = () =>
  ['registry', 'proxy', 'https-proxy', 'noproxy']
    .map((name) => [name, npmSetting(name)])
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')

const hostCertificates = () =>
  [npmSetting('cafile'), process.env.NODE_EXTRA_CA_CERTS, '/etc/ssl/certs/ca-certificates.crt'].find(
    (file) => file !== undefined && fs.existsSync(file),
  )

const whyNot = () => {
  if (process.getuid?.() !== 0) return 'only root makes a root folder with debootstrap'
  if (mirror() === undefined) return 'this system is not a Debian whose mirror could be asked for another release'
  const tool = ['debootstrap', 'unshare', 'chroot', 'git'].find((command) => onPath(command) === null)
  return tool && `${tool} is not installed: apt-get install -y debootstrap git`
}

// ---------------------------------------------------------------- the root

const run = (what, command, args, env = process.env) => {
  console.log(`\n== ${what}`)
  const began = Date.now()
  const { status, error } = spawnSync(command, args, { cwd: ROOT, stdio: ['ignore', 'inherit', 'inherit'], env })
  console.log(
    `== ${what}: ${status === 0 ? 'ok' : `FAILED ${error?.message ?? ''}`} (${((Date.now() - began) / 1000).toFixed(0)} s)`,
  )
  return status === 0
}

/** In a namespace of its own, which ends all of its mounts and processes. */
const inside = (root, what, line) => {
  const mounts = ['dev', 'sys'].map((name) => `mount --rbind /${name} ${root}/${name}`)
  const environment = ['HOME=/root', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'LANG=C.UTF-8']
  const settings = [...environment, 'DEBIAN_FRONTEND=noninteractive', `NODE_EXTRA_CA_CERTS=${CERTIFICATES}`, ...proxies()]
  const script = `set -e; ${mounts.join('; ')}; mount -t proc proc ${root}/proc; exec chroot ${root} /usr/bin/env -i "$@"`
  const command = [...settings, '/bin/sh', '-c', line]
  return run(what, 'unshare', ['--mount', '--pid', '--fork', '--kill-child', 'sh', '-c', script, 'sh', ...command])
}

const bootstrap = (suite, root) => {
  if (fs.existsSync(path.join(root, 'etc', 'os-release')) && !fs.existsSync(path.join(root, 'debootstrap'))) return true
  const proxy = aptProxy()
  const env = proxy === undefined ? process.env : { http_proxy: proxy, ...process.env }
  return run(`debootstrap ${suite}`, 'debootstrap', ['--variant=minbase', suite, root, mirror()], env)
}

const carryIn = (root) => {
  const write = (file, text) => fs.writeFileSync(path.join(root, file), text)
  fs.copyFileSync('/etc/resolv.conf', path.join(root, 'etc/resolv.conf'))
  write('etc/apt/apt.conf.d/00host', `${aptFetching()}\n`)
  // Each of hundreds of packages would wait for the disk.
  write('etc/dpkg/dpkg.cfg.d/unsafe', 'force-unsafe-io\n')
  fs.mkdirSync(path.join(root, 'etc/ssl'), { recursive: true })
  write(CERTIFICATES, read(hostCertificates() ?? ''))
  write('root/.npmrc', `${npmFetching()}cafile=${CERTIFICATES}\n`)
}

/** A kept root has its build products, too: only changed ones are built again. */
const clone = (root) => {
  const place = path.join(root, CLONE)
  if (fs.existsSync(place)) {
    const update = `git -C ${place} fetch --quiet ${ROOT} HEAD && git -C ${place} reset --quiet --hard FETCH_HEAD`
    return run('what changed since', 'sh', ['-c', update])
  }
  fs.mkdirSync(path.dirname(place), { recursive: true })
  return run('a clean clone', 'git', ['clone', '--quiet', '--no-hardlinks', ROOT, place])
}

/** Copies this system's Node and npm to the place where they need no package. */
const copyNode = (root) => {
  const modules = path.join(root, 'usr/local/lib/node_modules')
  const npm = path.resolve(path.dirname(fs.realpathSync(onPath('npm'))), '..')
  fs.mkdirSync(modules, { recursive: true })
  fs.copyFileSync(fs.realpathSync(process.execPath), path.join(root, 'usr/local/bin/node'))
  // A kept root has npm already, and cpSync does not copy a link onto a link.
  fs.rmSync(path.join(modules, 'npm'), { recursive: true, force: true })
  fs.cpSync(npm, path.join(modules, 'npm'), { recursive: true })
  for (const name of ['npm', 'npx']) {
    const link = path.join(root, 'usr/local/bin', name)
    fs.rmSync(link, { force: true })
    fs.symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, link)
  }
}

const tryIn = (suite, root, patterns) => {
  const { packages, copiesNode } = SUITES[suite]
  const test = ['npm test', ...(patterns.length > 0 ? ['--', ...patterns] : [])].join(' ')
  if (!bootstrap(suite, root)) return false
  carryIn(root)
  if (copiesNode) copyNode(root)
  const installing = `apt-get update -q && apt-get install -q -y --no-install-recommends ${packages.join(' ')}`
  if (!clone(root) || !inside(root, 'Node and git', installing)) return false
  const doctor = '. /etc/os-release && echo "$PRETTY_NAME" && npx spillway doctor'
  return ['npm start', test, doctor].every((line) => inside(root, line, `cd ${CLONE} && ${line}`))
}

/** A user's project: Node, the packages, and the one command for GPUs. */
const installIn = (root, tarballs) => {
  if (!bootstrap('bookworm', root)) return false
  carryIn(root)
  copyNode(root)
  const project = path.join(root, PROJECT)
  fs.rmSync(project, { recursive: true, force: true })
  fs.mkdirSync(project, { recursive: true })
  fs.writeFileSync(path.join(project, 'package.json'), '{ "name": "empty", "private": true }')
  for (const file of tarballs) fs.copyFileSync(file, path.join(project, path.basename(file)))
  const files = tarballs.map((file) => `./${path.basename(file)}`).join(' ')
  const libraries = 'apt-get update -q && apt-get install -q -y --no-install-recommends ca-certificates libatomic1 libstdc++6'
  const lines = [
    ['libraries of Node', libraries],
    ['npm install', `cd ${PROJECT} && npm install --no-audit --no-fund ${files}`],
    ['setup cuda --dry-run', `cd ${PROJECT} && npx spillway setup cuda --dry-run`],
    ['setup cuda', `cd ${PROJECT} && npx spillway setup cuda`],
  ]
  return lines.every(([what, line]) => inside(root, what, line))
}

const main = ([suite, ...args]) => {
  if (!(suite in SUITES)) {
    console.error(
      `usage: node scripts/debian.js ${Object.keys(SUITES).join('|')} [--keep DIR [PATTERN ...]] | bookworm --install NPM.tgz PLATFORM.tgz`,
    )
    process.exit(2)
  }
  const why = whyNot()
  if (why) return void console.log(`skipped: ${why}`)
  const named = args[0] === '--keep' ? args[1] : SUITES[suite].kept
  const kept = named ? path.resolve(named) : undefined
  const root = kept ?? fs.mkdtempSync(path.join(os.tmpdir(), `spillway-${suite}-`))
  try {
    const isRight =
      args[0] === '--install' ? installIn(root, args.slice(1)) : tryIn(suite, root, args[0] === '--keep' ? args.slice(2) : args)
    if (!isRight) process.exitCode = 1
  } finally {
    if (kept === undefined) fs.rmSync(root, { recursive: true, force: true })
  }
}

main(process.argv.slice(2))
