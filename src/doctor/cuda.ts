// The parts of CUDA: driver, toolkit, libraries, the plugin, and the plugin's facts of the GPU. All of it is optional: training runs on the cpu
// device without any of it. In: a probe. Out: findings, each with the way to a missing part.
import * as path from 'node:path'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as t from 'io-ts'
import { type Finding, note, ok, optional } from './finding'
import { answerOf, onPath, type Probe, sharedLibrary, wordsOf } from './probe'

const QUERY = [
  '--query-gpu=name,memory.total,driver_version,pcie.link.gen.max,pcie.link.width.max',
  '--format=csv,noheader,nounits',
]

const gpus = (probe: Probe): Finding[] => {
  const lines = wordsOf(probe.run('nvidia-smi', QUERY))
    .split('\n')
    .filter((line) => line.includes(','))
  return lines.map((line, index) => {
    const [name, mebibytes, driver, generation, width] = line.split(',').map((field) => field.trim())
    return ok('cuda', `GPU ${index}`, `${name}, ${mebibytes} MiB, driver ${driver}, PCIe ${generation} x${width}`)
  })
}

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

const library = (probe: Probe, name: string, file: string, fix: string): Finding => {
  const carried = (probe.env.SPILLWAY_CUDA_LIBRARIES ?? '')
    .split(':')
    .filter(Boolean)
    .flatMap((folder) =>
      probe
        .list(folder)
        .filter((f) => f.startsWith(file))
        .map((f) => path.join(folder, f)),
    )
  const found = carried[0] ?? sharedLibrary(probe, file)
  return found ? ok('cuda', name, found) : optional('cuda', name, `${file} is not found by the loader`, fix)
}

const driver = (probe: Probe): Finding => {
  const version = /Kernel Module\s+(?:for \S+\s+)?([\d.]+)/.exec(probe.read('/proc/driver/nvidia/version') ?? '')?.[1]
  return version
    ? ok('cuda', 'driver', version)
    : optional('cuda', 'driver', 'no NVIDIA driver loaded', 'install the NVIDIA driver for this kernel')
}

const PLUGIN = 'spillway_cuda.so'
const FROM_CHECKOUT = `run 'npm run build:cuda' with nvcc and the headers of cuDNN and cuBLAS ('-- --fetch' downloads the headers)`
/** An installed package has no build script for the plugin. */
const buildLine = (probe: Probe, root: string): string =>
  probe.exists(path.join(root, 'scripts/build-cuda.js'))
    ? FROM_CHECKOUT
    : `in a checkout of Spillway, ${FROM_CHECKOUT}; then set SPILLWAY_CUDA to the file ${PLUGIN}`

const pluginPath = (probe: Probe, root: string): string | undefined => {
  const named = probe.env.SPILLWAY_CUDA
  const places = named ? [named] : [path.join(root, 'build/addon/Release', PLUGIN), path.join(root, 'build/cuda', PLUGIN)]
  return places.find((file) => probe.exists(file))
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
const engines = ({ asked, own }: t.TypeOf<typeof factsCodec>['engines']): Finding =>
  own.length === 0
    ? ok('cuda', 'engines', `cuDNN has one for each of ${asked} plain convolutions`)
    : note(
        'cuda',
        'engines',
        `cuDNN has none for ${own.length} of ${asked} plain convolutions (${own.join(', ')}): own kernels run them, much slower`,
        'put all libcudnn_*.so.9 of one version beside libcudnn.so.9',
      )

const device = (probe: Probe, root: string, loader: readonly string[]): readonly Finding[] => {
  const plugin = pluginPath(probe, root)
  if (plugin === undefined)
    return [optional('cuda', 'device', `the cuda device is not built (${PLUGIN} is missing)`, buildLine(probe, root))]
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
  const found = library(
    probe,
    'NCCL',
    'libnccl.so.2',
    'training on several GPUs needs it: apt-get install libnccl2, or set SPILLWAY_CUDA_LIBRARIES to the folder of the wheel nvidia-nccl-cu13 (part of PyTorch)',
  )
  if (found.state !== 'ok' || pluginPath(probe, root) === undefined) return found
  return pipe(
    answerOf(probe, carrierCodec, carrying),
    E.match(
      () => found,
      ({ carrier }) => ({ ...found, value: `${carrier.replace(/^NCCL /, '')} (${found.value})` }),
    ),
  )
}

/** `loader` asks the device about itself, `carrying` about the library that carries bytes between GPUs. */
export const cudaFindings = (probe: Probe, root: string, loader: readonly string[], carrying: readonly string[]): Finding[] => [
  driver(probe),
  ...gpus(probe),
  toolkit(probe),
  library(
    probe,
    'cuDNN',
    'libcudnn.so.9',
    'install cuDNN 9 and run ldconfig, or set SPILLWAY_CUDA_LIBRARIES to the folder of the wheel nvidia-cudnn-cu13 (part of PyTorch)',
  ),
  library(
    probe,
    'cuBLAS',
    'libcublasLt.so',
    'install the CUDA toolkit, or set SPILLWAY_CUDA_LIBRARIES to the folder of the wheel nvidia-cublas (part of PyTorch)',
  ),
  nccl(probe, root, carrying),
  ...device(probe, root, loader),
]
