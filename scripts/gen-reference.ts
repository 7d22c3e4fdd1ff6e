// Generates the reference: docs/reference/layers.md, options.md, cli.md and zoo.md. In: the package's exports with their docs, the layers' rules,
// the commands as they are declared, the networks of models/. Out: these pages; with --check nothing is written and the exit status is 1 if one of them differs.
import { type Generated, generate } from './generated'
import { cliPage, optionsPage } from './reference/commands'
import { readApi } from './reference/exports'
import { layersPage } from './reference/layers'
import { zooPage } from './reference/zoo'

const FILES: readonly Generated[] = [
  ['docs/reference/layers.md', () => layersPage(readApi())],
  ['docs/reference/options.md', optionsPage],
  ['docs/reference/cli.md', cliPage],
  ['docs/reference/zoo.md', zooPage],
]

generate(FILES, 'the code', 'gen-reference.ts')
