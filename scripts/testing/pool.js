// Runs test processes, several at a time. In: jobs with command, limit and the wish to run alone; batches of jobs for one process.
// Out: for each job, its output, its ending, and its seconds. Invariant: a process that is stopped takes its children with it; each job of a
// batch ends once, in the batch or by itself.
'use strict'
const { spawn } = require('node:child_process')
const { childSeconds } = require('./processor')

/** How long a process that left the group may keep the pipes of a finished test open. */
const PIPE_GRACE_MS = 2000

const running = new Set()

const stop = (child) => {
  try {
    process.kill(-child.pid, 'SIGKILL')
  } catch {
    // Gone already.
  }
}

const stopAll = () => {
  for (const child of running) stop(child)
}

/**
 * Processor seconds that ended children have added since the last call. Children that end in the same turn of the loop share one
 * reading: the total is exact, a single figure almost always.
 */
let charged = 0
const charge = () => {
  const total = childSeconds()
  const cost = total - charged
  charged = total
  return cost
}

/** `onMessage` hears of a batch's files; each message gives the process its limit anew. */
const runOne = ({ command, args, cwd, env, timeoutSeconds }, onMessage) =>
  new Promise((resolve) => {
    const started = process.hrtime.bigint()
    const stdio = ['ignore', 'pipe', 'pipe', ...(onMessage ? ['ipc'] : [])]
    const child = spawn(command, args, { cwd, env, detached: true, stdio })
    running.add(child)
    let output = ''
    let timedOut = false
    const collect = (chunk) => {
      output += chunk
    }
    child.stdout.setEncoding('utf8').on('data', collect)
    child.stderr.setEncoding('utf8').on('data', collect)
    let timer
    const limit = (seconds) => {
      clearTimeout(timer)
      timer = setTimeout(() => {
        timedOut = true
        stop(child)
      }, seconds * 1000)
    }
    limit(timeoutSeconds)
    if (onMessage) child.on('message', (message) => limit(onMessage(message)))
    let ending = { code: 127, signal: null }
    let processorSeconds = 0
    let grace
    const settle = () => {
      clearTimeout(timer)
      clearTimeout(grace)
      running.delete(child)
      const seconds = Number(process.hrtime.bigint() - started) / 1e9
      resolve({ output, ...ending, timedOut, seconds, processorSeconds })
    }
    child.once('error', (error) => {
      output += `${error.message}\n`
      settle()
    })
    child.once('exit', (code, signal) => {
      ending = { code, signal }
      processorSeconds = charge()
      stop(child)
      grace = setTimeout(settle, PIPE_GRACE_MS)
    })
    // Messages may still be in the channel when the process has ended.
    const ends = ['close', ...(onMessage ? ['disconnect'] : [])]
    let left = ends.length
    for (const end of ends)
      child.once(end, () => {
        left--
        if (left === 0) settle()
      })
  })

/** A bad ending of a process whose files have all ended: the one that causes it by itself, too, else the batch. */
const blame = async (batch, jobs, ending, onDone) => {
  for (const job of jobs) {
    const again = await runOne(job)
    if (again.code !== 0) return onDone(job, again)
  }
  onDone(batch, ending)
}

/**
 * The jobs of a batch. A file that fails ends its process (batch.js); those behind it run in the next. If a process crashes or takes too
 * long, its current file runs again alone, and that ending counts. A crash that does not repeat there is a failure of the batch.
 */
const runBatch = async (batch, onDone) => {
  let rest = batch.jobs
  while (rest.length > 0) {
    const waiting = new Map(rest.map((job) => [job.file, job]))
    let begun = rest[0]
    const ending = await runOne({ ...batch, args: [...batch.args, ...waiting.keys()] }, (message) => {
      begun = waiting.get(message.begins ?? message.ends)
      if (message.ends === undefined) return begun.timeoutSeconds
      waiting.delete(message.ends)
      const { output, code, seconds, processorSeconds } = message
      onDone(begun, { output, code, signal: null, timedOut: false, seconds, processorSeconds })
      return batch.timeoutSeconds
    })
    if (waiting.delete(begun.file)) {
      const again = await runOne(begun)
      onDone(begun, again)
      if (again.code === 0) onDone({ ...batch, name: `${batch.name} with ${begun.name}` }, ending)
    } else if (ending.code !== 0) {
      const ran = rest.filter((job) => !waiting.has(job.file))
      await blame(batch, ran, ending, onDone)
    }
    rest = [...waiting.values()]
  }
}

/** Jobs that may take long begin first, so that none is left over at the end; those that want to be alone run last, one by one. */
const runAll = async (jobs, width, onDone) => {
  charge() // children that ended before, such as compilers, are no job's
  const queue = jobs.filter((job) => !job.serial).sort((a, b) => b.timeoutSeconds - a.timeoutSeconds)
  const run = async (job) => {
    if (job.jobs) await runBatch(job, onDone)
    else onDone(job, await runOne(job))
  }
  const worker = async () => {
    for (let job = queue.shift(); job; job = queue.shift()) await run(job)
  }
  await Promise.all(Array.from({ length: Math.max(1, width) }, worker))
  for (const job of jobs.filter((j) => j.serial)) await run(job)
}

module.exports = { runAll, stopAll }
