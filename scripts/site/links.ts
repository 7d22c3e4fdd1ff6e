// Links of Markdown pages. In: pages, files of the repository. Out: each link whose file or heading does not exist, with its line.
// Invariant: anchors are those of GitHub, which the site uses, too; links to other hosts are not followed.
import { existsSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, normalize, relative } from 'node:path'
import { slug } from '../reference/markdown'

/** The text with code as spaces, line by line as before. */
const withoutCode = (text: string): string =>
  text
    .replace(/^(```|~~~)[\s\S]*?^\1/gm, (block) => block.replace(/[^\n]/g, ' '))
    .replace(/`[^`\n]*`/g, (span) => ' '.repeat(span.length))
    .replace(/<!--[\s\S]*?-->/g, (comment) => comment.replace(/[^\n]/g, ' '))

/** A heading as it is shown. */
const shown = (heading: string): string =>
  heading
    .replace(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/\\(?=[^\w\s])/g, '')
    .replace(/[`*]/g, '')
    .replace(/<[^>]*>/g, '')

/** All anchors of a page. */
export const anchorsOf = (text: string): ReadonlySet<string> => {
  const anchors = new Set([...text.matchAll(/<a (?:id|name)="([^"]+)"/g)].map(([, id]) => id!))
  const seen = new Map<string, number>()
  const plain = text.replace(/^(```|~~~)[\s\S]*?^\1/gm, '')
  for (const [, heading] of plain.matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const id = slug(shown(heading!))
    const times = seen.get(id) ?? 0
    seen.set(id, times + 1)
    anchors.add(times === 0 ? id : `${id}-${times}`)
  }
  return anchors
}

export interface Link {
  readonly line: number
  readonly to: string
}

/** `[text](to)`, `![text](to)`, `href="to"`, `src="to"`, and `link: to` of a front page. */
export const linksOf = (text: string): readonly Link[] => {
  const bare = withoutCode(text)
  const front = /^---\n[\s\S]*?\n---\n/.exec(text)?.[0] ?? ''
  const found = [
    ...[...bare.matchAll(/\]\(<?([^)\s>]+)>?(?:\s+"[^"]*")?\)/g)],
    ...[...bare.matchAll(/\b(?:href|src)="([^"]+)"/g)],
    ...[...front.matchAll(/^\s*link: *(\S+)$/gm)],
  ]
  return found.map((m) => ({ line: text.slice(0, m.index).split('\n').length, to: m[1]! }))
}

const isFar = (to: string): boolean => /^[a-z][a-z+.-]*:/i.test(to)

/** A page of the site without its suffix, a folder with a page, or the file itself. */
const fileFor = (path: string): string | undefined =>
  [path, `${path}.md`, join(path, 'index.md'), join(path, 'README.md')].find((f) => existsSync(f) && statSync(f).isFile()) ??
  (existsSync(path) ? path : undefined)

/** `site`: the folder that links with a leading slash begin at. */
export const deadLinks = (root: string, page: string, site: string): readonly string[] => {
  const text = readFileSync(join(root, page), 'utf8')
  return linksOf(text).flatMap(({ line, to }) => {
    if (isFar(to)) return []
    const [path = '', anchor = ''] = decodeURI(to).split('#')
    const at = path.startsWith('/') ? join(root, site, path) : join(root, dirname(page), path)
    const file = path === '' ? join(root, page) : fileFor(normalize(at))
    if (file === undefined || relative(root, file).startsWith('..')) return [`${page}:${line}: ${to}: there is no such file`]
    if (anchor === '' || !file.endsWith('.md')) return []
    return anchorsOf(readFileSync(file, 'utf8')).has(anchor) ? [] : [`${page}:${line}: ${to}: the page has no such heading`]
  })
}
