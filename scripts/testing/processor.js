// Processor seconds, user and system. Out: those of this process's ended children and their ended children; those of this process and
// them. (Node has no rusage of children.)
'use strict'
const fs = require('node:fs')

/** Clock ticks of Linux in a second. */
const TICKS = 100
/** Fields of /proc/PID/stat behind the name: utime, stime, cutime, cstime. */
const [UTIME, STIME, CUTIME, CSTIME] = [11, 12, 13, 14]

const secondsIn = (...fields) => {
  const stat = fs.readFileSync('/proc/self/stat', 'utf8')
  const values = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return fields.reduce((sum, field) => sum + Number(values[field]), 0) / TICKS
}

const childSeconds = () => secondsIn(CUTIME, CSTIME)
const processSeconds = () => secondsIn(UTIME, STIME, CUTIME, CSTIME)

module.exports = { childSeconds, processSeconds }
