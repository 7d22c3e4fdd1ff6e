// The libraries of the cuda device on this machine: cuDNN 9, cuBLASLt and NVRTC. In: the environment, the loader, Python environments, toolkits,
// fetched wheels. Out: the file of each library, and the folders that the plugin must search. `remember` writes these folders into a file, which
// native/cuda/libraries.cpp reads. Invariant: SPILLWAY_CUDA_LIBRARIES is searched before the remembered folders.
import { mkdirSync } from 'node:fs'
import * as path from 'node:path'
import type { Either } from 'fp-ts/Either'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { cacheFolder } from '../files/cache'
import { writeWholeText } from '../files/whole'

/** The parts of a machine that the search reads. */
export interface Places {
  readonly read: (file: string) => string | undefined
  readonly list: (folder: string) => readonly string[]
  /** Standard output of a command that succeeds. */
  readonly run: (command: string, args: readonly string[]) => Either<string, string>
  readonly env: Readonly<Record<string, string | undefined>>
  /** The working folder. */
  readonly folder: string
}

export type LibraryName = 'cuDNN' | 'cuBLAS' | 'NVRTC'
/** File names by preference, as native/cuda/libraries.cpp opens them. cuDNN compiles some engines with NVRTC. */
export const LIBRARY_FILES: Readonly<Record<LibraryName, readonly string[]>> = {
  cuDNN: ['libcudnn.so.9'],
  cuBLAS: ['libcublasLt.so.13', 'libcublasLt.so.12'],
  NVRTC: ['libnvrtc.so.13', 'libnvrtc.so.12'],
}
export const LIBRARY_NAMES = Object.keys(LIBRARY_FILES) as readonly LibraryName[]

export interface Library {
  readonly file: string
  /** The place, for people: 'the Python environment ENVIRONMENT'. */
  readonly origin: string
  readonly by: Searched
}
export type Libraries = Partial<Readonly<Record<LibraryName, Library>>>

/** The plugin searches a place by itself, or because its folders are remembered, or not yet. */
export type Searched = 'itself' | 'memory' | 'nobody'

/** Folders of one place. */
interface Place {
  readonly origin: string
  readonly by: Searched
  readonly folders: readonly string[]
}

/** Fetched wheels, and the plugin of an addon that was built in the cache. */
export const cudaFolder = (): string => path.join(cacheFolder(), 'cuda')
/** One folder a line. */
export const rememberedFile = (): string => path.join(cacheFolder(), 'cuda-libraries')

const named = ({ env }: Places): readonly string[] => (env.SPILLWAY_CUDA_LIBRARIES ?? '').split(':').filter(Boolean)
const remembered = (at: Places): readonly string[] => (at.read(rememberedFile()) ?? '').split('\n').filter(Boolean)

/** The library folders below a folder `nvidia` of Python packages. */
const ofWheels = (at: Places, nvidia: string): readonly string[] => at.list(nvidia).map((name) => path.join(nvidia, name, 'lib'))

/** The wheels in a virtual environment, and the libraries of a Conda environment. */
const inEnvironment =
  (at: Places) =>
  (root: string): Place => ({
    origin: `the Python environment ${root}`,
    by: 'nobody',
    folders: [
      ...at
        .list(path.join(root, 'lib'))
        .filter((name) => name.startsWith('python'))
        .flatMap((name) => ofWheels(at, path.join(root, 'lib', name, 'site-packages', 'nvidia'))),
      path.join(root, 'lib'),
    ],
  })

const QUESTION =
  "import importlib.util as u; s = u.find_spec('nvidia'); print('\\n'.join(s.submodule_search_locations if s else []))"

/** The packages of the `python3` on the PATH. */
const ofPython = (at: Places): readonly Place[] =>
  pipe(
    at.run('python3', ['-c', QUESTION]),
    E.getOrElse(() => ''),
  )
    .split('\n')
    .filter(Boolean)
    .map((nvidia) => ({ origin: `the Python packages ${nvidia}`, by: 'nobody', folders: ofWheels(at, nvidia) }))

const ofToolkits = (at: Places): readonly Place[] =>
  [
    at.env.CUDA_HOME,
    at.env.CUDA_PATH,
    ...at
      .list('/usr/local')
      .filter((name) => /^cuda(-[\d.]+)?$/.test(name))
      .map((name) => `/usr/local/${name}`),
  ].flatMap((root) => (root ? [{ origin: `the CUDA toolkit ${root}`, by: 'nobody', folders: [path.join(root, 'lib64')] }] : []))

/** Folders of the dynamic loader: LD_LIBRARY_PATH and its cache. */
const ofLoader = (at: Places): Place => {
  const cache = pipe(
    at.run('/sbin/ldconfig', ['-p']),
    E.alt(() => at.run('ldconfig', ['-p'])),
    E.getOrElse(() => ''),
  )
  const folders = [...cache.matchAll(/=> (\/.*)\/[^/]+$/gm)].map(([, folder]) => folder!)
  return {
    origin: 'the system',
    by: 'itself',
    folders: [...(at.env.LD_LIBRARY_PATH ?? '').split(':').filter(Boolean), ...new Set(folders)],
  }
}

/** All places, the first to be preferred. A Python environment of the user is preferred to fetched wheels. */
const placesOf = (at: Places): readonly Place[] => [
  { origin: 'SPILLWAY_CUDA_LIBRARIES', by: 'itself', folders: named(at) },
  { origin: rememberedFile(), by: 'memory', folders: remembered(at) },
  ofLoader(at),
  ...[at.env.VIRTUAL_ENV, at.env.CONDA_PREFIX, path.join(at.folder, '.venv'), path.join(at.folder, 'venv')]
    .filter((root): root is string => root !== undefined && root !== '')
    .map(inEnvironment(at)),
  ...ofPython(at),
  ...ofToolkits(at),
  { origin: cudaFolder(), by: 'nobody', folders: ofWheels(at, path.join(cudaFolder(), 'nvidia')) },
]

const inPlace =
  (at: Places, { origin, by, folders }: Place) =>
  (name: LibraryName): Library | undefined => {
    const listed = folders.map((folder) => ({ folder, files: at.list(folder) }))
    const found = LIBRARY_FILES[name].flatMap((file) =>
      listed.filter(({ files }) => files.includes(file)).map(({ folder }) => path.join(folder, file)),
    )
    return found[0] === undefined ? undefined : { file: found[0], origin, by }
  }

const librariesIn = (find: (name: LibraryName) => Library | undefined): Libraries =>
  Object.fromEntries(
    LIBRARY_NAMES.flatMap((name) => {
      const library = find(name)
      return library === undefined ? [] : [[name, library]]
    }),
  )

/** True without NVRTC, too: cuDNN has other engines. */
export const areComplete = (libraries: Libraries): boolean => libraries.cuDNN !== undefined && libraries.cuBLAS !== undefined

/**
 * The libraries of the first place that has both cuDNN and cuBLAS: these fit each other. If there is none, each library of the first place that has
 * it.
 */
export const findLibraries = (at: Places): Libraries => {
  const places = placesOf(at)
  const whole = places.map((place) => librariesIn(inPlace(at, place))).find(areComplete)
  const any = librariesIn((name) => places.map((place) => inPlace(at, place)(name)).find((library) => library !== undefined))
  return { ...any, ...whole }
}

/** The folders that the plugin must remember. */
export const foldersOf = (libraries: Libraries): readonly string[] => [
  ...new Set(
    Object.values(libraries)
      .filter(({ by }) => by !== 'itself')
      .map(({ file }) => path.dirname(file)),
  ),
]

/** Writes the folders for the plugin; those of earlier calls are replaced. */
export const remember = (folders: readonly string[]): void => {
  mkdirSync(cacheFolder(), { recursive: true })
  writeWholeText(rememberedFile(), folders.map((folder) => `${folder}\n`).join(''), 'replace')
}
