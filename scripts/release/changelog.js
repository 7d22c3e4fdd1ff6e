// The sections of CHANGELOG.md, in the form of keepachangelog.com. In: its text and a version. Out: the text of the version's section, or
// null if it has none.
'use strict'

const sectionOf = (changelog, version) => {
  const start = changelog.indexOf(`\n## [${version}]`)
  if (start < 0) return null
  const body = changelog.indexOf('\n', start + 1)
  const end = changelog.indexOf('\n## [', start + 1)
  return changelog.slice(body < 0 ? changelog.length : body, end < 0 ? undefined : end).trim()
}

module.exports = { sectionOf }
