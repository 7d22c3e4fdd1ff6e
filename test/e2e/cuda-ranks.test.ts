// own process
// timeout 1800
// Ranks on GPUs: processes under mpirun, each with an imitated GPU (test/native/host_cuda), NCCL imitated between them. They have the bits of one
// such GPU that takes as many tiles. With SPILLWAY_FULL=1: optimizers, swaps, parts, bands, ranks that fail. Skipped in words where the headers
// of CUDA, cuDNN and cuBLAS are not, or no MPI.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { adamw, crossEntropy } from '../../dsl'
import { compileSegments } from '../../staging/compile'
import { loadNative } from '../../src/device/native'
import type { SpillwayError } from '../../src/errors/errors'
import { prepare } from '../../src/stage/prepare'
import { describePlan } from '../../src/stage/staged'
import { zooEntry } from '../../src/zoo'
import { gateTest } from '../full'
import { alongRows } from './cutrows'
import { afterStep, type End, ended, spillway } from './processes'
import { alone, got, inTiles, machine } from './rankruns'

// Before the cache is another one: it has the headers.
const { nativeLibrary } = require('../../scripts/testing/native') as {
  readonly nativeLibrary: (root: string, target: string) => Promise<string | null>
}
const root = mkdtempSync(join(tmpdir(), 'spillway-cuda-ranks-'))
test.after(() => rmSync(root, { recursive: true }))

const HERE = spawnSync('mpirun', ['--version']).status === 0 && spawnSync('mpicxx', ['-show']).status === 0
const ENV = {
  OMPI_ALLOW_RUN_AS_ROOT: '1',
  OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1',
  OMPI_MCA_rmaps_base_oversubscribe: '1',
  OMPI_MCA_btl_base_warn_component_unused: '0',
  TMPDIR: root,
}
const IMAGE = 8
const TRAIN = [
  `--image=${IMAGE}`,
  '--batch=8',
  '--seed=1',
  '--threads=1',
  '--steps=2',
  '--algorithms=fixed',
  '--json',
  '--device=cuda',
]

interface Told {
  readonly weightsSha256: string
  readonly ranks: number
  readonly commBytes: number
  readonly bytesOut: number
  readonly commSeconds: number
  readonly withoutGraphs?: string
  readonly network?: { readonly name: string }
}
const told = ({ code, out, err }: End): Told => {
  assert.is(code, 0, err)
  return JSON.parse(out.slice(out.indexOf('{'), out.lastIndexOf('}') + 1)) as Told
}
const among = (
  ranks: number,
  more: readonly string[] = [],
  o: {
    readonly env?: Readonly<Record<string, string>>
    readonly under?: readonly string[]
    readonly act?: (err: string) => void
    readonly model?: string
  } = {},
): Promise<End> =>
  ended(
    spillway(
      [
        'train',
        o.model ?? 'resnet20-cifar',
        ...TRAIN,
        ...(more.some((m) => m.startsWith('--strategy')) ? [] : ['--strategy=in-core']),
        ...more,
      ],
      {
        under: ['mpirun', '-n', `${ranks}`, ...(o.under ?? [])],
        env: { ...ENV, SPILLWAY_HOST_CUDA_GPUS: `${ranks}`, ...o.env },
      },
    ),
    o.act,
  )

const tiles = new Map<number, Promise<string>>()
/** One GPU, in as many tiles. */
const byTiles = (n: number): Promise<string> => {
  const known = tiles.get(n) ?? inTiles({ model: 'resnet20-cifar', image: IMAGE, device: 'cuda' }, n).then((r) => r.weightsSha256)
  tiles.set(n, known)
  return known
}

/** One GPU that cuts images and rows alike. */
const byRows = async (bands: number, shares: number): Promise<string> => {
  const on = machine('cuda', 1)
  const net = got(zooEntry('resnet20-cifar')!.build([8, 3, IMAGE, IMAGE], 'train', {}))
  const { graph } = got(prepare(net, on, { loss: crossEntropy }))
  const plan = pipe(
    alongRows(graph, bands, shares),
    E.mapLeft((e): SpillwayError => ({ tag: 'TilingIllegal', strategy: 'by-hand', ...e })),
    E.flatMap((segments) =>
      compileSegments(graph, segments, { strategy: 'by-hand', budgetBytes: 2 ** 40, machine: on, algorithms: 'fixed' }),
    ),
  )
  return (await alone(describePlan(got(plan), on))).weightsSha256
}

/** In one rank alone. */
const onlyAt = (rank: number, variable: string): string => {
  const script = join(root, `${variable.replace(/\W/g, '-')}-${rank}.sh`)
  writeFileSync(script, `[ "$OMPI_COMM_WORLD_RANK$PMI_RANK" = ${rank} ] && export ${variable}\nexec "$@"\n`)
  return script
}

const always = (): void => {
  gateTest('two ranks have the bits of one GPU in two tiles, and count their sent bytes', async () => {
    const two = told(await among(2, ['--network=measured']))
    assert.equal([two.ranks, two.weightsSha256], [2, await byTiles(2)])
    // By NCCL, through its own operators.
    assert.is(two.network?.name, 'measured')
    assert.ok(two.commBytes > 0 && two.commSeconds > 0)
    assert.is(two.withoutGraphs, undefined)
  })

  test('more ranks than GPUs, or a missing NCCL, is refused before planning', async () => {
    const few = await among(2, [], { env: { SPILLWAY_HOST_CUDA_GPUS: '1' } })
    assert.is.not(few.code, 0)
    assert.match(few.err, /rank 1, number 1 of 2 on its machine: .*this machine has no NVIDIA GPU/)
    const { status, stderr } = spawnSync(
      process.execPath,
      [
        '-e',
        'require(process.argv[1]).loadNative().carrier("cuda")',
        join(__dirname, '..', '..', 'dist', 'src', 'device', 'native.js'),
      ],
      { encoding: 'utf8', env: { ...process.env, SPILLWAY_HOST_CUDA_MISSING: 'libnccl.so.2' } },
    )
    assert.is.not(status, 0)
    assert.match(stderr, /NCCL is not found \(libnccl\.so\.2\); ranks on GPUs need it: install it/)
    assert.is(loadNative().carrier('cuda'), 'NCCL 2.32.3')
  })
}

const whole = (): void => {
  test('four ranks, by graphs and by instructions, have the bits of four tiles', async () => {
    for (const [variable, value] of [
      ['SPILLWAY_GRAPHS', 'on'],
      ['SPILLWAY_GRAPHS', 'off'],
      ['SPILLWAY_HOST_CUDA_ORDER', 'early'],
      ['SPILLWAY_HOST_CUDA_ORDER', 'shuffled'],
    ] as const)
      assert.is(told(await among(4, [], { env: { [variable]: value } })).weightsSha256, await byTiles(4))
  })

  test('four steps, the last two of them graphs: the bits of threads do not matter, those of two runs do', async () => {
    const [one, other] = [
      told(await among(2, ['--steps=4'])),
      told(await among(2, ['--steps=4'], { env: { SPILLWAY_GRAPHS: 'off' } })),
    ]
    assert.is(one.weightsSha256, other.weightsSha256)
    assert.is(one.commBytes, other.commBytes)
    assert.is(one.commBytes, 2 * told(await among(2)).commBytes)
  })

  test('recompute and shared updates change no bit', async () => {
    for (const more of [['--strategy=checkpoint:sqrt'], ['--shard=optimizer'], ['--shard=gradients']])
      assert.equal([more, told(await among(2, more)).weightsSha256], [more, await byTiles(2)])
  })

  // Threads carry bytes to the disk: a step is several graphs then, and an exchange may be in flight at the end of one.
  test('swaps, to pinned memory and to the disk, change no bit', async () => {
    const model = join('scripts', 'gpu', 'small.js')
    const on = ['--image=64', '--steps=4']
    const inCore = told(await among(2, on, { model }))
    for (const more of [[], ['--spill', join(root, 'spill'), '--host-memory=0']]) {
      const swapped = told(await among(2, [...on, '--strategy=swap:greedy', '--budget=20MiB', ...more], { model }))
      assert.equal([more, swapped.weightsSha256, swapped.commBytes], [more, inCore.weightsSha256, inCore.commBytes])
      assert.ok(swapped.bytesOut > 0 && swapped.withoutGraphs === undefined, swapped.withoutGraphs)
    }
  })

  test('adamw', async () => {
    const { weightsSha256 } = await inTiles(
      { model: 'resnet20-cifar', image: IMAGE, device: 'cuda', optimizer: adamw({ lr: 1e-3 }) },
      2,
    )
    for (const more of [[], ['--shard=gradients']])
      assert.is(told(await among(2, ['--optimizer=adamw', '--lr=1e-3', ...more])).weightsSha256, weightsSha256)
  })

  test('bands of rows, and a grid of ranks', async () => {
    assert.is(told(await among(2, ['--bands=2'])).weightsSha256, await byRows(2, 1))
    assert.is(told(await among(4, ['--bands=2'])).weightsSha256, await byRows(2, 2))
  })

  test('a call that fails at one rank ends all ranks within seconds with an error', async () => {
    for (const nth of [150, 2000, 9000]) {
      const end = await among(2, ['--steps=20'], { under: ['sh', onlyAt(1, `SPILLWAY_HOST_CUDA_FAILS=${nth}`)] })
      assert.is.not(end.code, 0)
      assert.match(end.err, /^spillway: /m)
    }
  })

  test('the other ranks report a rank that hangs', async () => {
    const at = join(root, 'hangs')
    const pids = (): readonly string[] => spawnSync('pgrep', ['-f', at], { encoding: 'utf8' }).stdout.split('\n').filter(Boolean)
    const end = await among(2, ['--steps=2000', `--checkpoint-dir=${at}`], {
      env: { SPILLWAY_PATIENCE: '4' },
      act: afterStep(4, () => process.kill(Number(pids().at(-1)), 'SIGSTOP')),
    })
    assert.is(end.code, 1, end.err)
    assert.match(end.err, /rank \d waited 4 s for other ranks/)
  })
}

const main = async (): Promise<void> => {
  const library = HERE ? await nativeLibrary(join(__dirname, '..', '..'), 'spillway_host_cuda') : null
  if (library === null) test('skipped: the headers of CUDA, cuDNN and cuBLAS are not here, or no MPI', () => undefined)
  else {
    process.env.SPILLWAY_CUDA = library
    process.env.XDG_CACHE_HOME = join(root, 'cache')
    always()
    if (process.env['SPILLWAY_FULL']) whole()
  }
  test.run()
}
main()
