// own process
// The gate that threads pass to read a sample: after a stop, no thread is inside.
import { once } from 'node:events'
import { extname, join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { enter, leave, openGate, stopGate } from '../../../src/data/gate'

const THREAD = join(__dirname, `gate-thread${extname(__filename)}`)

test('threads that pass a gate are outside when it is stopped, and stay there', async () => {
  for (let round = 0; round < 3; round++) {
    const [gate, counts] = [openGate(), new Int32Array(new SharedArrayBuffer(12))]
    const threads = [0, 1].map(() => new Worker(THREAD, { workerData: { gate, counts } }))
    await Promise.all(threads.map((t) => once(t, 'message')))
    stopGate(gate, 10_000)
    const [begun, ended] = [Atomics.load(counts, 0), Atomics.load(counts, 1)]
    assert.is(ended, begun)
    assert.ok(begun >= 2)
    await Promise.all(threads.map((t) => once(t, 'exit')))
    assert.equal([counts[0], counts[1]], [begun, begun])
  }
})

test('a stopped gate admits no thread and does not wait forever', () => {
  const gate = openGate()
  assert.ok(enter(gate))
  const began = Date.now()
  stopGate(gate, 50)
  assert.ok(Date.now() - began >= 49)
  assert.not.ok(enter(gate))
  leave(gate)
  stopGate(gate, 60_000)
  assert.not.ok(enter(gate))
  assert.is(gate[0], 0)
})

test.run()
