// timeout 300
// A spill file that fails in the middle of a training: the run ends with words, the checkpoint stands, and resuming on a
// sound disk ends with the bits of a run that nothing happened to.
import { mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync, truncateSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { SpillwayException } from '../../src/errors/errors'
import { trunk } from './models'
import { smallestBudget, staged, trained } from './runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-faults-'))
test.after(() => rmSync(root, { recursive: true }))

const STEPS = 5
const spill = join(root, 'spill')
const plan = () => staged(trunk, { strategy: 'swap:greedy', budget: smallestBudget(trunk, 'swap:greedy'), spill })

/** This process's own way to the spill file, which has no name. */
const openSpillFile = (): string => {
  const linkOf = (fd: string): string => {
    try {
      return readlinkSync(join('/proc/self/fd', fd))
    } catch {
      return ''
    }
  }
  const fd = readdirSync('/proc/self/fd').find((n) => linkOf(n).startsWith(`${spill}/`))
  assert.ok(fd, 'no spill file is open')
  return join('/proc/self/fd', fd!)
}

const failure = async (run: Promise<unknown>): Promise<string> => {
  try {
    await run
  } catch (e) {
    if (e instanceof SpillwayException) return e.message
    throw e
  }
  throw new Error('it went well')
}

test('a truncated spill file ends the run with an error, and training resumes to the same bits', async () => {
  mkdirSync(spill)
  const alone = await trained(trunk, plan(), { steps: STEPS, spill })
  assert.ok(alone.diskBytes > 0 && alone.bytesIn > 0)
  const checkpointDir = join(root, 'checkpoints')
  // All bytes that a step had written at the cut, not only its later writes: so it cuts repeatedly.
  let cutting: NodeJS.Timeout | undefined
  const message = await failure(
    trained(trunk, plan(), {
      steps: STEPS,
      spill,
      checkpointDir,
      checkpointEvery: 1,
      onProgress: (p) => {
        if (p.kind !== 'step' || p.step !== 3 || cutting) return
        const file = openSpillFile()
        cutting = setInterval(() => truncateSync(file, 0), 1)
      },
    }).finally(() => clearInterval(cutting)),
  )
  assert.match(message, /spill file/)
  assert.ok(message.includes(spill) && message.includes('--resume'), message)
  const resumed = await trained(trunk, plan(), { steps: STEPS, spill, checkpointDir, checkpointEvery: 1, resume: true })
  assert.equal([resumed.weightsSha256, resumed.losses], [alone.weightsSha256, alone.losses])
  assert.ok(resumed.resumedFrom !== undefined && resumed.resumedFrom >= 1 && resumed.resumedFrom < STEPS)
})

test('a spill folder that is removed while it is in use matters to no one', async () => {
  const alone = await trained(trunk, plan(), { steps: 3, spill })
  const removed = await trained(trunk, plan(), {
    steps: 3,
    spill,
    onProgress: () => rmSync(spill, { recursive: true, force: true }),
  })
  assert.is(removed.weightsSha256, alone.weightsSha256)
})

test.run()
