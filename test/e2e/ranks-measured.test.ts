// own process
// timeout 900
// The measurements of several processes before they plan: the slowest of their machines, and the network between them. Another machine is imitated by
// a cache of its own, with all calls five times as long. Without MPI, threads alone.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import type { DeviceName } from '../../staging/devices'
import { gateTest } from '../full'
import { DEVICE } from './runs'
import { ended, type End, spillway, spillwayHere } from './processes'

const has = (program: string, ...args: readonly string[]): boolean => spawnSync(program, args).status === 0
const MPIS = ['openmpi', 'mpich']
  .map((name) => ({ run: `mpirun.${name}`, cxx: `mpicxx.${name}` }))
  .filter(({ run, cxx }) => has(run, '--version') && has(cxx, '-show'))

const root = mkdtempSync(join(tmpdir(), 'spillway-measured-'))
test.after(() => rmSync(root, { recursive: true }))
const OWN = join(root, 'own')
process.env['XDG_CACHE_HOME'] = OWN
const OTHER = join(root, 'other')
const ENV = {
  OMPI_ALLOW_RUN_AS_ROOT: '1',
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
  OMPI_MCA_rmaps_base_oversubscribe: '1',
  OMPI_MCA_btl_base_warn_component_unused: '0',
  XDG_CACHE_HOME: OWN,
}
const MODEL = ['resnet20-cifar', '--image=16', '--batch=8', '--threads=1', '--measure=while', '--json']
const PLAN = ['plan', ...MODEL, `--machine=${DEVICE}`]
const TRAIN = ['train', ...MODEL, `--device=${DEVICE}`, '--strategy=in-core', '--engine=threads', '--ranks=2']

interface Told {
  readonly computeSeconds: number
  readonly measuringSeconds: number
  readonly network?: { readonly name: string; readonly bytesPerSecond: number; readonly latencySeconds: number }
  readonly weightsSha256: string
  readonly shard?: string
}
const told = ({ code, out, err }: End): Told => {
  assert.is(code, 0, err)
  return JSON.parse(out.slice(out.indexOf('{'), out.lastIndexOf('}') + 1)) as Told
}

/** Multiplies all measured times. */
const slowed = (folder: string, times: number): void => {
  const all = join(folder, 'spillway')
  for (const name of readdirSync(all).filter((n) => n.startsWith('profile-'))) {
    const profile = JSON.parse(readFileSync(join(all, name), 'utf8'))
    for (const key of ['seconds', 'roughSeconds', 'inSteps'])
      for (const call of Object.keys(profile[key]))
        profile[key][call] = Array.isArray(profile[key][call])
          ? profile[key][call].map((s: number) => s * times)
          : profile[key][call] * times
    writeFileSync(join(all, name), JSON.stringify(profile))
  }
}

const isMeasured = (['cpu'] as readonly DeviceName[]).includes(DEVICE)
for (const mpi of isMeasured ? MPIS : []) {
  const planned = (under: readonly string[], ...more: readonly string[]): Promise<End> =>
    ended(spillway([...PLAN, ...more], { under: [mpi.run, '-n', '2', ...under], env: { ...ENV, SPILLWAY_MPICXX: mpi.cxx } }))

  gateTest(
    `${mpi.run}: a plan counts on the network that its processes have measured, and on nothing that is cached`,
    async () => {
      told(await planned([]))
      const { network, measuringSeconds } = told(await planned([]))
      assert.is(network?.name, 'measured')
      assert.ok(network!.bytesPerSecond > 1e6 && network!.latencySeconds > 0)
      assert.is(measuringSeconds, 0)
    },
  )

  gateTest(`${mpi.run}: processes train with their measured times`, async () => {
    const args = ['train', ...MODEL, `--device=${DEVICE}`, '--steps=2', '--network=measured']
    const under = [mpi.run, '-n', '2']
    const run = await ended(spillway(args, { under, env: { ...ENV, SPILLWAY_MPICXX: mpi.cxx } }))
    assert.is(told(run).network?.name, 'measured')
  })

  gateTest(`${mpi.run}: the slowest machine counts, and a note names its rank`, async () => {
    rmSync(OTHER, { recursive: true, force: true })
    cpSync(OWN, OTHER, { recursive: true })
    slowed(OTHER, 5)
    const there = join(root, 'there.sh')
    writeFileSync(there, `[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = 1 ] && export XDG_CACHE_HOME=${OTHER}\nexec "$@"\n`)
    const network = '--network=infiniband-400g'
    const alike = told(await planned([], network))
    const end = await planned(['sh', there], network)
    const ratio = told(end).computeSeconds / alike.computeSeconds
    assert.ok(ratio > 4.5 && ratio < 5.5, `${ratio}`)
    assert.is(end.err.match(/note: rank 1 is the slowest, 5\.0 times slower than rank 0/g)?.length, 1, end.err)
    // A machine that is faster is waited for by nobody.
    slowed(OTHER, 1 / 50)
    assert.is(told(await planned(['sh', there], network)).computeSeconds, alike.computeSeconds)
  })
}

const trained = (...more: readonly string[]): Promise<End> => spillwayHere(...TRAIN, ...more)

if (isMeasured)
  gateTest('a run keeps the network that it was planned for', async () => {
    const at = join(root, 'kept')
    const kept = (): string | undefined => /"network":\{[^}]*\}/.exec(readFileSync(join(at, 'plan.json'), 'utf8'))?.[0]
    const first = told(await trained('--steps=2', `--checkpoint-dir=${at}`))
    assert.is(first.network?.name, 'measured')
    assert.is(kept(), `"network":${JSON.stringify(first.network)}`)
    const more = told(await trained('--steps=4', `--checkpoint-dir=${at}`, '--resume'))
    assert.equal([more.network, kept()], [first.network, `"network":${JSON.stringify(first.network)}`])
  })

test('plans of stated times assume no network unless one is named', async () => {
  assert.is(told(await trained('--steps=1', '--algorithms=fixed')).network, undefined)
  assert.is(told(await trained('--steps=1', '--algorithms=fixed', '--network=measured')).network?.name, 'measured')
})

test('one process measures no network', async () => {
  const end = await spillwayHere(...PLAN, '--network=measured', '--ranks=2')
  assert.is(end.code, 2)
  assert.match(end.err, /network 'measured' is measured between running processes: mpirun -n 2/)
})

test.run()
