// The parts of CUDA: driver, toolkit, libraries, the plugin, and the plugin's facts of the GPU. All of it is optional: training runs on the cpu
// device without any of it. In: a probe. Out: findings, each with the way to a missing part.
import * as path from 'node:path'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { driverRefusal, type Gpu, generationText, gpusOf, LEAST_DRIVER, refusalOf } from '../cuda/gpus'
import { findLibraries, LIBRARY_FILES, type Library, type LibraryName } from '../cuda/libraries'
import { PLUGIN, pluginFile } from '../cuda/plugin'
import { type Finding, note, ok, optional } from './finding'
import { answerOf, onPath, type Probe, sharedLibrary, wordsOf } from './probe'

/** The one command that finds, fetches or builds all parts but the driver. */
const SETUP = 'npx spillway setup cuda'

const gpus = (found: readonly Gpu[]): Finding[] =>
  found.map((gpu, index) => {
    const generation = generationText(gpu)
    const value = `${gpu.name}${generation ? ` (${generation})` : ''}, ${gpu.mebibytes} MiB, driver ${gpu.driver}, ${gpu.link}`
    const refusal = refusalOf(gpu)
    return refusal === undefined
      ? ok('cuda', `GPU ${index}`, value)
      : optional('cuda', `GPU ${index}`, `${value}: ${refusal}`, 'train on the cpu device, or use another GPU')
  })

const toolkit = (probe: Probe): Finding => {
  const versioned = probe
    .list('/usr/local')
    .filter((name) => /^cuda(-[\d.]+)?$/.test(name))
    .map((name) => `/usr/local/${name}/bin`)
  const nvcc = onPath(probe, 'nvcc', ...versioned)
  const release = nvcc && /release ([\d.]+)/.exec(wordsOf(probe.run(nvcc, ['--version'])))?.[1]
  if (!nvcc)
    return optional(
      'cuda',
      'toolkit',
      'no nvcc',
      'install the CUDA toolkit, or add its bin folder to PATH: only building the cuda device needs it',
    )
  return ok('cuda', 'toolkit', `${release ?? 'unknown release'} (${nvcc})`)
}

const library = (name: LibraryName, { file, origin, by }: Partial<Library>): Finding => {
  if (file === undefined) return optional('cuda', name, `${LIBRARY_FILES[name][0]} is not found`, SETUP)
  return by === 'nobody'
    ? optional('cuda', name, `${file} is in ${origin}, which is not searched yet`, SETUP)
    : ok('cuda', name, file)
}

const driver = (probe: Probe, found: readonly Gpu[]): Finding => {
  const kernel = /Kernel Module\s+(?:for \S+\s+)?([\d.]+)/.exec(probe.read('/proc/driver/nvidia/version') ?? '')?.[1]
  const version = kernel ?? found[0]?.driver
  const update = `install NVIDIA's driver, version ${LEAST_DRIVER} or newer`
  if (version === undefined) return optional('cuda', 'driver', 'no NVIDIA driver loaded: no GPU', update)
  const refusal = driverRefusal(version)
  return refusal === undefined ? ok('cuda', 'driver', version) : optional('cuda', 'driver', refusal, update)
}

const factsCodec = t.type({
  device: t.string,
  driver: t.string,
  libraries: t.string,
  totalBytes: t.number,
  freeBytes: t.number,
  link: t.type({ outBytesPerSecond: t.number, inBytesPerSecond: t.number, fullDuplex: t.boolean }),
  engines: t.type({ asked: t.number, own: t.readonlyArray(t.string) }),
})

const gib = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`
const rate = (bytesPerSecond: number): string => `${(bytesPerSecond / 1e9).toFixed(1)} GB/s`

const factsText = (f: t.TypeOf<typeof factsCodec>): string =>
  `${f.device}; driver for ${f.driver}; ${f.libraries}; ${gib(f.freeBytes)} of ${gib(f.totalBytes)} free; link out ${rate(f.link.outBytesPerSecond)}, in ${rate(f.link.inBytesPerSecond)}${f.link.fullDuplex ? ', both ways at once' : ''}`

/** Incomplete libraries lack engines. */
const engines = ({ asked: requested, own }: t.TypeOf<typeof factsCodec>['engines']): Finding =>
  own.length === 0
    ? ok('cuda', 'engines', `cuDNN has one for each of ${requested} plain convolutions`)
    : note(
        'cuda',
        'engines',
        `cuDNN has none for ${own.length} of ${requested} plain convolutions (${own.join(', ')}): own kernels run them, much slower`,
        'put all libcudnn_*.so.9 of one version beside libcudnn.so.9',
      )

const device = (probe: Probe, root: string, loader: readonly string[]): readonly Finding[] => {
  const plugin = pluginFile(probe, root)
  if (plugin === undefined) return [optional('cuda', 'device', `the plugin ${PLUGIN} is missing`, SETUP)]
  return pipe(
    answerOf(probe, factsCodec, loader),
    E.match(
      (reason) => [optional('cuda', 'device', `${plugin} cannot be used: ${reason}`, 'fix the parts above that are missing')],
      (facts) => [ok('cuda', 'device', factsText(facts)), engines(facts.engines)],
    ),
  )
}

const carrierCodec = t.type({ carrier: t.string })
/** Its version, too, which all ranks must share: the library itself says it, where the plugin is there that asks. */
const nccl = (probe: Probe, root: string, carrying: readonly string[]): Finding => {
  const file = 'libnccl.so.2'
  const named = (probe.env.SPILLWAY_CUDA_LIBRARIES ?? '')
    .split(':')
    .filter((folder) => folder !== '' && probe.list(folder).includes(file))
  const found = named[0] === undefined ? sharedLibrary(probe, file) : path.join(named[0], file)
  if (found === undefined)
    return optional(
      'cuda',
      'NCCL',
      `${file} is not found by the loader`,
      'only for training on several GPUs: apt-get install libnccl2, or set SPILLWAY_CUDA_LIBRARIES to the folder of the wheel nvidia-nccl-cu13 (part of PyTorch)',
    )
  const alone = ok('cuda', 'NCCL', found)
  if (pluginFile(probe, root) === undefined) return alone
  return pipe(
    answerOf(probe, carrierCodec, carrying),
    E.match(
      () => alone,
      ({ carrier }) => ({ ...alone, value: `${carrier.replace(/^NCCL /, '')} (${found})` }),
    ),
  )
}

/** `loader` asks the device about itself, `carrying` about the library that carries bytes between GPUs. */
export const cudaFindings = (probe: Probe, root: string, loader: readonly string[], carrying: readonly string[]): Finding[] => {
  const found = gpusOf(probe)
  const libraries = findLibraries(probe)
  return [
    driver(probe, found),
    ...gpus(found),
    // An installed package has no build script for the plugin.
    ...(probe.exists(path.join(root, 'scripts', 'build-cuda.js')) ? [toolkit(probe)] : []),
    library('cuDNN', libraries.cuDNN ?? {}),
    library('cuBLAS', libraries.cuBLAS ?? {}),
    nccl(probe, root, carrying),
    ...device(probe, root, loader),
  ]
}
