// Generates what follows from the operators' entries and the files beside them: the registries, native/gen/ops.h, the table in
// docs/operators.md. In: staging/ops, dsl/layers, native/cuda/kernels. Out: these files; with --check nothing is written and
// the exit status is 1 when one of them differs.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cases } from './operators/cases'
import { header } from './operators/header'
import { page } from './operators/page'
import { cudaKernels, entries, layerIndex, layerTable, opTable, unaryLayers } from './operators/registries'

const ROOT = join(__dirname, '..')

/** Each file's text, given what stands there. What comes first may be read by what makes those after it. */
const FILES: readonly (readonly [file: string, text: (committed: string) => string])[] = [
  ['staging/ops/table.ts', opTable],
  ['native/gen/ops.h', () => header(entries())],
  ['native/cuda/kernels/all.hpp', cudaKernels],
  ['docs/operators.md', (committed) => page(entries(), committed)],
  ['test/native/kernels/table_cases.hpp', () => cases(entries())],
  ['dsl/layers/unary.ts', unaryLayers],
  ['dsl/layers/table.ts', layerTable],
  ['dsl/layers/index.ts', layerIndex],
]

const read = (file: string): string => {
  try {
    return readFileSync(join(ROOT, file), 'utf8')
  } catch {
    return ''
  }
}

const main = (check: boolean): number => {
  let stale = 0
  for (const [file, text] of FILES) {
    const committed = read(file)
    const now = text(committed)
    if (now === committed) continue
    stale++
    if (check) console.error(`${file} differs from the op table: run node -r ./scripts/testing/typescript.js scripts/gen-ops.ts`)
    else writeFileSync(join(ROOT, file), now)
  }
  return check && stale > 0 ? 1 : 0
}

process.exitCode = main(process.argv.includes('--check'))
