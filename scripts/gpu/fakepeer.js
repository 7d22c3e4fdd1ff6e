// A stand-in for bench/gpu/peer.py --serve in rehearsals on machines whose PyTorch finds no GPU. In: its words, line by line. Out: its answers, with
// made-up times and peaks for every mode, marked by `torch: fake`. Invariant: no figure of it gets into a result without this mark.
'use strict'
const readline = require('node:readline')

const SECONDS = { eager: 0.03, graph: 0.028, compile: 0.025 }

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const words = line.split(' ')
  const names = words[words.indexOf('--modes') + 1].split(',')
  const modes = Object.fromEntries(names.map((name) => [name, { secondsPerStep: SECONDS[name] ?? 0.05, peakBytes: 2 ** 30 }]))
  console.log(`${JSON.stringify({ torch: 'fake', device: 'none', modes })}\n`)
})
