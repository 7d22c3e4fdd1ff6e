// `npm run release`: everything up to publishing. In: a clean checkout whose version CHANGELOG.md tells of. Out: build/release/spillway-….tgz, that
// was installed and tried as `npm run acceptance -- install` does; the line that would publish it. Invariant: it publishes nothing.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const { ROOT } = require('./setup')

const { name, version } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8'))
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

const main = () => {
  if (run('git', ['status', '--porcelain']) !== '') stop('the checkout has changes that are not committed')
  const told = fs.readFileSync(path.join(ROOT, 'CHANGELOG.md'), 'utf8')
  if (!told.includes(`\n## ${version}`)) stop(`CHANGELOG.md says nothing of ${version}`)
  run('npm', ['run', '--silent', 'acceptance', '--', 'install'], { stdio: 'inherit' })
  fs.rmSync(OUT, { recursive: true, force: true })
  fs.mkdirSync(OUT, { recursive: true })
  run('npm', ['pack', '--pack-destination', OUT])
  const tarball = path.relative(ROOT, path.join(OUT, `${name}-${version}.tgz`))
  console.log(
    `${tarball}: ${(fs.statSync(tarball).size / 1e6).toFixed(2)} MB; nothing is published. To publish it:\n\n  npm publish ${tarball}\n`,
  )
}

main()
