// What native code includes. In: native/**. Out: includes that lead out of native/, and libraries outside the one part
// that may use them: Node-API is the addon's, oneDNN the CPU device's.
import * as fs from 'node:fs'
import * as path from 'node:path'

const LIBRARIES: readonly { readonly header: RegExp; readonly name: string; readonly folders: readonly string[] }[] = [
  { header: /^(napi\.h|node_api|js_native_api|node\.h|v8\.h|uv\.h)/, name: 'Node-API', folders: ['native/addon/'] },
  { header: /^(oneapi\/)?dnnl/, name: 'oneDNN', folders: ['native/cpu/'] },
  { header: /^(cuda|cudnn|cublas|nccl)/, name: 'CUDA', folders: ['native/cuda/'] },
]

/** The shells use the core; nothing in the core knows the shells. */
const SHELLS = ['native/addon/', 'native/tools/']

const sources = (root: string): string[] =>
  ['native', 'test/native']
    .filter((folder) => fs.existsSync(path.join(root, folder)))
    .flatMap((folder) =>
      fs.readdirSync(path.join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => path.join(folder, name)),
    )
    .filter((file) => /\.(c|cc|cpp|cu|h|hpp)$/.test(file))
    .sort()

const quotedProblem = (root: string, file: string, header: string): string | null => {
  const inTest = file.startsWith('test/')
  const candidates = [path.join(path.dirname(file), header), path.join('native', header), ...(inTest ? [header] : [])]
  const found = candidates.find((candidate) => fs.existsSync(path.join(root, candidate)))
  if (found === undefined) return `includes "${header}", which is no file of native/`
  if (!found.startsWith('native/') && !inTest) return `includes ${found}; native code includes only generated headers and its own`
  const shell = SHELLS.find((folder) => found.startsWith(folder))
  const mayUseShell = inTest || (shell !== undefined && file.startsWith(shell))
  return shell && !mayUseShell ? `includes ${found}; only ${shell} may` : null
}

const libraryProblem = (file: string, header: string): string | null => {
  const library = LIBRARIES.find((entry) => entry.header.test(header))
  const legal = !library || file.startsWith('test/') || library.folders.some((folder) => file.startsWith(folder))
  return legal ? null : `includes <${header}>; ${library.name} belongs to ${library.folders.join(', ')} only`
}

export const nativeProblems = (root: string): string[] =>
  sources(root).flatMap((file) => {
    const lines = fs.readFileSync(path.join(root, file), 'utf8').split('\n')
    return lines.flatMap((line, index) => {
      const include = /^\s*#\s*include\s*([<"])([^>"]+)[>"]/.exec(line)
      if (!include) return []
      const [, kind, header] = include
      const problem = kind === '<' ? libraryProblem(file, header!) : quotedProblem(root, file, header!)
      return problem === null ? [] : [`${file}:${index + 1}: ${problem}`]
    })
  })
