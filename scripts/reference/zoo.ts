// docs/reference/zoo.md: the networks of the package. In: models/, and the memory that `npm run bench -- sizes` measured. Out: the page.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { renderError } from '../../staging/core/errors'
import { showCount, showShape } from '../../src/report/format'
import { zoo, type ZooEntry } from '../../src/zoo'
import { generatedNote, table } from './markdown'

interface Sizes {
  readonly inCoreMiB: number
  readonly smallestMiB: number
}
interface Measured {
  readonly machineOfThePlans: string
  readonly rows: readonly { readonly network: string; readonly own: Sizes; readonly large: Sizes | null }[]
}

const measured = (): Measured => JSON.parse(readFileSync(join(__dirname, '../../bench/results/sizes.json'), 'utf8'))

const sizesText = (sizes: Sizes | null | undefined): readonly string[] =>
  sizes === undefined || sizes === null ? ['–', '–'] : [`${Math.round(sizes.inCoreMiB)}`, `${sizes.smallestMiB}`]

const rowOf = (z: ZooEntry, { rows }: Measured): readonly string[] => {
  const built = z.build()
  if (isLeft(built)) throw new Error(`${z.name}: ${renderError(built.left)}`)
  const model = built.right
  if (model.kind !== 'model') throw new Error(`${z.name} is no model`)
  const found = rows.find((r) => r.network === z.name)
  return [
    `\`${z.name}\``,
    showCount(model.parameters),
    showShape(z.defaultInput),
    model.ft.join(' ') || 'parts',
    ...sizesText(found?.own),
    ...sizesText(found?.large),
  ]
}

export const zooPage = (): string => {
  const from = measured()
  const networks = zoo.filter((z) => z.loss !== undefined)
  const own = networks.filter((z) => from.rows.some((r) => r.network === z.name)).length
  return `${generatedNote('models/ and bench/results/sizes.json')}
# Networks

Networks that every command takes by name: \`npx spillway plan resnet50\`. A model file imports them from \`spillway/models/FAMILY\`.
\`npx spillway models\` lists them in the terminal, with \`pix2pixhd\`, which is a step of several networks.

Parameters have the names and shapes of torchvision, timm or the reference that the file in \`models/\` names. Tests compare names
and shapes of every network with PyTorch, and outputs and gradients of networks of every family.

- **Tiles along**: dimensions along which the planner can cut the whole network into tiles; *parts* if it can cut only parts of the network.
  Batch norm, for one, ends a part.
- **In core**: MiB of a training step if everything is kept, at the usual input and at 4096×4096 pixels.
- **Smallest**: MiB of the smallest budget with a plan when the network was measured, on the simulated machine \`${from.machineOfThePlans}\`.
- A dash at 4096²: the network takes no images of this size.

\`npm run bench -- sizes NETWORK\` measures the memory.${own < networks.length ? ` It has measured ${own} of ${networks.length} networks; the others have a dash.` : ''}

${table(
  ['network', 'parameters', 'input', 'tiles along', 'in core', 'smallest', 'in core at 4096²', 'smallest at 4096²'],
  networks.map((z) => rowOf(z, from)),
)}
`
}
