// `npm run build:cuda`: builds the cuda plugin, build/cuda/spillway_cuda.so, with this machine's nvcc and headers. --gate: compiles for one
// architecture, downloads missing headers, compares the declarations of NCCL with its header. Without nvcc it says `skipped: …` and exits with 0.
// --fetch: downloads missing headers into a cache. --arch LIST: CMake's architectures, instead of all of ours. --folder DIR: builds there.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { fetchHeaders, includes, NCCL, nvcc } = require('./cuda/toolkit')

const ROOT = path.dirname(__dirname)

const end = (code, words) => {
  console.log(words)
  process.exit(code)
}

const cmake = (args) => {
  const { status } = spawnSync('cmake', args, { cwd: ROOT, stdio: 'inherit' })
  if (status !== 0) end(1, `cmake ${args.join(' ')} failed`)
}

/** The declarations of NCCL in cuda/libraries.hpp, beside nccl.h. */
const heldToHeader = () => {
  const why = includes().nccl ? null : fetchHeaders(NCCL)
  if (why) return `nccl.h is not found, so the declarations are not checked: ${why}`
  const found = includes()
  const folders = [found.cuda, found.cudnn, found.cublas, found.nccl].flatMap((folder) => ['-isystem', folder])
  const args = ['-std=c++20', '-fsyntax-only', '-Wall', '-Wextra', '-Werror', '-Inative', ...folders]
  const { status } = spawnSync('c++', [...args, 'test/native/host_cuda/header/nccl.cpp'], { cwd: ROOT, stdio: 'inherit' })
  if (status !== 0) end(1, 'the NCCL declarations in cuda/libraries.hpp differ from nccl.h')
  return 'the NCCL declarations match nccl.h'
}

const main = (argv) => {
  const gate = argv.includes('--gate')
  const compiler = nvcc()
  if (!compiler)
    end(gate ? 0 : 2, `${gate ? 'skipped: ' : ''}nvcc is not found: install the CUDA toolkit, or add its bin folder to PATH`)
  let found = includes()
  if ((!found.cudnn || !found.cublas) && (gate || argv.includes('--fetch'))) {
    const why = fetchHeaders()
    if (why) end(gate ? 0 : 2, `${gate ? 'skipped: ' : ''}the headers of cuDNN and cuBLAS are not found: ${why}`)
    found = includes()
  }
  for (const [library, file] of [
    ['cudnn', 'cudnn.h'],
    ['cublas', 'cublasLt.h'],
  ])
    if (!found[library]) end(2, `${file} is not found: install the headers of the library, or run this with --fetch`)
  if (gate) console.log(heldToHeader())
  const after = (flag) => (argv.includes(flag) ? argv[argv.indexOf(flag) + 1] : undefined)
  const folder = after('--folder') ?? path.join('build', gate ? 'cuda-gate' : 'cuda')
  const architectures = after('--arch') ?? (gate ? '90-real' : undefined)
  cmake([
    '-S',
    'native/cuda',
    '-B',
    folder,
    `-DCMAKE_CUDA_COMPILER=${fs.realpathSync(compiler)}`,
    `-DCUDNN_INCLUDE=${found.cudnn}`,
    `-DCUBLAS_INCLUDE=${found.cublas}`,
    ...(architectures ? [`-DCMAKE_CUDA_ARCHITECTURES=${architectures}`] : []),
  ])
  cmake(['--build', folder, '--parallel', String(Math.min(gate ? 2 : 16, os.availableParallelism()))])
  end(0, `built: ${folder}/spillway_cuda.so`)
}

main(process.argv.slice(2))
