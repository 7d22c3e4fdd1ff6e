// Which test files share processes: those that start no process, end no run by a signal and leave nothing open. They may set variables of
// the environment: batch.js resets them. In: jobs. Out: the same jobs, those of SHARED folders in batches. `// own process` in a file's
// first lines keeps it out.
'use strict'
const path = require('node:path')

const SHARED = [
  'test/bound',
  'test/core',
  'test/dsl',
  'test/e2e',
  'test/exchange',
  'test/golden',
  'test/grad',
  'test/graph',
  'test/literature',
  'test/memory',
  'test/models',
  'test/ops',
  'test/plan',
  'test/planner',
  'test/property',
  'test/report',
  'test/schedule',
  'test/search',
  'test/sim',
  'test/src',
  'test/src/data',
  'test/src/files',
  'test/src/machine',
  'test/src/predict',
  'test/src/ranks',
  'test/src/stage',
  'test/src/train',
  'test/src/view',
  'test/tile',
  'test/types',
  'test/verify',
]
/** Files of a process. More share more; fewer lose less when one fails. */
const MOST_FILES = 16

const isShared = ({ file, only, serial, ownProcess, hasOnly }) =>
  !only && !serial && !ownProcess && !hasOnly && SHARED.includes(path.posix.dirname(file))

/** Files that use the type checker (test/types/checker.ts) share one process, which parses and checks the sources once. */
const checksTypes = ({ text }) => /from '[./]*\/(types\/)?checker'/.test(text)

const slicesOf = (files, most) => {
  const count = Math.ceil(files.length / most)
  return Array.from({ length: count }, (_, i) =>
    files.slice(Math.floor((i * files.length) / count), Math.floor(((i + 1) * files.length) / count)),
  )
}

/** `process`: how a batch starts; paths of its files are added to the arguments. */
const inBatches = (jobs, process) => {
  const shared = jobs.filter(isShared)
  if (shared.length < 2) return jobs
  const types = shared.filter(checksTypes)
  const others = shared.filter((job) => !checksTypes(job))
  const slices = [...(types.length > 0 ? [types] : []), ...slicesOf(others, MOST_FILES)]
  const batches = slices.map((files, i) => {
    const timeoutSeconds = Math.max(...files.map((job) => job.timeoutSeconds))
    return { ...process, name: `batch ${i + 1}`, jobs: files, timeoutSeconds }
  })
  return [...jobs.filter((job) => !isShared(job)), ...batches]
}

module.exports = { inBatches, isShared, SHARED }
