// The tarball for the registry. In: a checkout, the platform packages of this release. Out: the files of `npm pack`, with these as optional
// dependencies: npm then installs the one that fits the machine, and a missing one is no error. Invariant: the checkout's own package.json does not
// name them: before they are published, `npm ci` and yarn would fail there.
'use strict'
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')

/** A repacked package is complete: `prepack` would look for a checkout. */
const withPlatforms = ({ scripts = {}, ...manifest }, platforms) => ({
  ...manifest,
  scripts: Object.fromEntries(Object.entries(scripts).filter(([name]) => name !== 'prepack')),
  optionalDependencies: { ...manifest.optionalDependencies, ...platforms },
})

/** The name of the tarball in `out`; `run(command, args)` returns the command's output, or ends the process. */
const packWithPlatforms = (root, out, platforms, run) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'spillway-release-'))
  try {
    const packed = (...args) =>
      run('npm', ['pack', '--silent', '--pack-destination', ...args])
        .trim()
        .split('\n')
        .at(-1)
    run('tar', ['-xzf', path.join(folder, packed(folder, root)), '-C', folder])
    const file = path.join(folder, 'package', 'package.json')
    fs.writeFileSync(file, `${JSON.stringify(withPlatforms(JSON.parse(fs.readFileSync(file, 'utf8')), platforms), null, 2)}\n`)
    return packed(out, path.dirname(file))
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

module.exports = { packWithPlatforms, withPlatforms }
