// A thread that passes a gate repeatedly, for half a millisecond each time, and counts its entries and exits.
import { parentPort, workerData } from 'node:worker_threads'
import { enter, type Gate, leave } from '../../../src/data/gate'

const { gate, counts } = workerData as { readonly gate: Gate; readonly counts: Int32Array }
const pass = (): boolean => {
  if (!enter(gate)) return false
  Atomics.add(counts, 0, 1)
  Atomics.wait(counts, 2, 0, 0.5)
  Atomics.add(counts, 1, 1)
  leave(gate)
  return true
}
pass()
parentPort?.postMessage('inside')
while (pass());
