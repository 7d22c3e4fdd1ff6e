// timeout 600
// The programs of the pages: every block of TypeScript compiles as it stands, and runs.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as ts from 'typescript'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { check, type Checked, runProgram } from './checker'

const root = join(__dirname, '../..')
const PAGES = ['data', 'fine-tuning', 'runs', 'training']

const blocksIn = (file: string): readonly string[] =>
  [...readFileSync(join(root, file), 'utf8').matchAll(/```ts\n([\s\S]*?)```/g)].map(([, text]) =>
    text!.replaceAll("'spillway'", "'../../src'").replaceAll("'spillway/models/", "'../../models/"),
  )
const blocksOf = (page: string): readonly string[] => blocksIn(`docs/${page}.md`)
/** What pages import from './my-net'. */
const [MY_NET = ''] = blocksIn('README.md')

/** What waits at the top is waited for. */
const asFunction = (block: string): string => {
  const file = ts.createSourceFile('block.ts', block, ts.ScriptTarget.ES2022)
  const text = (isImport: boolean): string =>
    file.statements
      .filter((s) => ts.isImportDeclaration(s) === isImport)
      .map((s) => s.getFullText(file))
      .join('')
  return `${text(true)}\nexport const done = async () => {${text(false)}\n}\n`
}

/** A model that is there instead of one that is imported. */
const running = (program: string): string => {
  if (!program.includes("import net from './my-net'")) return program
  Object.assign(globalThis, { myNet: runProgram(MY_NET)['default'] })
  return program.replace("import net from './my-net'", 'const net = globalThis.myNet')
}

const folder = mkdtempSync(join(tmpdir(), 'spillway-pages-'))
const home = process.cwd()
test.after(() => {
  process.chdir(home)
  rmSync(folder, { recursive: true })
})

const programs = Object.fromEntries(
  PAGES.flatMap((page) => blocksOf(page).map((block, i) => [`${page} block ${i + 1}`, asFunction(block)] as const)),
)
let checked: Checked | undefined

for (const [name, program] of Object.entries(programs))
  test(`${name} of docs compiles and runs`, async () => {
    checked ??= check({ ...programs, 'my-net': MY_NET })
    assert.equal(checked.errors(name), [])
    process.chdir(folder)
    const log = console.log
    console.log = () => {}
    try {
      await (runProgram(running(program))['done'] as () => Promise<void>)()
    } finally {
      console.log = log
    }
  })

test('each of these pages has a program', () => {
  for (const page of PAGES) assert.ok(blocksOf(page).length > 0, page)
})

test.run()
