// The error of a set-up step, and its cure for the user. Exit code 2 means that the user has to act (a package to install, say); 1 that a build
// failed.
'use strict'

class SetupProblem extends Error {
  constructor(message, { exitCode = 1, details = [] } = {}) {
    super(message)
    this.exitCode = exitCode
    this.details = details
  }
}

/** The lines for people. */
const explain = (problem) => [`set-up stopped: ${problem.message}`, ...problem.details].join('\n')

module.exports = { SetupProblem, explain }
