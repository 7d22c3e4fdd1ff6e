// The includes of native code. In: native/** and test/native/**. Out: illegal includes, libraries outside their one part (Node-API is the addon's,
// oneDNN the cpu device's), and circles. A header and the source of its name are one unit, so a circle is one of units: the implementation of an
// interface may not need its users.
import * as fs from 'node:fs'
import * as path from 'node:path'
import { cyclesIn } from './cycles'

const LIBRARIES: readonly { readonly header: RegExp; readonly name: string; readonly folders: readonly string[] }[] = [
  { header: /^(napi\.h|node_api|js_native_api|node\.h|v8\.h|uv\.h)/, name: 'Node-API', folders: ['native/addon/'] },
  { header: /^(oneapi\/)?dnnl/, name: 'oneDNN', folders: ['native/cpu/'] },
  { header: /^(cuda|cudnn|cublas|nccl)/, name: 'CUDA', folders: ['native/cuda/', 'test/native/host_cuda/'] },
  { header: /^mpi\.h/, name: 'MPI', folders: ['native/comm/'] },
]

/**
 * Which folder may include which, besides itself. The words of calls are at the bottom; devices meet the runtime at its
 * interface and are found by name; the shells (addon, tools) know the runtime and no device.
 */
const OPS = ['native/ops', 'native/gen', 'native/core']
const RUNTIME = ['native/runtime', 'native/plan', 'native/gen', 'native/core']
export const NATIVE_ROOMS: Readonly<Record<string, readonly string[]>> = {
  'native/gen': [],
  'native/core': ['native/gen'],
  'native/ops': ['native/gen', 'native/core'],
  'native/plan': OPS,
  'native/runtime': ['native/plan', 'native/gen', 'native/core'],
  'native/ref': OPS,
  'native/comm': ['native/core'],
  'native/null': ['native/ref', ...OPS],
  'native/cpu': [...OPS, 'native/runtime'],
  'native/cuda/kernels': OPS,
  'native/cuda': ['native/cuda/kernels', 'native/ops', ...RUNTIME],
  'native/addon': ['native/ops', ...RUNTIME],
  'native/tools': RUNTIME,
}

const sources = (root: string): string[] =>
  ['native', 'test/native']
    .filter((folder) => fs.existsSync(path.join(root, folder)))
    .flatMap((folder) =>
      fs.readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => path.join(folder, name)),
    )
    .filter((file) => /\.(c|cc|cpp|cu|cuh|h|hpp)$/.test(file))
    .sort()

interface Include {
  readonly from: string
  readonly line: number
  readonly header: string
  readonly isSystem: boolean
  /** The file of the checkout; absent where there is none. */
  readonly to?: string
}

const includesOf = (root: string, from: string): Include[] =>
  fs
    .readFileSync(path.join(root, from), 'utf8')
    .split('\n')
    .flatMap((text, index) => {
      const [, kind, header] = /^\s*#\s*include\s*([<"])([^>"]+)[>"]/.exec(text) ?? []
      if (header === undefined) return []
      const include = { from, line: index + 1, header, isSystem: kind === '<' }
      if (include.isSystem) return [include]
      const places = [path.join(path.dirname(from), header), path.join('native', header), ...(isTest(from) ? [header] : [])]
      const to = places.find((place) => fs.existsSync(path.join(root, place)))
      return [to === undefined ? include : { ...include, to }]
    })

const isTest = (file: string): boolean => file.startsWith('test/')

const directionProblem = (from: string, to: string): string | null => {
  if (!to.startsWith('native/')) return `includes ${to}; native code includes only generated headers and its own`
  const [room, into] = [path.dirname(from), path.dirname(to)]
  const legal = NATIVE_ROOMS[room]
  if (legal === undefined) return `belongs to no room: add ${room} to scripts/imports/native.ts`
  if (room === into || legal.includes(into)) return null
  return `includes ${to}; ${room} may include only ${[room, ...legal].join(', ')}`
}

const libraryProblem = (file: string, header: string): string | null => {
  const library = LIBRARIES.find((entry) => entry.header.test(header))
  const legal = !library || isTest(file) || library.folders.some((folder) => file.startsWith(folder))
  return legal ? null : `includes <${header}>; ${library.name} belongs to ${library.folders.join(', ')} only`
}

const includeProblem = ({ from, header, isSystem, to }: Include): string | null => {
  if (isSystem) return libraryProblem(from, header)
  if (to === undefined) return `includes "${header}", which is no file of native/`
  return isTest(from) ? null : directionProblem(from, to)
}

const unitOf = (file: string): string => file.replace(/\.\w+$/, '')

const circlesOf = (includes: readonly Include[]): string[] => {
  const graph = new Map<string, string[]>()
  for (const { from, to } of includes) {
    if (to === undefined || unitOf(from) === unitOf(to)) continue
    graph.set(unitOf(from), [...(graph.get(unitOf(from)) ?? []), unitOf(to)])
  }
  return cyclesIn(graph).map((cycle) => `include circle: ${[...cycle, cycle[0]].join(' -> ')}`)
}

export const nativeProblems = (root: string): string[] => {
  const includes = sources(root).flatMap((file) => includesOf(root, file))
  const wrong = includes.flatMap((include) => {
    const problem = includeProblem(include)
    return problem === null ? [] : [`${include.from}:${include.line}: ${problem}`]
  })
  return [...wrong, ...circlesOf(includes)]
}
