// own process
// A disk that is full at one rank alone ends all ranks, in words, and leaves nothing behind. It mounts a small file system, so it is of the full
// run, as root, where there is an MPI. Worked example: rank 0 spills to a disk, rank 1 to one of 64 KiB: the plan cannot run there.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { ended, spillway } from './processes'

const root = mkdtempSync(join(tmpdir(), 'spillway-full-'))
const places = [0, 1].map((rank) => join(root, `rank-${rank}`))
for (const place of places) mkdirSync(place)
const isMounted =
  process.env['SPILLWAY_FULL'] !== undefined &&
  spawnSync('mpirun', ['--version']).status === 0 &&
  spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', places[1]!]).status === 0
test.after(() => {
  if (isMounted) spawnSync('umount', [places[1]!])
  rmSync(root, { recursive: true })
})

const ENV = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1', OMPI_MCA_rmaps_base_oversubscribe: '1' }
/** Each rank's own folder. */
const SPILLING = `exec "$@" --spill=${root}/rank-\${OMPI_COMM_WORLD_RANK:-$PMI_RANK}`

test(isMounted ? 'a disk that is full at one rank ends all' : 'a disk that is full at one rank: skipped', async () => {
  if (!isMounted) return
  const run = ['train', 'resnet20-cifar', '--batch=16', '--threads=1', '--strategy=swap:greedy', '--algorithms=fixed']
  const end = await ended(
    spillway([...run, '--steps=2', '--budget=18MiB'], { under: ['mpirun', '-n', '2', 'sh', '-c', SPILLING, 'sh'], env: ENV }),
  )
  assert.is.not(end.code, 0)
  assert.match(end.err, /this machine cannot run the plan: 64 KiB are free at .*rank-1, but/)
  assert.equal(
    places.flatMap((place) => readdirSync(place)),
    [],
  )
})

test.run()
