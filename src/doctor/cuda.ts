// What there is for CUDA. All of it is optional: training runs on the CPU device without any of it, and this version
// has no CUDA device yet. In: a probe. Out: findings.
import { type Finding, note, ok, optional } from './finding'
import { onPath, type Probe, sharedLibrary } from './probe'

const QUERY = ['--query-gpu=name,memory.total,driver_version,pcie.link.gen.max,pcie.link.width.max', '--format=csv,noheader,nounits']

const gpus = (probe: Probe): Finding[] => {
  const lines = (probe.run('nvidia-smi', QUERY) ?? '').split('\n').filter((line) => line.includes(','))
  return lines.map((line, index) => {
    const [name, mebibytes, driver, generation, width] = line.split(',').map((field) => field.trim())
    return ok('cuda', `GPU ${index}`, `${name}, ${mebibytes} MiB, driver ${driver}, PCIe ${generation} x${width}`)
  })
}

const toolkit = (probe: Probe): Finding => {
  const versioned = probe.list('/usr/local').filter((name) => /^cuda(-[\d.]+)?$/.test(name)).map((name) => `/usr/local/${name}/bin`)
  const nvcc = onPath(probe, 'nvcc', ...versioned)
  const release = nvcc && /release ([\d.]+)/.exec(probe.run(nvcc, ['--version']) ?? '')?.[1]
  if (!nvcc) return optional('cuda', 'toolkit', 'no nvcc', 'install the CUDA toolkit, or put its bin folder on the PATH')
  return ok('cuda', 'toolkit', `${release ?? 'unknown release'} (${nvcc})`)
}

const library = (probe: Probe, name: string, file: string, fix: string): Finding => {
  const found = sharedLibrary(probe, file)
  return found ? ok('cuda', name, found) : optional('cuda', name, `no ${file} known to the loader`, fix)
}

const driver = (probe: Probe): Finding => {
  const version = /Kernel Module\s+(?:for \S+\s+)?([\d.]+)/.exec(probe.read('/proc/driver/nvidia/version') ?? '')?.[1]
  return version
    ? ok('cuda', 'driver', version)
    : optional('cuda', 'driver', 'no NVIDIA driver loaded', 'install the NVIDIA driver for this kernel')
}

export const cudaFindings = (probe: Probe): Finding[] => [
  note('cuda', 'device', 'this version trains on the cpu device; a CUDA device is planned and what it will need is listed here'),
  driver(probe),
  ...gpus(probe),
  toolkit(probe),
  library(probe, 'cuDNN', 'libcudnn.so.9', 'install cuDNN 9 (the Python wheel nvidia-cudnn-cu13 holds it too) and run ldconfig'),
  library(probe, 'cuBLAS', 'libcublasLt.so', 'comes with the CUDA toolkit (or the Python wheel nvidia-cublas)'),
]
