// Programs that gpu-check.sh runs, each in a process group of its own, its output in files of its own as it comes. In: a name, a program, a limit.
// Out: its status and its output. A program with a long start stays and answers line by line. Invariant: after a run, or when this process ends, no
// process of it is left that could hold the card.
'use strict'
const { spawn } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')

const fileName = (name) => name.replace(/[^\w.-]+/g, '_')
const running = new Set()

const endGroup = (pid) => {
  try {
    process.kill(-pid, 'SIGKILL')
  } catch {
    /* it is over */
  }
}

for (const signal of ['SIGTERM', 'SIGINT'])
  process.on(signal, () => {
    running.forEach(endGroup)
    process.exit(1)
  })

/** `secondsLeft` bounds every run's own limit. */
const runner = ({ out, root, secondsLeft }) => {
  const logs = path.join(out, 'logs')
  fs.mkdirSync(logs, { recursive: true })
  let runs = 0
  const ended = (number, name, words) => fs.appendFileSync(path.join(out, 'runs.log'), `${number} ${name}: ${words}\n`)

  return (name, program, args, { seconds, env = {} }) =>
    new Promise((resolve) => {
      const number = String(++runs).padStart(3, '0')
      const [stdoutFile, stderrFile] = ['out', 'err'].map((kind) => path.join(logs, `${number}-${fileName(name)}.${kind}`))
      const files = [stdoutFile, stderrFile].map((file) => fs.openSync(file, 'w'))
      const limit = Math.max(1, Math.min(seconds, secondsLeft()))
      const began = Date.now()
      fs.appendFileSync(path.join(out, 'runs.log'), `${number} ${name}: ${program} ${args.join(' ')}\n`)
      const child = spawn(program, args, {
        cwd: root,
        env: { ...process.env, ...env },
        stdio: ['ignore', ...files],
        detached: true,
      })
      let timedOut = false
      const timer = setTimeout(() => {
        timedOut = true
        endGroup(child.pid)
      }, limit * 1000)
      const over = (status, words) => {
        clearTimeout(timer)
        if (child.pid) endGroup(child.pid)
        running.delete(child.pid)
        files.forEach(fs.closeSync)
        const spent = (Date.now() - began) / 1000
        const [stdout, stderr] = [stdoutFile, stderrFile].map((file) => fs.readFileSync(file, 'utf8'))
        const outcome = timedOut ? `out of time (${limit.toFixed(0)} s)` : words
        ended(number, name, `= ${outcome} after ${spent.toFixed(1)} s`)
        resolve({ status, stdout, text: `${stdout}${stderr}${status === null ? outcome : ''}`, outcome, timedOut, spent })
      }
      if (child.pid) running.add(child.pid)
      child.on('error', (e) => over(null, e.message))
      child.on('exit', (status, signal) => over(status, status ?? signal))
    })
}

/** ask(question, seconds): the lines that it answered with, the last one the whole answer; a question that takes too long ends the program, and
 * the next starts it anew. */
const answerer = ({ out, root, secondsLeft }, name, program, args) => {
  const log = path.join(out, 'logs', `${fileName(name)}.log`)
  let child
  const end = () => {
    if (child?.pid) {
      endGroup(child.pid)
      running.delete(child.pid)
    }
    child = undefined
  }
  process.on('exit', end)
  const start = () => {
    const to = fs.openSync(log, 'a')
    child = spawn(program, args, { cwd: root, stdio: ['pipe', 'pipe', to], detached: true })
    fs.closeSync(to)
    if (child.pid) running.add(child.pid)
    child.on('error', end)
    child.stdin.on('error', () => {})
  }
  const ask = (question, seconds) =>
    new Promise((resolve) => {
      if (child === undefined) start()
      const asked = child
      const limit = Math.max(1, Math.min(seconds, secondsLeft()))
      let said = ''
      const over = (outcome) => {
        clearTimeout(timer)
        asked.stdout.off('data', heard)
        asked.off('exit', ended)
        asked.off('error', failed)
        fs.appendFileSync(path.join(out, 'runs.log'), `${name} ${question}: ${outcome}\n`)
        if (outcome !== 'answered') end()
        resolve({ lines: said.split('\n').filter((line) => line.startsWith('{')), outcome, log })
      }
      const heard = (data) => {
        said += data
        if (said.endsWith('\n\n')) over('answered')
      }
      const ended = (status, signal) => over(`ended: ${status ?? signal}`)
      const failed = (e) => over(e.message)
      const timer = setTimeout(() => over(`out of time (${limit.toFixed(0)} s)`), limit * 1000)
      asked.stdout.on('data', heard)
      asked.on('exit', ended)
      asked.on('error', failed)
      asked.stdin.write(`${question}\n`)
    })
  return { ask, end }
}

module.exports = { answerer, fileName, runner }
