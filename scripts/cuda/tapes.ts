// `node -r ./scripts/testing/typescript.js scripts/cuda/tapes.ts FOLDER [WORD]`: a training of each family of the zoo, or of those named
// so, as tapes for the cuda device, which runplan runs without Node (scripts/check-native.js zoo). In: the imitated CUDA, which is built
// here. Out: for each family a tape in-core, and one that swaps in its least budget. Without the headers of CUDA, cuDNN and cuBLAS:
// `skipped: …`.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { toTape } from '../../staging/plan/tape'
import type { Staged } from '../../src/stage/staged'
import { familyNames, smallestOf, stagedFamily } from './families'

const { nativeLibrary } = require('../testing/native') as {
  readonly nativeLibrary: (root: string, target: string) => Promise<string | null>
}

const ON = { machine: 'cuda', precision: 'fp32' } as const
const SWAPS = 'swap:greedy'

const main = async (folder: string, word: string): Promise<void> => {
  const library = await nativeLibrary(join(__dirname, '..', '..'), 'spillway_host_cuda')
  if (library === null) return console.log('skipped: the headers of CUDA, cuDNN and cuBLAS are not here')
  const cache = mkdtempSync(join(tmpdir(), 'spillway-tapes-'))
  process.env.SPILLWAY_CUDA = library
  process.env.XDG_CACHE_HOME = cache
  mkdirSync(folder, { recursive: true })
  for (const name of familyNames.filter((n) => n.includes(word))) {
    const write = (how: string, { plan }: Staged): void => {
      const tape = toTape(plan)
      writeFileSync(join(folder, `${name}.${how}.tape`), tape)
      console.log(`${name}, ${how}: ${tape.length} bytes`)
    }
    const least = smallestOf(name, { ...ON, strategy: SWAPS })
    write('in-core', stagedFamily(name, { ...ON, strategy: 'in-core' }))
    write('swapped', stagedFamily(name, { ...ON, strategy: SWAPS, budget: least }))
  }
  rmSync(cache, { recursive: true })
}

main(process.argv[2] ?? join('build', 'zoo-tapes'), process.argv[3] ?? '')
