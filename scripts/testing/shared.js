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

/** `process`: how a batch starts; paths of its files are added to the arguments. */
const inBatches = (jobs, process) => {
  const shared = jobs.filter(isShared)
  const count = Math.ceil(shared.length / MOST_FILES)
  if (shared.length < 2) return jobs
  const batches = Array.from({ length: count }, (_, i) => {
    const files = shared.slice(Math.floor((i * shared.length) / count), Math.floor(((i + 1) * shared.length) / count))
    const timeoutSeconds = Math.max(...files.map((job) => job.timeoutSeconds))
    return { ...process, name: `batch ${i + 1}`, jobs: files, timeoutSeconds }
  })
  return [...jobs.filter((job) => !isShared(job)), ...batches]
}

module.exports = { inBatches, isShared, SHARED }
