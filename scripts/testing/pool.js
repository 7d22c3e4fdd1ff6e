// Runs test processes, several at a time. In: jobs with command, limit and whether they want to be alone.
// Out: for each, its output and how it ended. Invariant: a process that is stopped takes its children with it.
'use strict'
const { spawn } = require('node:child_process')

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

const runOne = ({ command, args, cwd, env, timeoutSeconds }) =>
  new Promise((resolve) => {
    const started = process.hrtime.bigint()
    const child = spawn(command, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    running.add(child)
    let output = ''
    let timedOut = false
    const collect = (chunk) => {
      output += chunk
    }
    child.stdout.setEncoding('utf8').on('data', collect)
    child.stderr.setEncoding('utf8').on('data', collect)
    const timer = setTimeout(() => {
      timedOut = true
      stop(child)
    }, timeoutSeconds * 1000)
    let ending = { code: 127, signal: null }
    let grace
    const settle = () => {
      clearTimeout(timer)
      clearTimeout(grace)
      running.delete(child)
      const seconds = Number(process.hrtime.bigint() - started) / 1e9
      resolve({ output, ...ending, timedOut, seconds })
    }
    child.once('error', (error) => {
      output += `${error.message}\n`
      settle()
    })
    child.once('exit', (code, signal) => {
      ending = { code, signal }
      stop(child)
      grace = setTimeout(settle, PIPE_GRACE_MS)
    })
    child.once('close', settle)
  })

/** Jobs that may take long begin first, so that none is left over at the end; those that want to be alone run last, one by one. */
const runAll = async (jobs, width, onDone) => {
  const queue = jobs.filter((job) => !job.serial).sort((a, b) => b.timeoutSeconds - a.timeoutSeconds)
  const worker = async () => {
    for (let job = queue.shift(); job; job = queue.shift()) onDone(job, await runOne(job))
  }
  await Promise.all(Array.from({ length: Math.max(1, width) }, worker))
  for (const job of jobs.filter((j) => j.serial)) onDone(job, await runOne(job))
}

module.exports = { runAll, stopAll }
