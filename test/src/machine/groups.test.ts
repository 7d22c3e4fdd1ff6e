// Control groups as files say them: both versions, nested, in containers that see a part of the hierarchy.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { groupRooms } from '../../../src/machine/groups'
import { availableBytes, deviceBytes } from '../../../src/machine/memory'

const reader =
  (files: Readonly<Record<string, string>>) =>
  (path: string): string | undefined =>
    files[path]
const V1 = '36 25 0:30 / /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory'
const V2 = '30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate'

test('of version 1, the group of the process counts, and all above it', () => {
  const at = '/sys/fs/cgroup/memory'
  const files = {
    '/proc/self/mountinfo': `${V1}\n`,
    '/proc/self/cgroup': '5:cpu,cpuacct:/x\n4:memory:/job/step\n0::/\n',
    [`${at}/job/step/memory.limit_in_bytes`]: '9223372036854771712\n',
    [`${at}/job/step/memory.usage_in_bytes`]: '100\n',
    [`${at}/job/memory.limit_in_bytes`]: '400000000\n',
    [`${at}/job/memory.usage_in_bytes`]: '150000000\n',
    [`${at}/job/memory.stat`]: 'cache 1\ntotal_inactive_file 50000000\n',
    [`${at}/memory.limit_in_bytes`]: '900000000\n',
    [`${at}/memory.usage_in_bytes`]: '100000000\n',
  }
  assert.equal(groupRooms(reader(files)), [300_000_000, 800_000_000])
  assert.is(availableBytes(reader({ ...files, '/proc/meminfo': 'MemAvailable:    1000000 kB\n' })), 300_000_000)
})

test('of version 2, the narrower of max and high', () => {
  const at = '/sys/fs/cgroup'
  const files = {
    '/proc/self/mountinfo': V2,
    '/proc/self/cgroup': '0::/user.slice/job\n',
    [`${at}/user.slice/job/memory.max`]: 'max\n',
    [`${at}/user.slice/job/memory.high`]: '700\n',
    [`${at}/user.slice/job/memory.current`]: '200\n',
    [`${at}/user.slice/job/memory.stat`]: 'inactive_file 50\n',
    [`${at}/user.slice/memory.max`]: '600\n',
    [`${at}/user.slice/memory.current`]: '900\n',
  }
  assert.equal(groupRooms(reader(files)), [550, 0])
})

test('in a container that sees its own part of the hierarchy', () => {
  const of = (group: string): readonly number[] =>
    groupRooms(
      reader({
        '/proc/self/mountinfo': '36 25 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory',
        '/proc/self/cgroup': `4:memory:${group}\n`,
        '/sys/fs/cgroup/memory/memory.limit_in_bytes': '500',
        '/sys/fs/cgroup/memory/memory.usage_in_bytes': '100',
        '/sys/fs/cgroup/memory/inner/memory.limit_in_bytes': '300',
        '/sys/fs/cgroup/memory/inner/memory.usage_in_bytes': '100',
      }),
    )
  assert.equal(of('/docker/abc'), [400])
  assert.equal(of('/docker/abc/inner'), [200, 400])
  assert.equal(of('/docker/abcd'), [400])
})

test('without control groups, or if their files cannot be read, no limit is reported', () => {
  assert.equal(groupRooms(reader({})), [])
  assert.equal(groupRooms(reader({ '/proc/self/mountinfo': V2, '/proc/self/cgroup': '0::/a' })), [])
})

test('ranks that train together on a machine have equal shares of its memory', () => {
  const from = reader({ '/proc/meminfo': 'MemAvailable:    41943040 kB\n' })
  const here = { OMPI_COMM_WORLD_SIZE: '8', OMPI_COMM_WORLD_RANK: '5', OMPI_COMM_WORLD_LOCAL_SIZE: '4' }
  const gibs = (ranks: number | undefined, env: NodeJS.ProcessEnv): number => deviceBytes({ ranks }, env, from) / 2 ** 30
  assert.is(gibs(8, here), 9.5)
  assert.is(gibs(1, here), 39.5)
  assert.is(gibs(undefined, here), 39.5)
  assert.is(gibs(8, {}), 39.5)
})

test.run()
