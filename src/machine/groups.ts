// Control groups and the memory that they leave. In: the system's files, by a reader. Out: free bytes of each group that holds this process,
// from its own to the outermost that can be seen, in hierarchies of version 1 and 2, wherever they are mounted. Invariant: a group without a
// limit says nothing. Worked example: /a has 1 GiB left and /a/b, where the process is, none of its own limit: 1 GiB.
import { join } from 'node:path'

/** The text of a file; undefined where there is none. */
export type Reader = (path: string) => string | undefined

/** The names that a version uses for the limits, for the held memory, and for the reclaimable part of its statistics. */
interface Names {
  readonly limits: readonly string[]
  readonly usage: string
  readonly droppable: string
}
const V1: Names = { limits: ['memory.limit_in_bytes'], usage: 'memory.usage_in_bytes', droppable: 'total_inactive_file' }
const V2: Names = { limits: ['memory.max', 'memory.high'], usage: 'memory.current', droppable: 'inactive_file' }

interface Hierarchy {
  readonly names: Names
  /** Its mount point, and the group there. */
  readonly mount: string
  readonly root: string
}

/** Limits beyond this are none. */
const UNLIMITED = 2 ** 60
const bytesIn = (text: string | undefined): number | undefined => {
  const n = Number(text?.trim() || 'none')
  return Number.isFinite(n) && n < UNLIMITED ? n : undefined
}

const roomIn = (read: Reader, folder: string, { limits, usage, droppable }: Names): readonly number[] => {
  const held = bytesIn(read(join(folder, usage)))
  const least = Math.min(...limits.map((name) => bytesIn(read(join(folder, name))) ?? Infinity))
  if (held === undefined || least === Infinity) return []
  const dropped = Number(new RegExp(`^${droppable} (\\d+)$`, 'm').exec(read(join(folder, 'memory.stat')) ?? '')?.[1] ?? 0)
  return [Math.max(0, least - held + dropped)]
}

/** A line of mountinfo: `36 35 0:30 ROOT MOUNT options … - TYPE source OPTIONS`. */
const hierarchyIn = (line: string): readonly Hierarchy[] => {
  const [place = '', source = ''] = line.split(' - ')
  const [, , , root = '/', mount = ''] = place.split(' ').map((t) => t.replaceAll('\\040', ' '))
  const [type, , options = ''] = source.split(' ')
  if (type === 'cgroup2') return [{ names: V2, mount, root }]
  return type === 'cgroup' && options.split(',').includes('memory') ? [{ names: V1, mount, root }] : []
}

/** The process's own group of a hierarchy, as /proc/self/cgroup tells it. */
const ownGroup = (groups: string, { names }: Hierarchy): string | undefined =>
  (names === V2 ? /^0::(\/.*)$/m : /^\d+:(?:[^:\n]*,)?memory(?:,[^:\n]*)?:(\/.*)$/m).exec(groups)?.[1]

/** Below the mount; a group outside of it shows as the group at the mount. */
const below = (root: string, group: string): string =>
  root === '/' ? group : group === root || group.startsWith(`${root}/`) ? group.slice(root.length) || '/' : '/'

/** From a folder up to the mount. */
const upwards = (mount: string, group: string): readonly string[] =>
  group === '/' ? [mount] : [join(mount, group), ...upwards(mount, join(group, '..'))]

export const groupRooms = (read: Reader): readonly number[] => {
  const groups = read('/proc/self/cgroup') ?? ''
  return (read('/proc/self/mountinfo') ?? '')
    .split('\n')
    .flatMap(hierarchyIn)
    .flatMap((h) => {
      const own = ownGroup(groups, h)
      return own === undefined ? [] : upwards(h.mount, below(h.root, own)).flatMap((folder) => roomIn(read, folder, h.names))
    })
}
