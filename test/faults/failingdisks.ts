// Disks that fail (EIO), or move less than requested, by a file layer in front of the system's: under the spill file, checkpoints, weights and the
// log. Invariant: short transfers continue to the same bits; errors end the run with words that name the place, and a run without the fault
// continues from the saved files, to the same bits.
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as assert from 'uvu/assert'
import { model } from '../../dsl'
import { type End, ended, trainingOf, unchecked } from '../e2e/processes'
import { smallestBudget } from '../e2e/runs'
import { type Counts, type Family, skipped } from './family'
import { failingLayer } from './layer'
import { net } from './spilling-model'

interface Fault {
  readonly operation: 'WRITE' | 'READ' | 'SYNC'
  readonly kind: 'EIO' | 'SHORT'
  readonly first: number
  readonly folder: 'spill' | 'run' | 'weights' | 'log'
}

const faultsOf = (
  folder: Fault['folder'],
  operations: readonly Fault['operation'][],
  kind: Fault['kind'],
  ...firsts: readonly number[]
): readonly Fault[] => operations.flatMap((operation) => firsts.map((first) => ({ operation, kind, first, folder })))

const FAULTS: readonly Fault[] = [
  ...faultsOf('spill', ['WRITE', 'READ'], 'EIO', 1, 9),
  ...faultsOf('run', ['WRITE'], 'SHORT', 1),
  ...faultsOf('spill', ['WRITE', 'READ'], 'SHORT', 1),
  ...faultsOf('run', ['WRITE'], 'EIO', 1, 3, 6, 20),
  ...faultsOf('run', ['SYNC'], 'EIO', 1, 3, 6),
  ...faultsOf('weights', ['WRITE'], 'SHORT', 1),
  ...faultsOf('weights', ['WRITE', 'SYNC'], 'EIO', 1),
  ...faultsOf('log', ['WRITE'], 'SHORT', 2),
  ...faultsOf('log', ['WRITE'], 'EIO', 1, 3),
]

const shaOf = (e: End): string => {
  assert.is(e.code, 0, e.err)
  return JSON.parse(e.out).weightsSha256
}

const run = async (cases: number): Promise<Counts> => {
  const layer = failingLayer()
  if (layer === undefined) return skipped('the file layer needs a compiler')
  const root = mkdtempSync(join(tmpdir(), 'spillway-failing-'))
  const budget = String(smallestBudget(model([1, 4, 256, 256], net), 'swap:greedy'))
  const train = (at: string, fault?: Fault, ...more: readonly string[]): Promise<End> => {
    const in_ = (name: Fault['folder']): string => join(root, at, name)
    for (const name of ['spill', 'run', 'weights', 'log'] as const) mkdirSync(in_(name), { recursive: true })
    const env = fault && {
      LD_PRELOAD: layer,
      SPILLWAY_FAILING: `${fault.operation} ${fault.kind} ${fault.first} ${in_(fault.folder)}`,
    }
    const places = [
      ...['--spill', in_('spill'), '--checkpoint-dir', in_('run'), '--log', in_('log')],
      ...['--save', join(in_('weights'), 'w.safetensors')],
    ]
    const how = ['--image', '256', '--strategy', 'swap:greedy', '--budget', budget, '--steps', '4', '--checkpoint-every', '1']
    return ended(trainingOf(unchecked(join(__dirname, 'spilling-model.ts')), [...how, ...places, ...more], env ? { env } : {}))
  }
  const alone = shaOf(await train('alone'))
  const tried = FAULTS.filter((_, i) => i % Math.ceil(FAULTS.length / cases) === 0)
  let ends = 0
  for (const [i, fault] of tried.entries()) {
    const what = JSON.stringify(fault)
    const end = await train(String(i), fault)
    if (fault.kind === 'SHORT') {
      assert.is(shaOf(end), alone, what)
      continue
    }
    assert.is(end.code, 1, `${what}: ${end.err}`)
    const { message } = JSON.parse(end.out).error
    assert.ok(message.includes(join(root, String(i), fault.folder)), `${what}: ${message}`)
    assert.match(message, /EIO|Input\/output error/)
    ends++
    assert.is(shaOf(await train(String(i), undefined, '--resume')), alone, what)
  }
  rmSync(root, { recursive: true })
  return { faults: tried.length, ends, short: tried.length - ends }
}

export const family: Family = {
  what: 'disks that fail end a run in words and lose nothing that was saved; short reads and writes go on, to the same bits',
  few: 1,
  all: FAULTS.length,
  seconds: 900,
  run,
}
