// own process
// timeout 2400
// Several processes on MPI, through the command line: the bits of threads, checkpoints, killed and interrupted ranks. Without MPI the output says so.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import * as E from 'fp-ts/Either'
import { crossEntropy } from '../../dsl'
import type { Shard } from '../../staging/graph/machine'
import { COLLECTIVES } from '../../staging/graph/ranks'
import { machineNamed } from '../../src/machine/machine'
import { writeTensors } from '../../src/files/safetensors'
import { prepare } from '../../src/stage/prepare'
import { zooEntry } from '../../src/zoo'
import { doctor } from '../../src/doctor/doctor'
import { fewOrAll, GATE, gateTest } from '../full'
import { DEVICE } from './runs'
import { afterStep, type End, ended, spillway } from './processes'

const has = (program: string): boolean => spawnSync(program, ['--version']).status === 0
/** Debian has several MPIs side by side, each under its own name. */
const NAMED = ['openmpi', 'mpich'].map((name) => ({ run: `mpirun.${name}`, cxx: `mpicxx.${name}` }))
const USUAL = { run: 'mpirun', cxx: 'mpicxx' }
const isThere = ({ run, cxx }: typeof USUAL): boolean => has(run) && spawnSync(cxx, ['-show']).status === 0
const HERE = isThere(USUAL)
const ALL = NAMED.filter(isThere)
const isOpenMpi = /Open MPI/.test(spawnSync('mpirun', ['--version'], { encoding: 'utf8' }).stdout ?? '')

const root = mkdtempSync(join(tmpdir(), 'spillway-mpi-'))
test.after(() => rmSync(root, { recursive: true }))

// A rank that others have left waits ten minutes for them (src/ranks/rank.ts); `ended` allows five. So a run that does not end soon fails,
// and no test measures time.
const HANGS = /it has not ended after/
/** More ranks than processors, and as root, are for tests alone. */
const ENV = {
  OMPI_ALLOW_RUN_AS_ROOT: '1',
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
  OMPI_MCA_rmaps_base_oversubscribe: '1',
  OMPI_MCA_btl_base_warn_component_unused: '0',
}
const TRAIN = [
  'train',
  'resnet20-cifar',
  '--image=16',
  '--batch=8',
  '--seed=1',
  '--threads=1',
  '--strategy=in-core',
  '--algorithms=fixed',
  '--json',
  `--device=${DEVICE}`,
]

const among = (ranks: number, more: readonly string[], act?: (err: string) => void, mpi = USUAL): Promise<End> =>
  ended(spillway([...TRAIN, ...more], { under: [mpi.run, '-n', `${ranks}`], env: { ...ENV, SPILLWAY_MPICXX: mpi.cxx } }), act)
const alone = (...more: readonly string[]): Promise<End> => ended(spillway([...TRAIN, ...more]))

interface Told {
  readonly weightsSha256: string
  readonly ranks?: number
  readonly shard?: string
  readonly commBytes: number
  readonly budgetBytes: number
  readonly resumedFrom: number
  readonly measured: readonly { readonly metrics: unknown }[]
  readonly loss: number
  readonly metrics: Readonly<Record<string, number>>
}
const told = ({ code, out, err }: End): Told => {
  assert.is(code, 0, err)
  // mpirun says on the same stream what it has to say.
  return JSON.parse(out.slice(out.indexOf('{'), out.lastIndexOf('}') + 1)) as Told
}

/** A rank's sent bytes in a step, from the graph alone: a sum of few numbers is cut in order, the first ranks have one more. */
const formula = (ranks: number, shard?: Shard): number => {
  const on = machineNamed('v100-nvlink-16g', { ranks, shard })
  const model = zooEntry('resnet20-cifar')!.build([8, 3, 16, 16], 'train', {})
  assert.ok(E.isRight(on) && E.isRight(model))
  const prepared = prepare(model.right, on.right, { loss: crossEntropy })
  assert.ok(E.isRight(prepared))
  const { ops, values } = prepared.right.graph
  return ops.reduce((sent, { kind, ins }) => {
    if (!COLLECTIVES.includes(kind)) return sent
    const sizes = ins.map((x) => values[x]!.shape.reduce((a, d) => a * d, 1))
    const n = sizes.reduce((all, size) => all + size, 0)
    // All parts of a gradient except one's own; one's own part of a weight to all others.
    const parts = kind === 'sum_parts' ? sizes.reduce((all, size) => all + Math.ceil(size / ranks), 0) : sizes[1]!
    if (kind === 'sum_parts' || kind === 'put_part') return sent + 4 * parts * (ranks - 1)
    if (kind === 'all_moments' || n * ranks <= 2 ** 15) return sent + 4 * n * (ranks - 1)
    const own = Math.min(n, Math.ceil(n / ranks))
    return sent + 4 * (n - own + own * (ranks - 1))
  }, 0)
}

/** As many threads of one process, once for all that are compared with them. */
const threads = new Map<string, Promise<Told>>()
const byThreads = (steps: number, ranks: number): Promise<Told> => {
  const key = `${steps} ${ranks}`
  const known = threads.get(key) ?? alone(`--steps=${steps}`, '--engine=threads', `--ranks=${ranks}`).then(told)
  threads.set(key, known)
  return known
}

/** The processes that mpirun has started, in the order of their numbers. */
const ranksOf = (mark: string): readonly number[] =>
  spawnSync('pgrep', ['-f', mark], { encoding: 'utf8' })
    .stdout.split('\n')
    .filter(
      (pid) =>
        pid !== '' &&
        !/mpirun|mpiexec|hydra|orterun/.test(spawnSync('ps', ['-o', 'comm=', '-p', pid], { encoding: 'utf8' }).stdout),
    )
    .map(Number)

if (HERE) {
  const alike = async (ranks: number, mpi = USUAL): Promise<void> => {
    const processes = told(await among(ranks, ['--steps=3'], undefined, mpi))
    assert.is(processes.weightsSha256, (await byThreads(3, ranks)).weightsSha256)
    assert.is(processes.ranks, ranks)
  }

  // A grid has as many.
  if (process.env['SPILLWAY_FULL']) test('4 processes have the bits of as many threads', () => alike(4))
  // The test that counts sent bytes compares those of the first MPI.
  for (const mpi of fewOrAll(ALL.slice(1), ALL)) test(`2 processes, by ${mpi.run}`, () => alike(2, mpi))

  // Every run has the grid below, which has bands, too.
  gateTest('bands of rows have the bits of those of threads, and evaluate to the same numbers', async () => {
    const held = join(root, 'held.safetensors')
    const tensor = (name: string, type: 'F32' | 'I32', shape: readonly number[], numbers: Float32Array | Int32Array) => ({
      name,
      type,
      shape,
      read: () => E.right(new Uint8Array(numbers.buffer)),
    })
    const images = Float32Array.from({ length: 13 * 768 }, (_, i) => Math.sin(i))
    writeTensors(held, [
      tensor('input', 'F32', [13, 3, 16, 16], images),
      tensor(
        'target',
        'I32',
        [13, 1, 1, 1],
        Int32Array.from({ length: 13 }, (_, i) => i % 10),
      ),
    ])
    const more = ['--steps=2', '--bands=2', `--evaluate=${held}`]
    const save = join(root, 'evaluated.safetensors')
    const processes = told(await among(2, [...more, `--save=${save}`]))
    const asThreads = told(await alone(...more, '--engine=threads', '--ranks=2'))
    assert.is(processes.weightsSha256, asThreads.weightsSha256)
    assert.equal([processes.measured.length, processes.measured], [2, asThreads.measured])
    // By themselves, too.
    const asked = ['evaluate', ...TRAIN.slice(1).filter((a) => !a.startsWith('--seed')), `--weights=${save}`, `--data=${held}`]
    const { loss, metrics } = told(await ended(spillway(asked, { under: [USUAL.run, '-n', '2'], env: ENV })))
    assert.equal({ loss, ...metrics }, processes.measured[1]!.metrics)
    assert.ok(processes.commBytes > 0)
  })

  for (const [mpi, at] of (ALL.length ? ALL : [USUAL]).map((mpi, i) => [mpi, i === 0 ? 0 : -1] as const))
    gateTest(`${mpi.run}: a signal to one rank in an evaluation ends all ranks with its code`, async () => {
      const weights = join(root, 'asked.safetensors')
      const many = join(root, 'many.safetensors')
      const n = 20_000
      writeTensors(many, [
        { name: 'input', type: 'F32', shape: [n, 3, 16, 16], read: () => E.right(new Uint8Array(4 * n * 768)) },
        { name: 'target', type: 'I32', shape: [n, 1, 1, 1], read: () => E.right(new Uint8Array(4 * n)) },
      ])
      told(await alone('--steps=1', `--save=${weights}`))
      const asked = [
        'evaluate',
        ...TRAIN.slice(1).filter((a) => !a.startsWith('--seed')),
        `--weights=${weights}`,
        `--data=${many}`,
      ]
      let signalled = 0
      const end = await ended(
        spillway(asked, { under: [mpi.run, '-n', '2'], env: { ...ENV, SPILLWAY_MPICXX: mpi.cxx } }),
        (err) => {
          if (signalled > 0 || !/\d+ of 20000/.test(err)) return
          signalled = ranksOf(many).at(at)!
          process.kill(signalled, at === 0 ? 'SIGINT' : 'SIGTERM')
        },
      )
      assert.ok(signalled > 0, 'it ended before anybody asked')
      assert.is(end.code, 130, end.err)
      assert.match(end.err, /cancelled/)
      assert.equal(ranksOf(many), [])
    })

  /** Two shares of the batch, each in two bands, and updates shared out over all four. */
  const GRID = ['--steps=2', '--bands=2', '--shard=gradients']
  for (const mpi of ALL.length ? ALL : [USUAL])
    test(`a grid of 4 processes, by ${mpi.run}`, async () => {
      const processes = told(await among(4, GRID, undefined, mpi))
      const key = 'grid'
      const known = threads.get(key) ?? alone(...GRID, '--engine=threads', '--ranks=4').then(told)
      threads.set(key, known)
      assert.equal([processes.weightsSha256, processes.ranks], [(await known).weightsSha256, 4])
      assert.is(processes.commBytes, (await known).commBytes)
    })

  if (spawnSync('unshare', ['-m', 'true']).status === 0)
    gateTest('the least memory of all ranks is the limit, and a note names the rank', async () => {
      const little = join(root, 'meminfo')
      writeFileSync(little, 'MemAvailable:    2097152 kB\n')
      const script = join(root, 'second.sh')
      const hidden = `mount --bind ${little} /proc/meminfo && exec "$@"`
      writeFileSync(script, `[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = 1 ] || exec "$@"\nexec unshare -m sh -c '${hidden}' sh "$@"\n`)
      const end = await ended(spillway([...TRAIN, '--steps=1'], { under: ['mpirun', '-n', '2', 'sh', script], env: ENV }))
      assert.match(end.err, /note: the budget is 512 MiB, the memory of rank 1, which has the least \(--budget sets another\)/)
      assert.is(told(end).budgetBytes, 2 ** 29)
    })

  gateTest('a script trains with all that were started with it, more than once', async () => {
    const file = join(root, 'script.ts')
    const from = (path: string): string => JSON.stringify(join(__dirname, '..', '..', path))
    writeFileSync(
      file,
      `import { crossEntropy, stage, train } from ${from('src')}
import { zooEntry } from ${from('src/zoo')}
const built = zooEntry('resnet20-cifar')!.build([8, 3, 16, 16], 'train', {})
if (built._tag === 'Left') throw built.left
const net = built.right
const plan = stage(net, { loss: crossEntropy, algorithms: 'fixed', strategy: 'in-core' })
const twice = async () => {
  for (const steps of [3, 1]) {
    const { ranks, weightsSha256 } = await train(net, plan, { steps, seed: 1, threads: 1 })
    console.log(steps, ranks, weightsSha256)
    // A rank that has much to do by itself is not taken for a stopped one.
    if (process.env.OMPI_COMM_WORLD_RANK === '1') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4000)
  }
}
twice()
`,
    )
    const under = [
      USUAL.run,
      '-n',
      '2',
      process.execPath,
      '-r',
      join(__dirname, '..', '..', 'scripts', 'testing', 'typescript.js'),
    ]
    const { status, stdout, stderr } = spawnSync(under[0]!, [...under.slice(1), file], {
      env: { ...process.env, ...ENV, SPILLWAY_SILENCE: '2', FORCE_COLOR: '0', NO_COLOR: '1' },
      encoding: 'utf8',
    })
    assert.is(status, 0, stderr)
    const { weightsSha256 } = await byThreads(3, 2)
    assert.is(stdout.split('\n').filter((l) => l === `3 2 ${weightsSha256}`).length, 2, stdout)
    assert.is(stdout.split('\n').filter((l) => l.startsWith('1 2 ')).length, 2, stdout)
  })

  for (const mpi of ALL.length ? ALL : [USUAL])
    test(`${mpi.run}: a stopped rank is named, and all end`, async () => {
      const at = join(root, `stopped-${mpi.run}`)
      let stopped = 0
      const end = await ended(
        spillway([...TRAIN, '--steps=2000', `--checkpoint-dir=${at}`, '--checkpoint-every=1'], {
          under: [mpi.run, '-n', '2'],
          env: { ...ENV, SPILLWAY_MPICXX: mpi.cxx, SPILLWAY_SILENCE: '2' },
        }),
        afterStep(2, () => {
          stopped = ranksOf(at)[1]!
          process.kill(stopped, 'SIGSTOP')
        }),
      )
      assert.is.not(end.code, 0)
      assert.match(end.err, /rank \d of 2 \(process \d+ on .*\) has given no sign of life for 2 s: it is stopped/)
      assert.ok(end.err.includes(`process ${stopped} on`), end.err)
      assert.equal(ranksOf(at), [])
    })

  /** The one that is stopped does not come: it hangs, for all that others know. */
  gateTest('a rank that hangs ends all ranks with an error', async () => {
    const at = join(root, 'hangs')
    const end = await ended(
      spillway([...TRAIN, '--steps=2000', `--checkpoint-dir=${at}`, '--checkpoint-every=1'], {
        under: [USUAL.run, '-n', '2'],
        env: { ...ENV, SPILLWAY_PATIENCE: '2' },
      }),
      afterStep(2, () => process.kill(ranksOf(at).at(-1)!, 'SIGSTOP')),
    )
    assert.is(end.code, 1, end.err)
    assert.match(end.err, /rank 0 waited 2 s for other ranks: one of them hangs/)
    assert.equal(ranksOf(at), [])
  })

  if (process.env['SPILLWAY_FULL'])
    test('a rank that gets a signal while another hangs ends all ranks within seconds', async () => {
      const at = join(root, 'asked-hangs')
      const end = await among(
        2,
        ['--steps=2000', `--checkpoint-dir=${at}`, '--checkpoint-every=1'],
        afterStep(2, () => {
          const [first, last] = ranksOf(at)
          process.kill(last!, 'SIGSTOP')
          setTimeout(() => process.kill(first!, 'SIGTERM'), 500)
        }),
      ).catch((e: Error) => e)
      if (end instanceof Error) assert.not.match(end.message, HANGS)
      else assert.match(end.err, /SIGTERM: the current step did not end within 10 s: other ranks do not respond/)
      assert.equal(ranksOf(at), [])
    })

  gateTest(
    'MPI sends 2(R-1)/R of the sums, and R-1 times the statistics and parts, whole or shared updates have the same bits',
    async () => {
      const counter = join(root, 'countmpi.so')
      const made = spawnSync('mpicxx', ['-shared', '-fPIC', '-O1', join(__dirname, 'countmpi.cpp'), '-o', counter], {
        encoding: 'utf8',
      })
      assert.is(made.status, 0, made.stderr)
      const counted = async (steps: number, more: readonly string[]): Promise<{ readonly sent: number; readonly told: Told }> => {
        const file = join(root, `sent-${steps}`)
        const under = ['mpirun', '-n', '2', 'env', `LD_PRELOAD=${counter}`, `COUNT_MPI=${file}`]
        const end = await ended(
          spillway([...TRAIN, `--steps=${steps}`, ...more], { under, env: { ...ENV, SPILLWAY_MPICXX: 'mpicxx' } }),
        )
        const lines = new Map(
          readFileSync(file, 'utf8')
            .trim()
            .split('\n')
            .map((l) => l.split(' ').map(Number) as [number, number]),
        )
        return { sent: lines.get(1)!, told: told(end) }
      }
      for (const shard of GATE ? (['none', 'gradients'] as const) : (['gradients'] as const)) {
        const how = [`--shard=${shard}`]
        const [few, more] = [await counted(1, how), await counted(3, how)]
        // Before each step ranks exchange a byte to agree on it; all else belongs to the start and the end, mostly from rank 0: rank 1 sends the same
        // in the steps.
        const perStep = (more.sent - few.sent) / 2 - 1
        // A rank's report at the end is text: its length depends on its numbers.
        const report = 32
        assert.ok(Math.abs(perStep - formula(2, shard)) < report, `${perStep} bytes, not ${formula(2, shard)}`)
        assert.is((more.told.commBytes - few.told.commBytes) / 2, formula(2, shard))
        assert.is(more.told.weightsSha256, (await byThreads(3, 2)).weightsSha256)
        assert.equal([more.told.ranks, more.told.shard ?? 'none'], [2, shard])
      }
    },
  )

  if (ALL.length > 1)
    test('an engine of another MPI than the one that starts the processes is refused', async () => {
      const end = await among(2, ['--steps=2'], undefined, { run: ALL[1]!.run, cxx: ALL[0]!.cxx })
      assert.is(end.code, 2, end.err)
      assert.match(end.err, /two different MPIs: set SPILLWAY_MPICXX to the compiler of the first/)
    })

  for (const mpi of ALL.length ? ALL : [USUAL])
    gateTest(`${mpi.run}: a killed rank ends all ranks within seconds, and the run resumes to the same bits`, async () => {
      const whole = await byThreads(40, 2)
      const at = join(root, `killed-${mpi.run}`)
      let killed = false
      const end = await among(
        2,
        ['--steps=40', `--checkpoint-dir=${at}`, '--checkpoint-every=1'],
        afterStep(3, () => {
          killed = true
          process.kill(ranksOf(at).at(-1)!, 'SIGKILL')
        }),
        mpi,
      ).catch((e: Error) => e)
      const how = end instanceof Error ? end.message : `${end.code}: ${end.err}`
      assert.ok(killed, `it ended before any rank was killed: ${how}`)
      assert.not.match(how, HANGS)
      assert.ok(end instanceof Error || end.code !== 0, how)
      assert.equal(ranksOf(at), [])
      const rest = told(await among(2, ['--steps=40', `--checkpoint-dir=${at}`, '--resume'], undefined, mpi))
      assert.ok(rest.resumedFrom >= 2 && rest.resumedFrom < 40)
      assert.is(rest.weightsSha256, whole.weightsSha256)
    })

  /** Which rank, and when, is drawn by the number of the kill: a run that goes on from there is killed again. */
  if (process.env['SPILLWAY_FULL'])
    test('100 kills of a random rank at random moments: all ranks end within seconds, and the final bits are equal', async () => {
      const [steps, ranks] = [400, 4]
      const whole = await byThreads(steps, ranks)
      const at = join(root, 'kills')
      const draw = (n: number): number => createHash('sha256').update(`kill ${n}`).digest().readUInt32LE(0) / 2 ** 32
      const args = [`--steps=${steps}`, `--checkpoint-dir=${at}`, '--checkpoint-every=1']
      let [kills, anew] = [0, true]
      for (let run = 0; kills < 100; run++) {
        let killed = false
        const end = await among(ranks, anew ? args : [...args, '--resume'], (err) => {
          if (killed || !err.includes('step ')) return
          killed = true
          setTimeout(
            () => {
              const alive = ranksOf(at)
              const one = alive[Math.floor(draw(run) * alive.length)]
              if (one !== undefined) process.kill(one, 'SIGKILL')
            },
            2000 * draw(run + 0.5),
          )
        }).catch((e: Error) => e)
        const how = end instanceof Error ? end.message : `${end.code}: ${end.err}`
        assert.not.match(how, HANGS)
        if (!(end instanceof Error) && end.code === 0) {
          // It was over before: begin anew.
          rmSync(at, { recursive: true })
          anew = true
          continue
        }
        kills++
        anew = false
        assert.equal(ranksOf(at), [])
        assert.equal(
          readdirSync('/dev/shm').filter((f) => /spillway/.test(f)),
          [],
        )
      }
      const rest = told(await among(ranks, [...args, '--resume']))
      assert.is(rest.weightsSha256, whole.weightsSha256)
    })

  gateTest('a signal to one rank of a grid ends all ranks after the step, and no process is left', async () => {
    const at = join(root, 'asked')
    let memory: readonly string[] = []
    const end = await among(
      4,
      ['--steps=2000', '--bands=2', `--checkpoint-dir=${at}`, '--checkpoint-every=1'],
      afterStep(2, () => {
        const ranks = ranksOf(at)
        memory = ranks.flatMap((pid) => readFileSync(`/proc/${pid}/maps`, 'utf8').match(/\/dev\/shm\/\S+/g) ?? [])
        process.kill(ranks.at(-1)!, 'SIGTERM')
      }),
    )
    assert.is(end.code, 130, end.err)
    assert.match(end.err, /cancelled after \d+ complete steps?/)
    assert.equal(ranksOf(at), [])
    // Nothing is left of the memory that its ranks shared.
    assert.equal(memory.filter(existsSync), [])
  })

  test('an error is printed once, with its exit code', async () => {
    const end = await among(3, ['--steps=2'])
    assert.is(end.code, 2, end.err)
    assert.is(end.err.match(/cannot be split between 3 ranks/g)?.length, 1)
  })

  gateTest('a run resumes with its initial count of ranks', async () => {
    const at = join(root, 'as-many')
    told(await alone('--steps=2', `--checkpoint-dir=${at}`, '--engine=threads', '--ranks=4'))
    const end = await among(2, ['--steps=4', `--checkpoint-dir=${at}`, '--resume'])
    assert.is(end.code, 5, end.err)
    assert.match(end.err, /'fixed, 4 ranks' in the checkpoint and 'fixed, 2 ranks' now/)
  })

  test('doctor finds it', () => {
    const mpi = doctor().findings.find((f) => f.name === 'MPI')
    assert.is(mpi?.state, 'ok')
    if (isOpenMpi) assert.match(mpi!.value, /Open MPI/)
  })
} else {
  test('skipped: MPI is not installed', () => {
    assert.is(doctor().findings.find((f) => f.name === 'MPI')?.state, 'optional')
  })
}

test.run()
