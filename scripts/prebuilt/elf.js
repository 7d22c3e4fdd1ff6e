// Reads a shared object as the loader does: its processor, its needed libraries and symbol versions, its search paths, its exported names.
// In: a 64-bit little-endian ELF file with section headers. Out: these facts. Invariant: nothing is run.
'use strict'
const fs = require('node:fs')

const MACHINES = { 62: 'x64', 183: 'arm64' }
const SECTION = { dynamic: 6, symbols: 11, versionsNeeded: 0x6ffffffe }
const TAG = { needed: 1, soname: 14, rpath: 15, runpath: 29 }

const sectionsOf = (file) => {
  const at = Number(file.readBigUInt64LE(40))
  const [size, count] = [file.readUInt16LE(58), file.readUInt16LE(60)]
  return Array.from({ length: count }, (_, i) => {
    const header = file.subarray(at + i * size, at + (i + 1) * size)
    const number = (place) => Number(header.readBigUInt64LE(place))
    return {
      type: header.readUInt32LE(4),
      link: header.readUInt32LE(40),
      info: header.readUInt32LE(44),
      bytes: header.readUInt32LE(4) === 8 ? Buffer.alloc(0) : file.subarray(number(24), number(24) + number(32)),
    }
  })
}

const textAt = (bytes, at) => bytes.toString('latin1', at, bytes.indexOf(0, at))

/** Libraries, names and paths of the dynamic section, by tag. */
const dynamicOf = (section, strings) => {
  const entries = []
  for (let at = 0; at < section.bytes.length; at += 16)
    entries.push([Number(section.bytes.readBigInt64LE(at)), Number(section.bytes.readBigUInt64LE(at + 8))])
  return (tag) => entries.filter(([found]) => found === tag).map(([, name]) => textAt(strings, name))
}

/** A record for each library, and in it one for each version. */
const versionsOf = (section, strings) => {
  const versions = []
  const { bytes, info } = section
  for (let library = 0, at = 0; library < info; library++) {
    let version = at + bytes.readUInt32LE(at + 8)
    for (let i = 0; i < bytes.readUInt16LE(at + 2); i++) {
      versions.push(textAt(strings, bytes.readUInt32LE(version + 8)))
      version += bytes.readUInt32LE(version + 12)
    }
    at += bytes.readUInt32LE(at + 12)
  }
  return versions
}

/** Symbols that are defined here and that others may bind to. */
const exportsOf = (section, strings) => {
  const names = []
  for (let at = 0; at < section.bytes.length; at += 24) {
    const isBound = section.bytes[at + 4] >> 4 !== 0
    const isHere = section.bytes.readUInt16LE(at + 6) !== 0
    if (isBound && isHere) names.push(textAt(strings, section.bytes.readUInt32LE(at)))
  }
  return names
}

const readElf = (name) => {
  const file = fs.readFileSync(name)
  if (file.readUInt32BE(0) !== 0x7f454c46 || file[4] !== 2 || file[5] !== 1)
    throw new Error(`${name} is not a 64-bit little-endian ELF file`)
  const sections = sectionsOf(file)
  const read = (type, reader, nothing) => {
    const section = sections.find((s) => s.type === type)
    return section === undefined ? nothing : reader(section, sections[section.link].bytes)
  }
  const dynamic = read(SECTION.dynamic, dynamicOf, () => [])
  return {
    arch: MACHINES[file.readUInt16LE(18)] ?? 'another',
    soname: dynamic(TAG.soname)[0] ?? null,
    needed: dynamic(TAG.needed),
    paths: [...dynamic(TAG.rpath), ...dynamic(TAG.runpath)],
    versions: read(SECTION.versionsNeeded, versionsOf, []),
    exports: read(SECTION.symbols, exportsOf, []),
  }
}

module.exports = { readElf }
