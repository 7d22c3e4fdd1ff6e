// Generates docs/reference/mistakes.md. In: the calls of reference/mistakes.ts. Out: the page; with --check nothing is written, and the exit
// status is 1 if it differs.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { generate } from './generated'

// The calls run the compiled package.
spawnSync(process.execPath, [join(__dirname, 'setup.js'), '--compiled'], { stdio: 'inherit' })
const { mistakesPage } = require('./reference/mistakes') as typeof import('./reference/mistakes')

mistakesPage().then((page) => generate([['docs/reference/mistakes.md', () => page]], 'the answers of now', 'gen-mistakes.ts'))
