// The legal imports between parts of the checkout. In: an import edge. Out: null, or a sentence that names the edge and the legal ones. Arrows are
// transitive: a part may import all parts below a legal one.
import type { Edge } from './graph'

interface Layer {
  /** Paths that begin like this belong to it; the longest match wins. */
  readonly at: string
  /** Layers that it may import besides itself. */
  readonly may: readonly string[]
  /** Layers with only their types as legal imports. */
  readonly mayTypes?: readonly string[]
  /** npm packages; absent: any. */
  readonly packages?: readonly string[]
  /** True if it may do I/O: staging, dsl and models are pure. */
  readonly node: boolean
}

const PURE = ['fp-ts', 'io-ts']
const BELOW_PLAN = ['staging/devices.ts', 'staging/core/', 'staging/ops/', 'staging/graph/']
const PLAN = ['staging/plan/', ...BELOW_PLAN]
const PASSES = ['staging/tile/', 'staging/sim/', 'staging/memory/', 'staging/verify/']
const METHODS = ['staging/schedule/', ...PASSES, ...PLAN]
const PLANNER = ['staging/planner/', 'staging/search/', 'staging/literature/', ...METHODS]
const STAGING = ['staging/grad/', ...PLANNER]
const COMPILER = ['dsl/', 'models/', 'staging/bound/', 'staging/compile.ts', ...STAGING]
/** The rooms of src, each allowed those before it; the doors (index.ts and cli.ts) stand in front of them. */
const ROOMS = [
  'errors',
  'files',
  'device',
  'data',
  'ranks',
  'machine',
  'report',
  'stage',
  'train',
  'predict',
  'view',
  'exchange',
  'cuda',
  'doctor',
  'zoo.ts',
  'cli',
].map((room) => (room.endsWith('.ts') ? `src/${room}` : `src/${room}/`))
/** A run's identity is made from its staging, and kept in its checkpoints. */
const TYPES_AHEAD: Readonly<Record<string, readonly string[]>> = { 'src/stage/': ['src/train/'] }
const PRODUCT = ['src/', ...ROOMS, ...COMPILER]

export const LAYERS: readonly Layer[] = [
  { at: 'staging/core/', may: [], packages: PURE, node: false },
  { at: 'staging/ops/', may: ['staging/core/'], packages: PURE, node: false },
  { at: 'staging/devices.ts', may: ['staging/core/'], packages: PURE, node: false },
  { at: 'staging/graph/', may: ['staging/devices.ts', 'staging/ops/', 'staging/core/'], packages: PURE, node: false },
  { at: 'staging/grad/', may: BELOW_PLAN, packages: PURE, node: false },
  { at: 'staging/plan/', may: BELOW_PLAN, packages: PURE, node: false },
  { at: 'staging/tile/', may: PLAN, packages: PURE, node: false },
  { at: 'staging/sim/', may: PLAN, packages: PURE, node: false },
  { at: 'staging/memory/', may: PLAN, packages: PURE, node: false },
  { at: 'staging/verify/', may: PLAN, packages: PURE, node: false },
  { at: 'staging/schedule/', may: [...PASSES, ...PLAN], packages: PURE, node: false },
  { at: 'staging/search/', may: METHODS, packages: PURE, node: false },
  { at: 'staging/literature/', may: METHODS, packages: PURE, node: false },
  { at: 'staging/planner/', may: PLANNER, packages: PURE, node: false },
  { at: 'staging/bound/', may: STAGING, packages: PURE, node: false },
  { at: 'staging/compile.ts', may: STAGING, packages: PURE, node: false },
  {
    at: 'dsl/',
    may: BELOW_PLAN,
    mayTypes: ['staging/plan/', 'staging/grad/'],
    packages: PURE,
    node: false,
  },
  { at: 'models/', may: ['dsl/', ...BELOW_PLAN], packages: PURE, node: false },
  ...ROOMS.map((at, i) => ({ at, may: [...ROOMS.slice(0, i), ...COMPILER], mayTypes: TYPES_AHEAD[at] ?? [], node: true })),
  { at: 'src/', may: PRODUCT, node: true },
  { at: 'bench/', may: ['examples/', ...PRODUCT], node: true },
  { at: 'examples/', may: ['src/', 'dsl/', 'models/'], node: true },
  { at: 'scripts/', may: ['bench/', ...PRODUCT], node: true },
  { at: 'test/', may: ['scripts/', 'bench/', 'examples/', ...PRODUCT], node: true },
]

export const layerOf = (file: string): Layer | undefined =>
  LAYERS.filter((layer) => file.startsWith(layer.at)).sort((a, b) => b.at.length - a.at.length)[0]

const list = (names: readonly string[]): string => (names.length === 0 ? 'nothing' : names.join(', '))

const fileProblem = (layer: Layer, edge: Edge, target: string): string | null => {
  const to = layerOf(target)
  if (!to) return target.endsWith('.json') ? null : `imports ${target}, which belongs to no layer`
  if (to === layer || layer.may.includes(to.at)) return null
  const types = layer.mayTypes ?? []
  if (types.includes(to.at))
    return edge.typeOnly ? null : `imports values of ${target}; ${layer.at} may import only types of ${to.at}`
  const alsoTypes = types.length > 0 ? `, and types of ${types.join(', ')}` : ''
  return `imports ${target}; ${layer.at} may import only ${list([layer.at, ...layer.may])}${alsoTypes}`
}

const targetProblem = (layer: Layer, edge: Edge): string | null => {
  const { target } = edge
  switch (target.tag) {
    case 'file':
      return fileProblem(layer, edge, target.path)
    case 'nowhere':
      return `imports '${target.request}', which is no file`
    case 'addon':
      return edge.from === 'src/device/native.ts' ? null : 'loads the native addon; only src/device/native.ts may'
    case 'node':
      return layer.node ? null : `imports node:${target.name}; ${layer.at} is pure and does no I/O`
    case 'package': {
      const legal = layer.packages === undefined || layer.packages.includes(target.name)
      return legal ? null : `imports the package ${target.name}; ${layer.at} may use only ${list(layer.packages ?? [])}`
    }
  }
}

export const edgeProblem = (edge: Edge): string | null => {
  const layer = layerOf(edge.from)
  const problem = layer ? targetProblem(layer, edge) : 'belongs to no layer: add its folder to scripts/imports/layers.ts'
  return problem === null ? null : `${edge.from}:${edge.line}: ${problem}`
}
