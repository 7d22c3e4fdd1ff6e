// The tools for compiling the cuda plugin. In: this machine. Out: nvcc, and the folders of the headers of cuDNN and cuBLAS: the system's, the
// toolkit's, those inside Python's nvidia packages, or a cache that fetchHeaders() fills. Invariant: no file of NVIDIA's gets into the checkout.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')

const run = (program, args) => {
  const { status, stdout, stderr, error } = spawnSync(program, args, { encoding: 'utf8', maxBuffer: 2 ** 26 })
  return { ok: status === 0, out: stdout ?? '', words: (stderr || error?.message || '').trim().split('\n').slice(-3).join('; ') }
}

const firstWith = (folders, file) => folders.find((folder) => fs.existsSync(path.join(folder, file)))

const toolkits = () => {
  const versioned = fs.existsSync('/usr/local')
    ? fs
        .readdirSync('/usr/local')
        .filter((name) => /^cuda(-[\d.]+)?$/.test(name))
        .sort()
        .reverse()
    : []
  return [process.env.CUDA_HOME, process.env.CUDA_PATH, ...versioned.map((name) => path.join('/usr/local', name))].filter(Boolean)
}

/** A toolkit's own, before a wrapper on the PATH: CMake asks the compiler where it lives. */
const nvcc = () => {
  const onPath = (process.env.PATH ?? '').split(':').filter(Boolean)
  const folder = firstWith([...toolkits().map((t) => path.join(t, 'bin')), ...onPath], 'nvcc')
  return folder && path.join(folder, 'nvcc')
}

/** Python's folders of the package `nvidia`, with headers and libraries. */
const pythonPackages = () => {
  const ask =
    "import importlib.util as u; s = u.find_spec('nvidia'); print('\\n'.join(s.submodule_search_locations if s else []))"
  return run('python3', ['-c', ask]).out.split('\n').filter(Boolean)
}

const cacheFolder = () => path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'spillway', 'cuda-sdk')

const includes = () => {
  const packages = [...pythonPackages(), path.join(cacheFolder(), 'nvidia')]
  const system = [
    '/usr/include',
    '/usr/include/x86_64-linux-gnu',
    '/usr/include/aarch64-linux-gnu',
    ...toolkits().map((t) => path.join(t, 'include')),
  ]
  const inside = (...names) => packages.flatMap((folder) => names.map((name) => path.join(folder, name, 'include')))
  return {
    cuda: firstWith([...system, ...inside('cu13', 'cuda_runtime')], 'cuda_runtime_api.h'),
    cudnn: firstWith([...system, ...inside('cudnn')], 'cudnn.h'),
    cublas: firstWith([...system, ...inside('cu13', 'cublas')], 'cublasLt.h'),
    nccl: firstWith([...system, ...inside('nccl')], 'nccl.h'),
  }
}

/** Folders of shared libraries for SPILLWAY_CUDA_LIBRARIES: Python's, the toolkit's, and where containers mount the driver's. */
const libraryFolders = () =>
  [
    ...pythonPackages().flatMap((folder) =>
      ['cudnn', 'cu13', 'cublas', 'cuda_nvrtc', 'nccl'].map((name) => path.join(folder, name, 'lib')),
    ),
    ...toolkits().map((folder) => path.join(folder, 'lib64')),
    '/usr/local/nvidia/lib64',
    '/usr/local/nvidia/lib',
  ].filter(fs.existsSync)

const PACKAGES = ['nvidia-cudnn-cu13>=9,<10', 'nvidia-cublas>=13,<14']
/** Not needed to build: the declarations of NCCL are compared with its header. */
const NCCL = ['nvidia-nccl-cu13>=2.20,<3']

/** Takes the headers out of the published packages into the cache. Null, or why not. */
const fetchHeaders = (packages = PACKAGES) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'spillway-cuda-'))
  try {
    const fetched = run('python3', [
      '-m',
      'pip',
      'download',
      '--quiet',
      '--no-deps',
      '--only-binary=:all:',
      '-d',
      folder,
      ...packages,
    ])
    if (!fetched.ok) return `pip cannot download ${packages.join(' and ')}: ${fetched.words}`
    const unpack = [
      'import glob, sys, zipfile',
      "for wheel in glob.glob(sys.argv[1] + '/*.whl'):",
      '  z = zipfile.ZipFile(wheel)',
      "  z.extractall(sys.argv[2], [n for n in z.namelist() if '/include/' in n])",
    ].join('\n')
    fs.mkdirSync(cacheFolder(), { recursive: true })
    const unpacked = run('python3', ['-c', unpack, folder, cacheFolder()])
    return unpacked.ok ? null : `the packages cannot be unpacked: ${unpacked.words}`
  } finally {
    fs.rmSync(folder, { recursive: true, force: true })
  }
}

/** The headers that the cuda device is compiled with, fetched where they are missing. Null, or why they are not there. */
const headersHere = () => {
  const missing = () => ['cuda', 'cudnn', 'cublas'].filter((library) => !includes()[library])
  const why = missing().some((library) => library !== 'cuda') ? fetchHeaders() : null
  return missing().length === 0 ? null : (why ?? `the headers of ${missing().join(' and ')} are missing`)
}

module.exports = { headersHere, NCCL, nvcc, includes, fetchHeaders, libraryFolders, cacheFolder }
