// Pages for the site. In: docs/ and the files that its pages show, the API as TypeDoc writes it. Out: build/pages. Invariant: no link leaves the
// site: one to a file outside docs becomes its name, an image outside docs is copied beside the pages.
import { copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { basename, dirname, extname, join, relative } from 'node:path'
import { importsFor } from '../reference/examples'
import type { Exported } from '../reference/exports'

const IMAGES = ['.svg', '.png', '.jpg', '.webp']
/** The site has the page and the drawings of the laboratory, not the figures behind them. */
const isPage = (name: string): boolean => name.endsWith('.md') || IMAGES.includes(extname(name))

/** Below this folder, without the site's own package. */
const filesIn = (folder: string): readonly string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((e) => {
    const path = join(folder, e.name)
    if (e.isDirectory()) return e.name === 'site' || e.name === 'node_modules' ? [] : filesIn(path)
    return [path]
  })

/** A link or an image out of docs: the image comes along, the link becomes its text. */
const withinSite = (text: string, page: string, root: string, to: string): string => {
  const docs = join(root, 'docs')
  const isOutside = (path: string): boolean => relative(docs, path).startsWith('..')
  return text.replace(/(!?)\[([^\]]*)\]\(([^)\s]+)\)/g, (whole, image: string, shown: string, link: string) => {
    if (/^[a-z]+:|^#|^\//i.test(link)) return whole
    const path = join(dirname(page), link.split('#')[0]!)
    if (!isOutside(path)) return whole
    if (image === '') return shown
    const copied = join('images', basename(path))
    mkdirSync(join(to, 'images'), { recursive: true })
    copyFileSync(path, join(to, copied))
    const from = dirname(join(to, relative(docs, page)))
    return `![${shown}](${relative(from, join(to, copied)).replace(/^(?!\.)/, './')})`
  })
}

/** `docs/lab/README.md` is the page of its folder. */
const placeOf = (page: string): string => page.replace(/README\.md$/, 'index.md')
const withPlaces = (text: string): string => text.replace(/\]\(([^)\s:]*)README\.md(#[^)]*)?\)/g, ']($1index.md$2)')

export const copyPages = (root: string, to: string): void => {
  rmSync(to, { recursive: true, force: true })
  const docs = join(root, 'docs')
  for (const file of filesIn(docs).filter(isPage)) {
    const target = join(to, placeOf(relative(docs, file)))
    mkdirSync(dirname(target), { recursive: true })
    if (!file.endsWith('.md')) copyFileSync(file, target)
    else writeFileSync(target, withPlaces(withinSite(readFileSync(file, 'utf8'), file, root, to)))
  }
  cpSync(join(docs, 'site/public'), join(to, 'public'), { recursive: true })
  // The head of the front page names its picture by an address of the site, which no bundler replaces.
  cpSync(join(docs, 'images'), join(to, 'public/images'), { recursive: true })
}

/** Lists the pictures that pages of the finished site show and that are missing, each with a page. */
export const missingPictures = (site: string): readonly string[] =>
  filesIn(site)
    .filter((file) => extname(file) === '.html')
    .flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(/<img [^>]*src="(\/[^"]*)"/g)]
        .map(([, src]) => src!)
        .filter((src) => !existsSync(join(site, src)))
        .map((src) => `${relative(site, file)}: no picture ${src}`),
    )

// ---------------------------------------------------------------- the API

/** `O` → `[StageOptions](…)`: the constraints of a page's type parameters. */
const constraintsOf = (parameters: string): ReadonlyMap<string, string> =>
  new Map(
    [...parameters.matchAll(/^\| (?:<a id="[^"]*"><\/a> )?`(\w+)` \*extends\* (.*?) \|/gm)].map(([, name, type]) => [
      name!,
      type!,
    ]),
  )

/** Types of parameters as readers know them: constraints for type parameters, no checks of option keys. */
const withoutChecks = (text: string, constraints: ReadonlyMap<string, string>): string =>
  text
    .replace(/ & `Strays`\\<.*?\\>\\>(?= \|)/g, '')
    .replace(/^(\| `[^`]+` \| )(.*?)( \| .* \|)$/gm, (row, before: string, type: string, after: string) => {
      const single = /^`(\w+)`$/.exec(type)?.[1]
      const checked = /`Options`\\</.test(type) ? 'O' : undefined
      const plain = constraints.get(single ?? checked ?? '')
      return plain === undefined ? row : `${before}${plain}${after}`
    })

/** The section under a heading, without it. */
const section = (text: string, title: string): readonly [found: string, rest: string] => {
  const [found = ''] = new RegExp(`^## ${title}\\n[\\s\\S]*?(?=^## |(?![\\s\\S]))`, 'm').exec(text) ?? []
  return [found, found === '' ? text : text.replace(found, '')]
}

/** Summary, example with its imports, then the rest; type parameters are left to the declaration. */
export const apiPage = (text: string, exported: Exported): string => {
  const [parameters, plain] = section(text, 'Type Parameters')
  const [example, rest] = section(plain, 'Examples?')
  const complete = example.replace(
    /```ts\n([\s\S]*?)```/g,
    (_, code: string) => `\`\`\`ts\n${importsFor(code, exported)}${importsFor(code, exported) === '' ? '' : '\n'}${code}\`\`\``,
  )
  const at = rest.search(/^## /m)
  const put = at < 0 ? `${rest.trimEnd()}\n\n${complete}` : `${rest.slice(0, at)}${complete}${rest.slice(at)}`
  return withoutChecks(put, constraintsOf(parameters)).replace(/\n{3,}/g, '\n\n')
}

export const finishApi = (folder: string, exported: Exported, note: string): void => {
  for (const file of filesIn(folder).filter((f) => f.endsWith('.md'))) {
    const text = readFileSync(file, 'utf8')
    const isIndex = basename(file) === 'index.md'
    writeFileSync(file, isIndex ? text.replace(/^(# .*\n)/m, `$1\n${note}\n`) : apiPage(text, exported))
  }
}
