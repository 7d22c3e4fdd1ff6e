// `node -r ./scripts/testing/typescript.js scripts/cuda/answers.ts`: cuDNN's answers for every convolution of the zoo on absent GPUs, asked by the cuda
// device's sources. In: $SPILLWAY_CUDNN, the folder of libcudnn.so.9 of 9.8 on, or the package nvidia-cudnn-cu13. Out: bench/results/cudnn.json and, for
// simulated GPUs, staging/sim/scratch.json. --scratch writes the latter from the committed answers. Invariant: one process for
// each GPU, because a process knows one.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { loadNative } from '../../src/device/native'
import { nativeCall } from '../../src/machine/operands'
import { devices } from '../../staging/devices'
import { zooCalls } from './calls'

export const PRECISIONS = ['fp32', 'tf32', 'bf16'] as const

/** An engine by its number, or "own", and bytes of scratch: in each precision. */
type Answer = readonly (readonly [engine: string, bytes: number])[]
export interface Answers {
  readonly cudnn: string
  readonly answers: Readonly<Record<string, Answer>>
}

const ROOT = join(__dirname, '..', '..')
const GPUS = join(__dirname, 'gpus.json')
type Gpus = Readonly<Record<string, object>>
export const gpus = JSON.parse(readFileSync(GPUS, 'utf8')) as Gpus

const { libraryFolders } = require('./toolkit') as { readonly libraryFolders: () => readonly string[] }
/** Wheels have cuBLAS beside cuDNN, which looks for it by name. */
const besideIt = (folder: string): readonly string[] => [
  folder,
  ...['cu13', 'cublas', 'cuda_nvrtc'].map((name) => join(folder, '..', '..', name, 'lib')),
]

/** The folder of libcudnn.so.9, or undefined. */
export const cudnnFolder = (): string | undefined =>
  [process.env.SPILLWAY_CUDNN ?? '', ...libraryFolders()].find((folder) => existsSync(join(folder, 'libcudnn.so.9')))

// ---------------------------------------------------------------- one GPU

const asked = (names: readonly string[] | undefined): Answers => {
  const native = loadNative()
  const { libraries } = native.deviceFacts('cuda')
  const answers = zooCalls(names).map(({ key, kind, attrs, shapes }) => {
    const of = (precision: (typeof PRECISIONS)[number]): Answer[number] => {
      const call = nativeCall(kind, attrs, precision === 'bf16' ? { ...shapes, half: 'bf16' } : shapes, devices.cuda.dtype)
      const [first] = native.ways({ device: 'cuda', ...call, precision: precision === 'tf32' ? 'tf32' : 'fp32' }, 1)
      return first ? [/\((\d+)\)/.exec(first.name)?.[1] ?? first.name, first.workspace] : ['none', 0]
    }
    return [key, PRECISIONS.map(of)] as const
  })
  return { cudnn: /cuDNN (\d+)/.exec(libraries)?.[1] ?? '', answers: Object.fromEntries(answers) }
}

/** cuDNN's answers for one GPU, asked in a process of its own. `library`: the plugin on the imitated CUDA. */
export const askedOf = (gpu: string, library: string, names?: readonly string[]): Answers => {
  const folder = cudnnFolder()!
  const r = spawnSync(process.execPath, ['-r', join(ROOT, 'scripts', 'testing', 'typescript.js'), __filename, ...(names ?? [])], {
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
    env: {
      ...process.env,
      SPILLWAY_CUDA: library,
      SPILLWAY_HOST_CUDA_GPU: JSON.stringify(gpus[gpu]),
      SPILLWAY_HOST_CUDA_CUDNN: folder,
      LD_LIBRARY_PATH: [...besideIt(folder), process.env.LD_LIBRARY_PATH].filter(Boolean).join(':'),
      SPILLWAY_HOST_CUDA_DRIVER: join(dirname(library), 'spillway_driver_stub.so'),
    },
  })
  if (r.status !== 0) throw new Error(`${gpu}: ${r.stderr.slice(-2000) || r.signal}`)
  return JSON.parse(r.stdout) as Answers
}

// ---------------------------------------------------------------- all of them

/** "38" without scratch, "38+1024" with so many bytes. */
const cell = ([engine, bytes]: Answer[number]): string => (bytes === 0 ? engine : `${engine}+${bytes}`)

const KEYS =
  'The keys of these properties are partly guessed: cuDNN documents that it takes them as JSON, not what they are called. It refuses none of these, and its answers differ by GPU as one would expect.'

/** Rows of the calls, with a column for each GPU and precision. */
const tabled = (of: Readonly<Record<string, Answers>>): void => {
  const names = Object.keys(of)
  const [first] = names
  const rows = Object.keys(of[first!]!.answers).sort()
  const columns = names.flatMap((gpu) => PRECISIONS.map((precision) => `${gpu} ${precision}`))
  const table = rows.map((key) => [key, names.flatMap((gpu) => of[gpu]!.answers[key]!.map(cell)).join(' ')] as const)
  const about = { cudnn: of[first!]!.cudnn, properties: 'scripts/cuda/gpus.json', keys: KEYS, columns: columns.join(', ') }
  writeFileSync(
    join(ROOT, 'bench', 'results', 'cudnn.json'),
    `${JSON.stringify({ about, rows: Object.fromEntries(table) }, null, 2)}\n`,
  )
  console.log(`${rows.length} calls on ${names.length} GPUs in ${PRECISIONS.length} precisions`)
}

/** The committed answers. */
export interface Table {
  readonly about: { readonly cudnn: string; readonly columns: string }
  readonly rows: Readonly<Record<string, string>>
}

const bytesIn = (text: string): string => text.split('+')[1] ?? '0'
/** The scratch of the first engines, by call. Columns without an engine of cuDNN are left out. */
export const scratchOf = ({ about, rows }: Table) => {
  const columns = about.columns.split(', ')
  const cells = Object.entries(rows).map(([key, row]) => [key, row.split(' ')] as const)
  const kept = columns.map((_, i) => cells.every(([, own]) => /^\d/.test(own[i]!)))
  const only = <A>(all: readonly A[]): readonly A[] => all.filter((_, i) => kept[i])
  return {
    about: `Written by scripts/cuda/answers.ts (cuDNN ${about.cudnn}): bytes of scratch that cuDNN's first engine needs, by call, on each GPU in each precision`,
    columns: only(columns),
    calls: cells.map(([key, own]) => `${key}=${only(own).map(bytesIn).join()}`),
  }
}

const writeScratch = (): void => {
  const table = JSON.parse(readFileSync(join(ROOT, 'bench', 'results', 'cudnn.json'), 'utf8')) as Table
  writeFileSync(join(ROOT, 'staging', 'sim', 'scratch.json'), `${JSON.stringify(scratchOf(table), null, 2)}\n`)
}

const { nativeLibrary } = require('../testing/native') as {
  readonly nativeLibrary: (root: string, target: string) => Promise<string | null>
}

/** The plugin on the imitated CUDA and cuDNN; why not, where one of them is not here. */
export const whatAsks = async (): Promise<{ readonly library: string } | { readonly missing: string }> => {
  const folder = cudnnFolder()
  if (folder === undefined) return { missing: 'libcudnn.so.9 is not here (SPILLWAY_CUDNN, or the wheel nvidia-cudnn-cu13)' }
  const products = ['libcublasLt.so.13', 'libcublasLt.so.12']
  if (![...besideIt(folder), ...libraryFolders()].some((f) => products.some((name) => existsSync(join(f, name)))))
    return { missing: 'libcublasLt.so.13, which cuDNN wants, is not beside it (the wheel nvidia-cublas)' }
  const library = await nativeLibrary(ROOT, 'spillway_host_cuda')
  return library === null ? { missing: 'the headers of CUDA, cuDNN and cuBLAS are not here' } : { library }
}

const main = async (): Promise<void> => {
  if (process.argv.includes('--scratch')) return writeScratch()
  const found = await whatAsks()
  if ('missing' in found) throw new Error(found.missing)
  tabled(Object.fromEntries(Object.keys(gpus).map((gpu) => [gpu, askedOf(gpu, found.library)])))
  writeScratch()
}

if (require.main === module) {
  const names = process.argv.slice(2)
  if (process.env.SPILLWAY_HOST_CUDA_GPU) console.log(JSON.stringify(asked(names.length > 0 ? names : undefined)))
  else void main()
}
