// In: files and folders of the checkout. Out: one key for their contents, and stamps that remember for which key a
// build product was made. Invariant: a stamp is written last and whole, so an interrupted build never looks finished.
'use strict'
const { createHash } = require('node:crypto')
const fs = require('node:fs')
const path = require('node:path')

/** Every file below the given paths (files or folders), sorted, hidden ones left out. */
const filesUnder = (root, entries) => {
  const found = []
  const visit = (relative) => {
    const stat = fs.statSync(path.join(root, relative), { throwIfNoEntry: false })
    if (!stat) return
    if (stat.isFile()) return void found.push(relative)
    for (const name of fs.readdirSync(path.join(root, relative))) {
      if (!name.startsWith('.') && name !== 'node_modules') visit(path.join(relative, name))
    }
  }
  for (const entry of entries) visit(entry)
  return found.sort()
}

/** Names and contents of the files, plus other inputs of the product. */
const contentKey = (root, files, extra = '') => {
  const hash = createHash('sha256').update(extra)
  for (const file of files) {
    const bytes = fs.readFileSync(path.join(root, file))
    hash.update(`\0${file}\0${bytes.length}\0`).update(bytes)
  }
  return hash.digest('hex')
}

const stampHolds = (file, key) => {
  try {
    return fs.readFileSync(file, 'utf8') === `${key}\n`
  } catch {
    return false
  }
}

const writeStamp = (file, key) => {
  fs.mkdirSync(path.dirname(file), { recursive: true })
  const temporary = `${file}.${process.pid}.tmp`
  fs.writeFileSync(temporary, `${key}\n`)
  fs.renameSync(temporary, file)
}

const removeStamp = (file) => fs.rmSync(file, { force: true })

module.exports = { filesUnder, contentKey, stampHolds, writeStamp, removeStamp }
