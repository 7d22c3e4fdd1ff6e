// The sidebar of the site. In: the pages that exist, the fixed order of each part. Out: groups of titles and links. Invariant: every page is
// listed once; a page that no list names is at the end of the guides or of the internals, so that none is lost.
import { readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'

export interface Item {
  readonly text: string
  readonly link?: string
  readonly collapsed?: boolean
  readonly items?: readonly Item[]
}

const START = ['getting-started', 'composing']
const GUIDES = [
  'data',
  'training',
  'evaluating',
  'predicting',
  'fine-tuning',
  'exchange',
  'runs',
  'configuration',
  'gpu',
  'devices',
  'distributed',
  'graphs',
  'reading-a-plan',
  'modules',
  'performance',
]
const COOKBOOK = ['cookbook']
const REFERENCE = ['layers', 'options', 'cli']
const INTERNALS = [
  'architecture',
  'planners',
  'memory',
  'tiles',
  'operators',
  'add-an-operator',
  'tape',
  'cuda',
  'onednn',
  'development',
  'benchmarks',
  'releases',
  'environment',
]
/** At the end of the reference. */
const TERMS = ['glossary']
const HIDDEN = ['index']

const pagesIn = (folder: string): readonly string[] => {
  try {
    return readdirSync(folder)
      .filter((f) => f.endsWith('.md'))
      .map((f) => basename(f, '.md'))
      .sort()
  } catch {
    return []
  }
}

/** The first heading, as plain text. */
export const titleOf = (file: string): string => {
  const heading = /^# (.*)$/m.exec(readFileSync(file, 'utf8'))?.[1] ?? basename(file, '.md')
  return heading.replace(/[`*]|\\(?=[<>*])/g, '').replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
}

export const sidebarOf = (pages: string): readonly Item[] => {
  const item = (at: string): Item => ({ text: titleOf(join(pages, `${at}.md`)), link: `/${at}` })
  const items = (folder: string, order: readonly string[], rest: boolean): readonly Item[] => {
    const there = pagesIn(join(pages, folder))
    const listed = order.filter((name) => there.includes(name))
    return [...listed, ...(rest ? there.filter((name) => !order.includes(name)) : [])].map((name) =>
      item(folder === '' ? name : `${folder}/${name}`),
    )
  }
  const named = [...START, ...GUIDES, ...COOKBOOK, ...TERMS, ...HIDDEN]
  const others = pagesIn(pages)
    .filter((name) => !named.includes(name))
    .map(item)
  const api = items('reference/api', ['index'], false).map((i) => ({ ...i, text: 'API', link: '/reference/api/' }))
  const lab = items('lab', ['index'], true).map((i) => (i.link === '/lab/index' ? { ...i, link: '/lab/' } : i))
  const decisions = items('internals/decisions', ['index'], true).map((i) =>
    i.link === '/internals/decisions/index' ? { ...i, link: '/internals/decisions/' } : i,
  )
  const groups: readonly (readonly [string, readonly Item[], boolean])[] = [
    ['Getting started', items('', START, false), false],
    ['Guides', [...items('', GUIDES, false), ...others], false],
    ['Cookbook', items('', COOKBOOK, false), false],
    ['Reference', [...items('reference', REFERENCE, true), ...api, ...items('', TERMS, false)], false],
    ['Internals', items('internals', INTERNALS, true), true],
    ['Decisions', decisions, true],
    ['Laboratory', lab, true],
  ]
  return groups
    .filter(([, inside]) => inside.length > 0)
    .map(([text, inside, collapsed]) => ({ text, items: inside, ...(collapsed ? { collapsed } : { collapsed: false }) }))
}

const KINDS = [
  ['functions', 'Functions'],
  ['variables', 'Constants'],
  ['classes', 'Classes'],
  ['interfaces', 'Interfaces'],
  ['types', 'Types'],
] as const

const ABOVE: Item = {
  text: 'Reference',
  items: [
    { text: 'Layers', link: '/reference/layers' },
    { text: 'Options', link: '/reference/options' },
    { text: 'Commands', link: '/reference/cli' },
    { text: 'API', link: '/reference/api/' },
  ],
}

/** Sidebars of the API, one for each kind of export: one for all of them would be 340 links on 340 pages. */
export const apiSidebarsOf = (pages: string): Readonly<Record<string, readonly Item[]>> => {
  const root = join(pages, 'reference/api')
  const named = KINDS.map(([folder, text]) => {
    const names = [...pagesIn(join(root, folder))].sort((a, b) => (a.toLowerCase() < b.toLowerCase() ? -1 : 1))
    return { folder, text, items: names.map((name) => ({ text: name, link: `/reference/api/${folder}/${name}` })) }
  }).filter(({ items }) => items.length > 0)
  const short = named.map(({ folder, text }) => ({
    text,
    link: `/reference/api/#${folder === 'types' ? 'type-aliases' : folder}`,
  }))
  return Object.fromEntries([
    ...named.map(({ folder, items }, i) => [
      `/reference/api/${folder}/`,
      [ABOVE, ...short.map((kind, k) => (k === i ? { text: kind.text, collapsed: false, items } : kind))],
    ]),
    ['/reference/api/', [ABOVE, ...short]],
  ])
}
