// Runs one method of cmake-js, `configure` or `build`, on the addon. In: the method and a JSON object of its options, as arguments.
// Out: CMake's output, and exit code 1 if it fails. A process of its own, so that its output can be logged and Ctrl-C ends it whole.
'use strict'
const path = require('node:path')

const runMethod = async (method, options) => {
  const { BuildSystem } = require('cmake-js')
  try {
    await new BuildSystem(options)[method]()
  } catch {
    process.exitCode = 1 // cmake-js has printed the error.
  }
}

/** The folder that holds CMakeLists.txt, and the package.json with the version of Node-API. */
const nativeOf = (root) => path.join(root, 'native')

/** The command that runs `method` for the build folder `out`. */
const cmakeJs = (method, root, out, options = {}) => [
  process.execPath,
  [__filename, method, JSON.stringify({ directory: nativeOf(root), out, silent: false, ...options })],
]

module.exports = { cmakeJs, nativeOf }
if (require.main === module) runMethod(process.argv[2], JSON.parse(process.argv[3]))
