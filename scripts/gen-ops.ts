// Generates files from the operators' entries and the files beside them: the registries, native/gen/ops.h, the table in docs/internals/operators.md.
// In: staging/ops, dsl/layers, native/cuda/kernels. Out: these files; with --check nothing is written and the exit status is 1 if one of them
// differs.
import { type Generated, generate } from './generated'
import { cases } from './operators/cases'
import { header } from './operators/header'
import { page } from './operators/page'
import { training } from './operators/training'
import { cudaKernels, entries, layerIndex, layerTable, opTable, unaryLayers } from './operators/registries'

const FILES: readonly Generated[] = [
  ['staging/ops/table.ts', opTable],
  ['native/gen/ops.h', () => header(entries())],
  ['native/cuda/kernels/all.hpp', cudaKernels],
  ['docs/internals/operators.md', (committed) => page(entries(), committed)],
  ['test/native/kernels/table_cases.cpp', () => cases(entries())],
  ['dsl/layers/unary.ts', unaryLayers],
  ['dsl/layers/table.ts', layerTable],
  ['dsl/layers/index.ts', layerIndex],
  ['dsl/training.ts', training],
]

generate(FILES, 'the op table', 'gen-ops.ts')
