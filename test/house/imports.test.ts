// The import check must find each kind of forbidden edge, and let the legal ones pass.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { importProblems } from '../../scripts/check-imports'
import { LAYERS } from '../../scripts/imports/layers'
import { fullTest } from '../full'
import { ROOT, withFiles } from './scratch'

const EMPTY = 'export {}\n'

/** The problems of one file beside the files that it imports. */
const problemsOf = (file: string, text: string, others: Readonly<Record<string, string>> = {}): Promise<string[]> =>
  withFiles({ [file]: text, ...others }, importProblems)

const REFUSED: readonly [why: string, file: string, text: string, other: string | null, words: string][] = [
  ['core knows ops', 'staging/core/a.ts', "import '../ops/b'", 'staging/ops/b.ts', 'staging/core/ may import only staging/core/'],
  ['ops knows graph', 'staging/ops/a.ts', "import type { X } from '../graph/b'", 'staging/graph/b.ts', 'staging/graph/b.ts'],
  ['graph knows grad', 'staging/graph/a.ts', "export * from '../grad/b'", 'staging/grad/b.ts', 'staging/grad/b.ts'],
  ['plan knows schedule', 'staging/plan/a.ts', "import '../schedule/b'", 'staging/schedule/b.ts', 'staging/schedule/b.ts'],
  [
    'verify knows tile',
    'staging/verify/a.ts',
    "import '../tile/b'",
    'staging/tile/b.ts',
    'staging/verify/ may import only staging/verify/, staging/plan/',
  ],
  [
    'verify knows memory by type',
    'staging/verify/a.ts',
    "type M = import('../memory/b').M",
    'staging/memory/b.ts',
    'staging/memory/b.ts',
  ],
  ['sim knows tile', 'staging/sim/a.ts', "import '../tile/b'", 'staging/tile/b.ts', 'staging/tile/b.ts'],
  ['staging knows dsl', 'staging/schedule/a.ts', "import '../../dsl/b'", 'dsl/b.ts', 'dsl/b.ts'],
  ['staging does I/O', 'staging/sim/a.ts', "import * as fs from 'fs'", null, 'pure and does no I/O'],
  ['staging requires I/O', 'staging/sim/a.ts', "const fs = require('node:fs')", null, 'imports node:fs'],
  ['staging takes a package', 'staging/sim/a.ts', "import 'commander'", null, 'may use only fp-ts, io-ts'],
  [
    'dsl takes plan values',
    'dsl/a.ts',
    "import { f } from '../staging/plan/b'",
    'staging/plan/b.ts',
    'only types of staging/plan/',
  ],
  ['dsl takes a mixed import', 'dsl/a.ts', "import { type T, f } from '../staging/grad/b'", 'staging/grad/b.ts', 'only types'],
  ['dsl knows src', 'dsl/a.ts', "import '../src/b'", 'src/b.ts', 'src/b.ts'],
  ['models know src', 'models/a.ts', "const x = import('../src/b')", 'src/b.ts', 'src/b.ts'],
  ['src knows tests', 'src/a.ts', "import '../test/b'", 'test/b.ts', 'test/b.ts'],
  ['src knows scripts', 'src/a.ts', "import '../scripts/b'", 'scripts/b.ts', 'scripts/b.ts'],
  [
    'src loads the addon',
    'src/a.ts',
    "const n = require('../build/addon/Release/spillway.node')",
    null,
    'only src/device/native.ts may',
  ],
  ['src names the addon', 'src/a.ts', "const p = join(root, 'Release/spillway.node')", null, 'only src/device/native.ts may'],
  ['src opens a library', 'src/a.ts', 'process.dlopen(module, path)', null, 'only src/device/native.ts may'],
  ['examples know staging', 'examples/a.ts', "import '../staging/core/b'", 'staging/core/b.ts', 'examples/ may import only'],
  ['a file that is not there', 'src/a.ts', "import './gone'", null, "'./gone', which is no file"],
  ['a part without a layer', 'staging/novel/a.ts', "import '../core/b'", 'staging/core/b.ts', 'belongs to no layer'],
]

for (const [why, file, text, other, words] of REFUSED) {
  test(`refused: ${why}`, async () => {
    const problems = await problemsOf(file, `${text}\n`, other === null ? {} : { [other]: EMPTY })
    assert.is(problems.length, 1, problems.join('\n'))
    assert.ok(problems[0]!.startsWith(`${file}:1: `), problems[0])
    assert.ok(problems[0]!.includes(words), problems[0])
  })
}

const ALLOWED: readonly [file: string, text: string, other: string | null][] = [
  ['staging/graph/a.ts', "import '../core/b'", 'staging/core/b.ts'],
  ['staging/plan/a.ts', "import '../graph/b'", 'staging/graph/b.ts'],
  ['staging/schedule/a.ts', "import '../verify/b'", 'staging/verify/b.ts'],
  ['staging/compile.ts', "import './schedule/b'", 'staging/schedule/b.ts'],
  ['dsl/a.ts', "import type { P } from '../staging/plan/b'", 'staging/plan/b.ts'],
  ['dsl/a.ts', "import { type P } from '../staging/grad/b'", 'staging/grad/b.ts'],
  ['models/a.ts', "import '../dsl/b'", 'dsl/b.ts'],
  ['src/device/native.ts', "const n = require('../build/addon/Release/spillway.node')", null],
  ['src/a.ts', "import '../staging/compile'", 'staging/compile.ts'],
  ['staging/ops/a.ts', "import * as t from 'io-ts'", null],
  ['staging/ops/a.ts', "// import '../graph/b'\nconst s = \"import '../graph/b'\"", 'staging/graph/b.ts'],
]

for (const [file, text, other] of ALLOWED) {
  test(`allowed: ${file}: ${text.split('\n')[0]}`, async () => {
    assert.equal(await problemsOf(file, `${text}\n`, other === null ? {} : { [other]: EMPTY }), [])
  })
}

test('a cycle is named file by file, once', async () => {
  const files = {
    'src/a.ts': "import './b'\n",
    'src/b.ts': "import type { X } from './c'\n",
    'src/c.ts': "export * from './a'\n",
  }
  assert.equal(await withFiles(files, importProblems), ['import cycle: src/a.ts -> src/b.ts -> src/c.ts -> src/a.ts'])
})

test('a file that imports itself is a cycle', async () => {
  assert.equal(await problemsOf('src/a.ts', "import './a'\n"), ['import cycle: src/a.ts -> src/a.ts'])
})

const NATIVE: readonly [why: string, files: Readonly<Record<string, string>>, words: string | null][] = [
  [
    'a header of another folder',
    { 'native/plan/a.cpp': '#include "../../src/b.h"\n', 'src/b.h': '' },
    'only generated headers and its own',
  ],
  ['a header that is not there', { 'native/plan/a.cpp': '#include "plan/gone.hpp"\n' }, 'which is no file of native/'],
  ['Node-API outside the addon', { 'native/runtime/a.cpp': '#include <napi.h>\n' }, 'Node-API belongs to native/addon/'],
  [
    'oneDNN outside the cpu device',
    { 'native/runtime/a.cpp': '#include <oneapi/dnnl/dnnl.hpp>\n' },
    'oneDNN belongs to native/cpu/',
  ],
  [
    'a shell used by the core',
    { 'native/plan/a.cpp': '#include "addon/b.hpp"\n', 'native/addon/b.hpp': '' },
    'native/plan may include only native/plan, native/ops, native/gen, native/core',
  ],
  [
    'its own',
    {
      'native/plan/a.cpp': '#include "gen/ops.h"\n#include <vector>\n#include "b.hpp"\n',
      'native/gen/ops.h': '',
      'native/plan/b.hpp': '',
    },
    null,
  ],
  [
    'the plan knows the runtime',
    { 'native/plan/a.cpp': '#include "runtime/b.hpp"\n', 'native/runtime/b.hpp': '' },
    'native/plan may include only native/plan, native/ops, native/gen, native/core',
  ],
  ['a folder without a rule', { 'native/new/a.cpp': '#include "core/b.hpp"\n', 'native/core/b.hpp': '' }, 'add native/new to'],
  [
    'a circle of two units',
    {
      'native/core/a.hpp': '',
      'native/core/a.cpp': '#include "core/b.hpp"\n',
      'native/core/b.hpp': '#include "core/a.hpp"\n',
    },
    'include circle: native/core/a -> native/core/b -> native/core/a',
  ],
  ['the runtime knows the plan', { 'native/runtime/a.cpp': '#include "plan/b.hpp"\n', 'native/plan/b.hpp': '' }, null],
  ['Node-API in the addon', { 'native/addon/a.cpp': '# include <napi.h>\n' }, null],
]

for (const [why, files, words] of NATIVE) {
  test(`native includes: ${why}`, async () => {
    const problems = await withFiles(files, importProblems)
    assert.is(problems.length, words === null ? 0 : 1, problems.join('\n'))
    if (words !== null) assert.ok(problems[0]!.includes(words), problems[0])
  })
}

test('the layers form no cycle among themselves', () => {
  const reaches = (from: string, to: string, seen = new Set<string>()): boolean => {
    const layer = LAYERS.find((l) => l.at === from)
    return (layer?.may ?? [])
      .filter((next) => next !== from)
      .some((next) => {
        if (next === to) return true
        if (seen.has(next)) return false
        seen.add(next)
        return reaches(next, to, seen)
      })
  }
  for (const layer of LAYERS) assert.not(reaches(layer.at, layer.at), layer.at)
})

fullTest('this checkout keeps the rules', () => {
  assert.equal(importProblems(ROOT), [])
})

test.run()
