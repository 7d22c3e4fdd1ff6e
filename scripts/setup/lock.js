// One set-up at a time in a checkout: a lock file that names its holder by process id and start time.
// Invariant: a lock whose holder has died is taken over; a living holder is waited for.
'use strict'
const fs = require('node:fs')
const path = require('node:path')

/** Tells a process from a later one with the same id; null when there is no such process. */
const startTime = (pid) => {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]
  } catch {
    return null
  }
}

const isAlive = (holder) => {
  const [pid, started] = holder.split(' ')
  return Number(pid) > 0 && startTime(pid) === started
}

const read = (file) => {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch {
    return null
  }
}

/** Takes the lock if nobody alive holds it. A link makes the file appear with its text in one step. */
const tryLock = (file) => {
  const mine = `${process.pid} ${startTime(process.pid)}`
  const draft = `${file}.${process.pid}`
  fs.mkdirSync(path.dirname(file), { recursive: true })
  fs.writeFileSync(draft, mine)
  try {
    const holder = read(file)
    if (holder !== null && !isAlive(holder)) removeIfUnchanged(file, holder)
    fs.linkSync(draft, file)
    return () => read(file) === mine && fs.rmSync(file, { force: true })
  } catch (error) {
    if (error.code !== 'EEXIST') throw error
    return null
  } finally {
    fs.rmSync(draft, { force: true })
  }
}

/** Between reading and removing, another process may have taken the dead lock over: then its lock is put back. */
const removeIfUnchanged = (file, expected) => {
  const aside = `${file}.dead.${process.pid}`
  try {
    fs.renameSync(file, aside)
  } catch {
    return
  }
  if (read(aside) !== expected) fs.linkSync(aside, file)
  fs.rmSync(aside, { force: true })
}

/** Waits for the lock, tells once that it waits, and gives the function that releases it. */
const lock = async (file, onWait) => {
  for (let waited = false; ; waited = true) {
    const release = tryLock(file)
    if (release) {
      process.once('exit', release)
      return release
    }
    if (!waited) onWait((read(file) ?? '').split(' ')[0])
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
}

module.exports = { lock, tryLock }
