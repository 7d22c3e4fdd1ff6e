// A process that trains without arithmetic: after step n every number is n. Killed by checkpoint.test.ts.
import { findCheckpoint, prepareDirectory, restore, saveCheckpoint, type Circumstances } from '../../../src/train/checkpoint'
import { NO_STEPS } from '../../../src/train/totals'
import { modelState, NO_ORIGIN } from '../../../src/train/weights'
import { MemoryStore, toyGraph } from '../toy'

export const identity = {
  model: 'toy',
  fingerprint: 'f',
  seed: 1,
  data: 'none',
  weights: 'none',
  algorithms: 'fixed',
  device: 'null',
}
export const circumstances: Circumstances = { processor: 'a processor', threads: 2, libraries: 'a library 1.0' }
export const lossAt = (step: number): number => 1 / step

const run = (directory: string): void => {
  const state = modelState(toyGraph)
  prepareDirectory(directory)
  const found = findCheckpoint(directory).checkpoint
  const store = new MemoryStore(toyGraph, () => 0)
  if (found) restore(directory, found, state, store)
  const losses = [...(found?.losses ?? [])]
  process.stdout.write('ready\n')
  for (let step = losses.length + 1; ; step++) {
    losses.push(lossAt(step))
    for (const v of [...state.weights, ...state.optimizer])
      store.write(v.name, new Uint8Array(Float32Array.from(store.numbers(v.name), (x) => x + 1).buffer))
    saveCheckpoint(
      directory,
      { step, identity, circumstances, settings: {}, losses, measured: [], origin: NO_ORIGIN, totals: NO_STEPS },
      state,
      store,
    )
  }
}

if (require.main === module) run(process.argv[2]!)
