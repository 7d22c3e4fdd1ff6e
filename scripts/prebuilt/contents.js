// The contents of a platform package. In: its addons, libraries and licences, as files. Out: its folder, ready to be packed: package.json, the addons
// with their needs of a processor and the native sources that they were made of (setup/prebuilt.js reads it), and the licences.
'use strict'
const fs = require('node:fs')
const path = require('node:path')
const { MANIFEST, addonSources } = require('../setup/prebuilt')

const ROOT = path.dirname(path.dirname(__dirname))
const { version } = JSON.parse(fs.readFileSync(path.join(ROOT, 'package.json'), 'utf8'))

const describe = (arch) => ({
  name: `@spillway/linux-${arch}`,
  version,
  description: `Spillway's native addon for Linux on ${arch}${arch === 'x64' ? ', and its plugin for NVIDIA GPUs' : ''}, built; spillway takes it by itself`,
  license: 'SEE LICENSE IN licences/README.md',
  os: ['linux'],
  cpu: [arch],
  libc: ['glibc'],
})

const licencesOf = ({ libraries }, plugin) => `The files of this package, with their licences:

- the addons, spillway.node: Spillway, MIT (spillway.txt); libc++, libc++abi and libunwind of LLVM, linked in, Apache-2.0 with LLVM's
  exceptions (llvm.txt)
- lib/libomp.so: LLVM's OpenMP runtime, Apache-2.0 with LLVM's exceptions (llvm.txt)
${
  libraries.length === 0
    ? ''
    : `- lib/libdnnl.so.3: oneDNN, Apache-2.0 (onednn.txt, with its third parties' in onednn-third-parties.txt). Changed: it names lib/libomp.so as
  its OpenMP runtime where it named libgomp.so.1, and looks for it in its own folder. Its code is as PyPI's wheel has it
`
}${
  plugin === undefined
    ? ''
    : `- cuda/spillway_cuda.so: Spillway, MIT; NVIDIA's CUDA runtime, linked in, a redistributable part of the CUDA toolkit under its licence
  (docs.nvidia.com/cuda/eula)
`
}`

const assemble = (folder, arch, platform, made) => {
  fs.rmSync(folder, { recursive: true, force: true })
  const copy = (from, ...to) => {
    fs.mkdirSync(path.dirname(path.join(folder, ...to)), { recursive: true })
    fs.copyFileSync(from, path.join(folder, ...to))
  }
  for (const [name, file] of Object.entries(made.addons)) copy(file, name, 'spillway.node')
  if (made.plugin !== undefined) copy(made.plugin, 'cuda', 'spillway_cuda.so')
  for (const file of made.libraries) copy(file, 'lib', path.basename(file))
  for (const [name, file] of Object.entries(made.licences)) copy(file, 'licences', name)
  const addons = platform.addons.map(({ name, needs }) => ({ file: `${name}/spillway.node`, needs }))
  const write = (name, text) => fs.writeFileSync(path.join(folder, name), text)
  write('licences/README.md', made.words)
  write('package.json', `${JSON.stringify(describe(arch), null, 2)}\n`)
  write(MANIFEST, `${JSON.stringify({ sources: addonSources(ROOT), addons }, null, 2)}\n`)
}

module.exports = { assemble, licencesOf }
