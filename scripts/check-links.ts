// Every relative link and anchor of every page leads somewhere. In: the Markdown files that git tracks or would add. Out: each dead link with
// its page and line, and the exit status 1 if there is one. The reference by TypeDoc is checked when the site is built.
import { join } from 'node:path'
import { filesOf } from './check-hygiene'
import { deadLinks } from './site/links'

const ROOT = join(__dirname, '..')
/** Made by a build, so a page may link to it before it exists. */
const BUILT = /(^|\/)reference\/api\//

const pages = filesOf(ROOT).filter((f) => f.endsWith('.md'))
const dead = pages.flatMap((page) => deadLinks(ROOT, page, 'docs')).filter((problem) => !BUILT.test(problem.split(': ')[1] ?? ''))
for (const problem of dead) console.error(problem)
process.exitCode = dead.length > 0 ? 1 : 0
