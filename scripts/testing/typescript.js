// Loads TypeScript without checking it, as ts-node's transpile-only does, and remembers the JavaScript by content.
// In: `node -r` this file. Out: `require` takes .ts files. Invariant: a cached file is whole, and belongs to exactly this
// source, compiler version and these options. (Starting ts-node and translating everything takes a test process seconds.)
'use strict'
const { createHash } = require('node:crypto')
const fs = require('node:fs')
const path = require('node:path')

const ROOT = path.resolve(__dirname, '..', '..')
const CACHE = path.join(ROOT, 'build', 'transpiled')
const OPTIONS = { target: 'ES2022', module: 'CommonJS', esModuleInterop: true, inlineSourceMap: true, inlineSources: false }
const { version } = JSON.parse(fs.readFileSync(path.join(ROOT, 'node_modules', 'typescript', 'package.json'), 'utf8'))
const KEY = `${version} ${JSON.stringify(OPTIONS)}`

const read = (file) => {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

const translate = (source, file) =>
  require('typescript').transpileModule(source, { fileName: file, compilerOptions: OPTIONS }).outputText

const remember = (cached, text) => {
  fs.mkdirSync(CACHE, { recursive: true })
  const temporary = `${cached}.${process.pid}.tmp`
  fs.writeFileSync(temporary, text)
  fs.renameSync(temporary, cached)
}

const javascriptOf = (file) => {
  const source = fs.readFileSync(file, 'utf8')
  const name = createHash('sha256').update(`${KEY}\0${file}\0${source}`).digest('hex')
  const cached = path.join(CACHE, `${name}.js`)
  const known = read(cached)
  if (known !== null) return known
  const text = translate(source, file)
  remember(cached, text)
  return text
}

process.setSourceMapsEnabled(true)
require('node:module')._extensions['.ts'] = (module, file) => module._compile(javascriptOf(file), file)
