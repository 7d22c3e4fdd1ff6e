// `node scripts/gpu/alone.js`: a rank that is the only one opens NCCL on its GPU, sends bytes to itself and trains two steps: as much of NCCL as
// one GPU shows. Out: a line of JSON. SPILLWAY_NCCL_ALONE=1 must stand in the environment.
'use strict'
const { stage } = require('../../dist/src')
const { loadNative } = require('../../dist/src/device/native')
const { rankOf } = require('../../dist/src/ranks/rank')
const { listen } = require('../../dist/src/train/events')
const { sessionTask } = require('../../dist/src/train/session')
const net = require('./small').default

const main = async () => {
  const staged = stage(net, { machine: 'cuda', strategy: 'in-core', algorithms: 'fixed' })
  const [rank] = loadNative().openThreadRanks(1).map(rankOf)
  const answer = await sessionTask(
    undefined,
    { ...staged, rank },
    { steps: 2, seed: 1 },
    listen(() => {}),
  )()
  rank.communicator.close()
  const { right, left } = answer
  console.log(JSON.stringify(right ? { nccl: loadNative().carrier('cuda'), losses: right.losses } : { error: left }))
  process.exitCode = right ? 0 : 1
}
main()
