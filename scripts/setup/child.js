// In: a command. Out: its exit status; all that it prints goes to a log file, line by line to a listener on request.
// Invariant: when this process is interrupted, the child's whole process group goes with it.
'use strict'
const { spawn } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const readline = require('node:readline')

const running = new Set()

/** Ends every running child, with its own children. */
const endChildren = (signal) => {
  for (const child of running) {
    try {
      process.kill(-child.pid, signal)
    } catch {
      // The group is gone already.
    }
  }
}

const endOnSignals = () => {
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ]) {
    process.once(signal, () => {
      endChildren('SIGTERM')
      process.exit(code)
    })
  }
}
let listening = false

/**
 * Runs `command args`, appending its output to `log`. Resolves to `{ code, signal, missing }`; `missing` when there is
 * no such command.
 */
const runLogged = (command, args, { cwd, env = process.env, log, onLine }) => {
  if (!listening) endOnSignals()
  listening = true
  fs.mkdirSync(path.dirname(log), { recursive: true })
  const out = fs.createWriteStream(log, { flags: 'a' })
  out.write(`$ ${command} ${args.join(' ')}\n`)
  return new Promise((resolve) => {
    const child = spawn(command, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
    running.add(child)
    const listen = (stream) => {
      readline.createInterface({ input: stream, crlfDelay: Infinity }).on('line', (line) => {
        out.write(`${line}\n`)
        onLine?.(line)
      })
    }
    listen(child.stdout)
    listen(child.stderr)
    const settle = (result) => {
      running.delete(child)
      out.end(() => resolve(result))
    }
    child.once('error', (error) => settle({ code: 127, signal: null, missing: error.code === 'ENOENT' }))
    child.once('close', (code, signal) => settle({ code, signal, missing: false }))
  })
}

/** The lines of a failed log to read first: the errors, or else the end. */
const tellingLines = (log, count = 15) => {
  const lines = fs.existsSync(log) ? fs.readFileSync(log, 'utf8').trimEnd().split('\n') : []
  const firstError = lines.findIndex((line) => /(^|\s|:)(fatal )?error\b|\bERR!/i.test(line))
  return firstError < 0 ? lines.slice(-count) : lines.slice(firstError, firstError + count)
}

module.exports = { runLogged, tellingLines, endChildren }
