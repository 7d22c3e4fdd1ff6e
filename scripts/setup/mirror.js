// The mirror that this system's packages come from. In: apt's own lists of sources. Out: its address, where this is a Debian; it has the
// other releases, too. Invariant: no address stands here.
'use strict'
const fs = require('node:fs')
const path = require('node:path')

const read = (file) => (fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : '')

const aptFiles = () => {
  const folder = '/etc/apt/sources.list.d'
  const more = fs.existsSync(folder) ? fs.readdirSync(folder).sort() : []
  return ['/etc/apt/sources.list', ...more.map((name) => path.join(folder, name))].filter((file) =>
    /\.(list|sources)$/.test(file),
  )
}

/** `deb [options] URI SUITE …` in a .list, `URIs:` and `Suites:` in a stanza of a .sources. */
const sources = (text) => [
  ...[...text.matchAll(/^deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+(\S+)/gm)].map(([, uri, suite]) => ({ uri, suites: [suite] })),
  ...text.split(/\n\s*\n/).flatMap((stanza) => {
    const field = (name) => new RegExp(`^${name}:\\s*(.+)$`, 'm').exec(stanza)?.[1].trim().split(/\s+/)
    const uri = field('URIs')?.[0]
    return uri === undefined ? [] : [{ uri, suites: field('Suites') ?? [] }]
  }),
]

const mirror = () => {
  const release = read('/etc/os-release')
  if (!/^ID="?debian"?$/m.test(release)) return undefined
  const codename = /^VERSION_CODENAME="?(\w+)/m.exec(release)?.[1]
  return aptFiles()
    .flatMap((file) => sources(read(file)))
    .find(({ suites }) => suites.includes(codename))?.uri
}

module.exports = { mirror }
