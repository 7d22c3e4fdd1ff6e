// A small file system of its own. In: its size. Out: its folder, to be filled and emptied; undefined where nobody may mount one.
import { spawnSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface SmallDisk {
  readonly folder: string
  readonly fill: () => void
  readonly empty: () => void
  readonly remove: () => void
}

export const smallDisk = (kib: number): SmallDisk | undefined => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-small-'))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${kib}k`, 'none', folder]).status === 0
  if (!mounted) rmSync(folder, { recursive: true })
  const ballast = join(folder, 'ballast')
  return mounted
    ? {
        folder,
        // Again and again: bytes that others free meanwhile are taken, too.
        fill: () => {
          const fd = openSync(ballast, 'a')
          try {
            for (;;) writeSync(fd, Buffer.alloc(4096))
          } catch {
            closeSync(fd)
          }
        },
        empty: () => rmSync(ballast, { force: true }),
        remove: () => {
          spawnSync('umount', ['-l', folder])
          rmSync(folder, { recursive: true, force: true })
        },
      }
    : undefined
}
