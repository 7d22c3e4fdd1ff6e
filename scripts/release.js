// `npm run release`: everything up to publishing. In: a clean checkout whose version has a section in CHANGELOG.md. Out: in build/release, the
// platform packages and spillway-….tgz, which names them, tried as `npm run acceptance -- install prebuilt` does; the lines that would publish them.
// `-- --pack` packs the present state, and tries nothing. Invariant: it publishes nothing.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const { PLATFORMS } = require('./prebuilt/platforms')
const { sectionOf } = require('./release/changelog')
const { packWithPlatforms } = require('./release/pack')
const { ROOT } = require('./setup')
const { platformPackage } = require('./setup/prebuilt')

const { version } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8'))
const OUT = path.join(ROOT, 'build', 'release')

const stop = (why) => {
  console.error(`release: ${why}`)
  process.exit(1)
}

const run = (command, args, options = {}) => {
  console.log(`$ ${command} ${args.join(' ')}`)
  const { status, stdout } = spawnSync(command, args, {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
    ...options,
  })
  if (status !== 0) stop(`${command} ${args[0]} failed`)
  return stdout
}

const pack = () => {
  fs.rmSync(OUT, { recursive: true, force: true })
  fs.mkdirSync(OUT, { recursive: true })
  const platforms = Object.keys(PLATFORMS).map((arch) => {
    const name = `spillway-linux-${arch}-${version}.tgz`
    const made = path.join(ROOT, 'build', 'prebuilt', name)
    if (!fs.existsSync(made)) stop(`there is no ${path.relative(ROOT, made)}: npm run prebuilt -- ${arch} makes it`)
    fs.copyFileSync(made, path.join(OUT, name))
    return name
  })
  const own = packWithPlatforms(
    ROOT,
    OUT,
    Object.fromEntries(Object.keys(PLATFORMS).map((arch) => [platformPackage(arch), version])),
    run,
  )
  // Platforms first: until they are there, installing spillway would build its addon.
  const files = [...platforms, own].map((name) => path.relative(ROOT, path.join(OUT, name)))
  for (const file of files) console.log(`${file}: ${(fs.statSync(path.join(ROOT, file)).size / 1e6).toFixed(2)} MB`)
  console.log(`nothing is published. To publish:\n\n${files.map((file) => `  npm publish --access public ${file}`).join('\n')}\n`)
}

const main = (args) => {
  if (args.includes('--pack')) return pack()
  if (run('git', ['status', '--porcelain']) !== '') stop('the checkout has changes that are not committed')
  if (!sectionOf(fs.readFileSync(path.join(ROOT, 'CHANGELOG.md'), 'utf8'), version))
    stop(`CHANGELOG.md has no section '## [${version}]', or an empty one`)
  for (const arch of Object.keys(PLATFORMS)) run('npm', ['run', '--silent', 'prebuilt', '--', arch], { stdio: 'inherit' })
  run('npm', ['run', '--silent', 'acceptance', '--', 'install', 'prebuilt'], { stdio: 'inherit' })
  pack()
}

main(process.argv.slice(2))
