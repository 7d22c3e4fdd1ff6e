// The tarball for the registry names its platform packages; the checkout does not.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import * as path from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { linksOf } from '../../scripts/site/links'
import { ROOT, withFiles } from './scratch'
import { gateTest } from '../full'

// biome-ignore lint/suspicious/noExplicitAny: plain JavaScript, run before there are types
const { packWithPlatforms }: any = require(path.join(ROOT, 'scripts', 'release', 'pack.js'))

// biome-ignore lint/suspicious/noExplicitAny: plain JavaScript, run before there are types
const { sectionOf }: any = require(path.join(ROOT, 'scripts', 'release', 'changelog.js'))

const PLATFORMS = { '@spillway/linux-x64': '1.0.0' }
const MANIFEST = {
  name: 'some',
  version: '1.0.0',
  files: ['a.js'],
  scripts: { prepack: 'echo made > a.js', other: 'true' },
  dependencies: { b: '1' },
}

test('release: the packed package names the platform packages and is otherwise unchanged', async () => {
  await withFiles({ 'package.json': JSON.stringify(MANIFEST), 'rest.js': '' }, (root) => {
    const out = path.join(root, 'out')
    fs.mkdirSync(out)
    const run = (command: string, args: readonly string[]): string => execFileSync(command, args, { cwd: root, encoding: 'utf8' })
    const name: string = packWithPlatforms(root, out, PLATFORMS, run)
    run('tar', ['-xzf', path.join(out, name), '-C', out])
    const packed = JSON.parse(fs.readFileSync(path.join(out, 'package', 'package.json'), 'utf8'))
    assert.equal(packed, { ...MANIFEST, scripts: { other: 'true' }, optionalDependencies: PLATFORMS })
    assert.equal(fs.readdirSync(path.join(out, 'package')).sort(), ['a.js', 'package.json'])
    assert.equal(JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8')), MANIFEST)
  })
})

/** The files that `npm pack` would pack. */
const packedFiles = (): readonly string[] => {
  const out = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], { cwd: ROOT, encoding: 'utf8' })
  const [{ files }] = JSON.parse(out) as [{ files: readonly { path: string }[] }]
  return files.map((f) => f.path)
}

/** Links of a page, as paths from the root, that name no file or folder among `files`. */
const linksOutside = (files: readonly string[], page: string, text: string): readonly string[] =>
  linksOf(text)
    .filter(({ to }) => !/^([a-z]+:|#|\/)/.test(to))
    .map(({ to }) => path.normalize(path.join(path.dirname(page), to.split('#')[0]!)).replace(/\/$/, ''))
    .filter((to) => !files.some((f) => f === to || f.startsWith(`${to}/`)))
    .map((to) => `${page} -> ${to}`)

gateTest('release: no page of the package links to a file that the package lacks', () => {
  const files = packedFiles()
  const pages = files.filter((f) => f.endsWith('.md'))
  assert.ok(pages.includes('README.md') && pages.includes('docs/cookbook.md') && files.includes('examples/segment.ts'))
  assert.equal(linksOutside(['a.md'], 'docs/b.md', '[a](../a.md) [c](c.md) [d](https://d)'), ['docs/b.md -> docs/c.md'])
  const site = (page: string): boolean => page === 'docs/index.md'
  const dead = pages.filter((p) => !site(p)).flatMap((p) => linksOutside(files, p, fs.readFileSync(path.join(ROOT, p), 'utf8')))
  assert.equal(dead, [])
})

test('release: the checkout names none of them', () => {
  const text =
    fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8') + fs.readFileSync(path.join(ROOT, 'package-lock.json'), 'utf8')
  assert.not.match(text, '@spillway/')
})

test('release: the changelog has a section for the version of package.json', () => {
  const { version } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8'))
  assert.ok(sectionOf(fs.readFileSync(path.join(ROOT, 'CHANGELOG.md'), 'utf8'), version).length > 100)
})

test('release: a section of the changelog ends at the next one', () => {
  const text =
    '# Changelog\n\n## [Unreleased]\n\n- a\n\n## [1.1.0] - 2027-01-01\n\n- b\n\n### Fixed\n\n- c\n\n## [1.0.0]\n\n## [0.9.0]'
  assert.is(sectionOf(text, '1.1.0'), '- b\n\n### Fixed\n\n- c')
  assert.is(sectionOf(text, '1.0.0'), '')
  assert.is(sectionOf(text, '0.9.0'), '')
  assert.is(sectionOf(text, '1.1'), null)
})

test.run()
