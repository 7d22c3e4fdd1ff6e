// What `npm run test:quick` runs: one of each kind of check, in a minute on two cores. Patterns as `npm test -- PATTERN` takes them.
'use strict'

module.exports = { QUICK: [] }
