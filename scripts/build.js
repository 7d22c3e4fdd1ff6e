// `npm run build`: npm packages, compiled TypeScript and the native addon, without running anything.
'use strict'
const { say, setUpOrExit } = require('./setup')

setUpOrExit({}).then(() => say('built: dist/ and the native addon'))
