// The addon in several threads of JavaScript: each has its own classes.
import { Worker } from 'node:worker_threads'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { addonFile, loadNative } from '../../src/device/native'

test('a worker that loads the addon leaves the ranks of the main thread as they are', async () => {
  const native = loadNative()
  const early = native.openThreadRanks(2)
  const code = await new Promise((resolve, reject) =>
    new Worker('require(require("node:worker_threads").workerData)', { eval: true, workerData: addonFile() })
      .once('exit', resolve)
      .once('error', reject),
  )
  assert.is(code, 0)
  const late = native.openThreadRanks(2)
  for (const ranks of [early, late]) {
    const heard = await Promise.all(ranks.map((r, i) => r.exchange(Uint8Array.of(i + 1))))
    assert.equal(
      heard.map((all) => all.map((bytes) => bytes[0])),
      [
        [1, 2],
        [1, 2],
      ],
    )
    for (const rank of ranks) rank.close()
  }
})

test.run()
