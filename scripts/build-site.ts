// `npm run docs`: the documentation as a static site in build/site. In: docs/, the exports of the package, the tools of docs/site, which are
// installed there first. Out: the site; a dead link or a missing picture ends it with 1. `--serve` shows the finished site at a local address.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { namesOf, readApi } from './reference/exports'
import { PRELUDE } from './reference/examples'
import { apiSidebarsOf, sidebarOf } from './site/sidebar'
import { copyPages, finishApi, missingPictures } from './site/pages'

const ROOT = join(__dirname, '..')
const SITE = join(ROOT, 'docs/site')
const PAGES = join(ROOT, 'build/pages')

const run = (command: string, args: readonly string[], cwd: string): void => {
  const { status } = spawnSync(command, args, { cwd, stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

/** The tools are installed once for each lock file. */
const installTools = (): void => {
  const stamp = join(SITE, 'node_modules/.stamp')
  const lock = createHash('sha256')
    .update(readFileSync(join(SITE, 'package-lock.json')))
    .digest('hex')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock) return
  run('npm', ['ci', '--ignore-scripts'], SITE)
  writeFileSync(stamp, lock)
}
const tool = (file: string, ...args: readonly string[]): void =>
  run(process.execPath, [join('node_modules', file), ...args], SITE)

const NOTE = `Every export of the package, from its declaration. [Layers](../layers.md) lists the layers by purpose.

Examples import from \`spillway\`. Names that an example uses and does not declare come from this program:

\`\`\`ts
${PRELUDE}\`\`\`
`

const build = (): void => {
  copyPages(ROOT, PAGES)
  // Pages import Vue, which Node looks for beside them.
  symlinkSync(join(SITE, 'node_modules'), join(PAGES, 'node_modules'))
  tool('typedoc/bin/typedoc')
  finishApi(join(PAGES, 'reference/api'), namesOf(readApi()), NOTE)
  writeFileSync(join(PAGES, 'sidebar.json'), JSON.stringify({ ...apiSidebarsOf(PAGES), '/': sidebarOf(PAGES) }))
  tool('vitepress/bin/vitepress.js', 'build', '.')
  const missing = missingPictures(join(ROOT, 'build/site'))
  for (const line of missing) console.error(line)
  if (missing.length > 0) process.exit(1)
}

const serve = process.argv.includes('--serve')
installTools()
if (!serve) build()
else tool('vitepress/bin/vitepress.js', 'preview', '.')
