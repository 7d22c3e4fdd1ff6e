// The doors of the compiled package for ES modules. In: dist/src/index.js and dist/models/*.js, CommonJS as they are compiled. Out: an .mjs and a
// .d.mts beside each, with the same names and types. Invariant: both doors lead to one copy of every module.
'use strict'
const fs = require('node:fs')
const path = require('node:path')

const doors = (dist) => [
  path.join(dist, 'src', 'index.js'),
  ...fs
    .readdirSync(path.join(dist, 'models'))
    .filter((name) => name.endsWith('.js'))
    .map((name) => path.join(dist, 'models', name)),
]

const writeDoor = (file) => {
  const exported = Object.keys(require(file)).filter((name) => name !== '__esModule')
  const names = exported.filter((name) => name !== 'default')
  const hasDefault = names.length < exported.length
  const from = `./${path.basename(file)}`
  const code = [
    `import all from '${from}'`,
    `export const { ${names.join(', ')} } = all`,
    ...(hasDefault ? ['export default all.default'] : []),
  ]
  const types = [
    `export * from '${from}'`,
    ...(hasDefault
      ? [
          `import all from '${from}'`,
          // Node gives the whole export of the file, bundlers its default export.
          'declare const all_default: typeof all extends { default: infer D } ? D : typeof all',
          'export default all_default',
        ]
      : []),
  ]
  fs.writeFileSync(file.replace(/\.js$/, '.mjs'), `${code.join('\n')}\n`)
  fs.writeFileSync(file.replace(/\.js$/, '.d.mts'), `${types.join('\n')}\n`)
}

module.exports = { doors }

/** In a process of its own, because it loads freshly compiled files: `node modules.js DIST`. */
if (require.main === module) doors(path.resolve(process.argv[2])).forEach(writeDoor)
