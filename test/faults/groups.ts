// Control groups, nested, of the versions that the system has. In: limits. Out: the memory that plans see there. Invariant: the default budget is
// less than the free memory of the narrowest group above, and the system does not end training within it.
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as assert from 'uvu/assert'
import { type End, ended, MODEL, spillway } from '../e2e/processes'
import { type Counts, type Family, skipped } from './family'

const MIB = 1024 ** 2

interface Version {
  readonly name: string
  readonly limit: string
  /** The folder for new groups. */
  readonly root: string
}

/** The hierarchies of this system that limit memory and admit new groups. */
const versions = (): readonly Version[] =>
  readFileSync('/proc/self/mountinfo', 'utf8')
    .split('\n')
    .flatMap((line): readonly Version[] => {
      const [, , , , root = ''] = line.split(' ')
      const [type = '', , options = ''] = (line.split(' - ')[1] ?? '').split(' ')
      if (type === 'cgroup' && options.split(',').includes('memory'))
        return [{ name: 'version 1', limit: 'memory.limit_in_bytes', root }]
      const controllers = join(root, 'cgroup.subtree_control')
      return type === 'cgroup2' && existsSync(controllers) && readFileSync(controllers, 'utf8').includes('memory')
        ? [{ name: 'version 2', limit: 'memory.max', root }]
        : []
    })
    .filter(({ root }) => mayMakeGroups(root))

const mayMakeGroups = (root: string): boolean => {
  const probe = join(root, `spillway-probe-${process.pid}`)
  try {
    mkdirSync(probe)
    rmdirSync(probe)
    return true
  } catch {
    return false
  }
}

/** In a group within a group; the inner one has no limit, or a wider one. */
const inGroups = async ({ root, limit, name }: Version, outer: number, inner: number | undefined): Promise<readonly End[]> => {
  const above = join(root, `spillway-${process.pid}`)
  const own = join(above, 'inner')
  mkdirSync(above)
  if (name === 'version 2') writeFileSync(join(above, 'cgroup.subtree_control'), '+memory')
  mkdirSync(own)
  try {
    writeFileSync(join(above, limit), String(outer))
    if (inner !== undefined) writeFileSync(join(own, limit), String(inner))
    const under = ['sh', '-c', `echo $$ > ${join(own, 'cgroup.procs')}; exec "$@"`, 'sh']
    const on = ['--algorithms', 'fixed', '--json']
    return [
      await ended(spillway(['plan', MODEL, '--machine', 'ref', ...on], { under })),
      await ended(spillway(['train', MODEL, '--device', 'ref', '--steps', '2', ...on], { under })),
    ]
  } finally {
    rmdirSync(own)
    rmdirSync(above)
  }
}

const run = async (cases: number): Promise<Counts> => {
  const found = versions()
  if (found.length === 0) return skipped('no control group with a limit of memory can be made here')
  let tried = 0
  for (const version of found)
    for (const [outer, inner] of ([[700], [1500, 900], [900, 1500], [2500]] as const).slice(0, cases)) {
      const [planned, trained] = await inGroups(version, outer * MIB, inner === undefined ? undefined : inner * MIB)
      const least = Math.min(outer, inner ?? outer) * MIB
      const { budgetBytes } = JSON.parse(planned!.out) as { readonly budgetBytes: number }
      assert.ok(budgetBytes < least, `${version.name}: ${budgetBytes} of ${least}`)
      assert.is(trained!.code, 0, trained!.err)
      tried++
    }
  return { tried, versions: found.map((v) => v.name).join(' and ') }
}

export const family: Family = {
  what: 'the least of nested control groups is what a plan may take, and training there is not ended by the system',
  few: 2,
  all: 4,
  seconds: 300,
  run,
}
