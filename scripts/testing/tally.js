// Reads the output of a test process. In: its output, exit code, signal, and true if all of its tests were wanted. Out: the numbers of passed and
// failed ones, and the reasons. Invariant: a process counts as passed only if it says so and ends well; silence, a crash or zero tests is a failure
// (if only tests of some name were wanted, zero is an answer).
'use strict'

// biome-ignore lint/suspicious/noControlCharactersInRegex: terminal colours are control characters
const COLOURS = /\u001b\[[0-9;]*m/g

const lastNumber = (text, pattern) => {
  const all = [...text.matchAll(pattern)]
  return all.length === 0 ? null : Number(all[all.length - 1][1])
}

const endedBadly = ({ code, signal, timedOut }, limitSeconds) => {
  if (timedOut) return `took longer than ${limitSeconds} s`
  if (signal) return `ended by ${signal}`
  return code === 0 ? null : `exit code ${code}`
}

/** uvu's closing lines. */
const tallyUvu = (output, ending, { timeoutSeconds, only }) => {
  const text = output.replace(COLOURS, '')
  const total = lastNumber(text, /^\s*Total:\s+(\d+)\s*$/gm)
  const passed = lastNumber(text, /^\s*Passed:\s+(\d+)\s*$/gm)
  const skipped = lastNumber(text, /^\s*Skipped:\s+(\d+)\s*$/gm) ?? 0
  const bad = endedBadly(ending, timeoutSeconds)
  if (total === null || passed === null) {
    return { passed: 0, failed: 1, skipped: 0, reason: bad ?? 'ran no tests (is test.run() missing?)' }
  }
  if (total === 0 && !only) return { passed: 0, failed: 1, skipped, reason: 'ran zero tests' }
  if (passed < total) return { passed, failed: total - passed, skipped, reason: bad ?? 'failed' }
  return bad ? { passed, failed: 1, skipped, reason: bad } : { passed, failed: 0, skipped, reason: null }
}

/** The native test programs: the last line `N passed, N failed`. */
const tallyNative = (output, ending, { timeoutSeconds, only }) => {
  const all = [...output.matchAll(/(\d+) passed, (\d+) failed/g)]
  const last = all[all.length - 1]
  const bad = endedBadly(ending, timeoutSeconds)
  if (!last) return { passed: 0, failed: 1, skipped: 0, reason: bad ?? 'said nothing of passed or failed tests' }
  const [passed, failed] = [Number(last[1]), Number(last[2])]
  if (passed + failed === 0 && !only) return { passed, failed: 1, skipped: 0, reason: 'ran zero tests' }
  if (failed > 0) return { passed, failed, skipped: 0, reason: bad ?? 'failed' }
  return { passed, failed: bad ? 1 : 0, skipped: 0, reason: bad }
}

module.exports = { tallyUvu, tallyNative }
