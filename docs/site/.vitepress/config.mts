// The site: pages from build/pages, the sidebar that scripts/build-site.ts wrote, a search without a server. Nothing comes from another host.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitepress'
import { slug } from '../../../scripts/reference/markdown'

const ROOT = join(import.meta.dirname ?? process.cwd(), '../../..')
const sidebar = JSON.parse(readFileSync(join(ROOT, 'build/pages/sidebar.json'), 'utf8'))

export default defineConfig({
  title: 'Spillway',
  description: 'Trains convolutional networks larger than device memory, from TypeScript',
  lang: 'en',
  srcDir: join(ROOT, 'build/pages'),
  outDir: join(ROOT, 'build/site'),
  cacheDir: join(ROOT, 'build/vitepress'),
  // The sidebar is in one file, not in each page.
  metaChunk: true,
  ignoreDeadLinks: false,
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: '/logo.svg' }]],
  markdown: {
    // Anchors are those of GitHub, so that a link works in both places.
    anchor: { slugify: slug },
  },
  themeConfig: {
    logo: '/logo.svg',
    nav: [
      { text: 'Guides', link: sidebar['/'][0].items[0].link },
      { text: 'Layers', link: '/reference/layers' },
      { text: 'Options', link: '/reference/options' },
      { text: 'Wrong calls', link: '/reference/mistakes' },
      { text: 'API', link: '/reference/api/' },
    ],
    sidebar,
    outline: { level: [2, 3] },
    search: { provider: 'local' },
  },
})
