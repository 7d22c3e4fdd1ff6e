// `npm run build`: npm packages, compiled TypeScript and the native addon, without running anything.
'use strict'
const { say, setUpOrExit } = require('./setup')

setUpOrExit({ dev: false }).then(() => say('built: dist/ and build/addon/Release/spillway.node'))
