// timeout 600
// The reference: every export and every option of the package has a text and an example, and every example compiles, all in one program, in strict
// mode, as a user compiles it. Other packages document their own declarations.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { gateTest } from '../full'
import { type Documented, namesOf, readApi } from '../../scripts/reference/exports'
import { slug, splitDefault } from '../../scripts/reference/markdown'
import { anchorsOf, linksOf } from '../../scripts/site/links'
import { apiPage, missingPictures } from '../../scripts/site/pages'
import { faultsOf, importsFor } from '../../scripts/reference/examples'

const api = readApi()
const own = api.exports.filter((e) => !e.isForeign)
const all: readonly Documented[] = [...own, ...[...api.options.values()].flat()]
const exported = namesOf(api)

test('only two exports are documented by another package', () => {
  assert.equal(
    api.exports.filter((e) => e.isForeign).map((e) => e.name),
    ['Either', 'TaskEither'],
  )
})

test('every export and every option has a text', () => {
  assert.ok(own.length > 330, `${own.length} exports`)
  assert.equal(
    all.filter((d) => d.about === '').map((d) => d.name),
    [],
  )
})

test('every export and every option has an example', () => {
  assert.equal(
    all.filter((d) => d.examples.length === 0).map((d) => d.name),
    [],
  )
})

/** Words that open a text of the old style: a clause in the place of a noun, or a text that needs its neighbour. */
const OLD = /^(What|Who|Where|Whether|How|The same|So many|Told|Of |Those|That )\b/
test('no text opens with a clause in the place of a noun', () => {
  assert.equal(
    all.filter((d) => OLD.test(d.about)).map((d) => `${d.name}: ${d.about}`),
    [],
  )
})

/** Examples that are wrong on purpose, in the program of all others. */
const SOUND = { of: 'a sound one', text: "conv2d('conv1', 64, 3)" }
const BROKEN = { of: 'a broken one', text: 'const layer: Relu = conv2d(64)' }

let found: readonly string[] | undefined
const faults = (): readonly string[] => {
  if (found) return found
  // Options inherit docs, so some examples occur several times.
  const texts = new Map(all.flatMap(({ name, examples }) => examples.map((text) => [text, name] as const)))
  found = faultsOf([...[...texts].map(([text, of]) => ({ of, text })), SOUND, BROKEN], exported)
  return found
}

gateTest('every example compiles as a user compiles it', () => {
  assert.equal(
    faults().filter((fault) => !fault.startsWith(`${BROKEN.of}: `)),
    [],
  )
})

gateTest('a broken example is found, with its name', () => {
  assert.ok(faults().some((fault) => fault.startsWith(`${BROKEN.of}: `)))
})

test('imports name the exports that a text uses, not its properties and its own names', () => {
  assert.is(
    importsFor('const { loss } = await evaluate(net, plan, { data: folder("a") })', exported),
    "import { evaluate, folder } from 'spillway'\n",
  )
  assert.is(importsFor('const options: TrainOptions = { steps: 1 }', exported), "import { type TrainOptions } from 'spillway'\n")
  assert.is(importsFor("import { mse } from 'spillway'\nmse", exported), '')
})

test('defaults are separated from the text, in the forms of help and docs', () => {
  assert.equal(splitDefault('threads of the device (default: all cores)'), ['threads of the device', 'all cores'])
  assert.equal(splitDefault('how (default what there is; on cpu (here) none)'), ['how', 'what there is; on cpu (here) none'])
  assert.equal(splitDefault('Padding in pixels. Default 0.'), ['Padding in pixels.', '0'])
  assert.equal(splitDefault('fp32 or bf16; default fp32'), ['fp32 or bf16', 'fp32'])
  assert.equal(splitDefault('of a (default 1), b (default undefined)'), ['of a (default 1), b', ''])
})

test('headings have the anchors of GitHub and of the site', () => {
  assert.is(slug('Shape and input'), 'shape-and-input')
  assert.is(slug('`--budget`: a hard limit'), '--budget-a-hard-limit')
})

test('links and anchors of a page are found outside code', () => {
  const page = '# A\n## Of `x`\n## Of x\n```md\n[no](no.md)\n```\n[b](b.md#c) `[no](no.md)` <a id="d"></a>\n'
  assert.equal(
    linksOf(page).map((l) => `${l.line} ${l.to}`),
    ['7 b.md#c'],
  )
  assert.equal([...anchorsOf(page)].sort(), ['a', 'd', 'of-x', 'of-x-1'])
})

test('a page of the API has its example first, with imports, and no type parameters', () => {
  const page = '# a\n\nText.\n\n## Type Parameters\n\nT\n\n## Parameters\n\nP\n\n## Example\n\n```ts\nmse\n```\n'
  assert.is(
    apiPage(page, exported),
    "# a\n\nText.\n\n## Example\n\n```ts\nimport { mse } from 'spillway'\n\nmse\n```\n## Parameters\n\nP\n\n",
  )
})

test('a picture that a page of the site shows and that is missing is found', () => {
  const site = mkdtempSync(join(tmpdir(), 'spillway-site-'))
  try {
    writeFileSync(join(site, 'here.svg'), '<svg/>')
    writeFileSync(join(site, 'index.html'), '<img class="a" src="/here.svg" alt=""><img src="/images/gone.svg">')
    assert.equal(missingPictures(site), ['index.html: no picture /images/gone.svg'])
  } finally {
    rmSync(site, { recursive: true })
  }
})

test.run()
