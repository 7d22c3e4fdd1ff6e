// `npm run bench -- ranks --suite ddp`: two processes with a thread each that share a batch, on MPI, beside PyTorch's DistributedDataParallel over
// gloo, in turns. In: --python PATH (a Python that has PyTorch; bench/cpu/venv.sh makes one), --rounds N, --steps N. Out: medians of steps, ours with
// norms of the whole batch and with norms of each share, as PyTorch's are, and bench/results/ddp.json. Invariant: the same network, batch and threads
// on both sides, every process fresh; the first steps of each are not counted.
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { LOG_FILE } from '../src/train/steplog'
import { plainGraph, sized } from './cpu/cases'
import { Talker } from './cpu/process'
import type { PeerStep } from './cpu/sides'
import { begin, inFolder, median, record, ROOT, rounded } from './sides'
import { argumentsOf, BENCHES } from './table'

const RANKS = 2
const NETS = [
  { model: 'resnet18', batch: 16, image: 128 },
  { model: 'resnet50', batch: 8, image: 224 },
  { model: 'densenet121', batch: 8, image: 128 },
] as const
type Net = (typeof NETS)[number]
/** Steps of a process that are not counted. */
const WARM = 2

const { given } = argumentsOf(BENCHES.ranks.ddp)
const [rounds, steps] = [Number(given.rounds), Number(given.steps)]

/** As root, and with as many processes as processors, OpenMPI wants to be asked. */
const MPI = { OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1', OMPI_MCA_rmaps_base_oversubscribe: '1' }

const ours = ({ model, batch, image }: Net, norms: 'whole' | 'local', folder: string): number => {
  const log = join(folder, 'log')
  rmSync(log, { recursive: true, force: true })
  const train = ['train', model, `--batch=${batch}`, `--image=${image}`, '--threads=1', '--strategy=in-core', '--json']
  const cli = ['-r', join(ROOT, 'scripts/testing/typescript.js'), join(ROOT, 'src/cli.ts')]
  const { status, stderr } = spawnSync(
    'mpirun',
    ['-n', `${RANKS}`, process.execPath, ...cli, ...train, `--norms=${norms}`, `--steps=${steps + WARM}`, `--log=${log}`],
    { env: { ...process.env, ...MPI }, encoding: 'utf8', maxBuffer: 2 ** 26 },
  )
  if (status !== 0) throw new Error(stderr)
  const lines = readFileSync(join(log, LOG_FILE), 'utf8').trim().split('\n')
  const told = lines.map((l) => JSON.parse(l) as { readonly step?: number; readonly seconds?: number })
  return median(told.flatMap(({ step = 0, seconds }) => (step > WARM && seconds !== undefined ? [seconds] : [])))
}

const theirs = async ({ model, batch, image }: Net, folder: string, port: number): Promise<number> => {
  const graph = join(folder, `${model}.json`)
  writeFileSync(graph, JSON.stringify(plainGraph(sized(model, batch / RANKS, image))))
  const all = Array.from(
    { length: RANKS },
    (_, rank) =>
      new Talker(given.python, [join(__dirname, 'cpu', 'peer.py'), graph, 'ddp', '1'], {
        OMP_NUM_THREADS: '1',
        MASTER_ADDR: '127.0.0.1',
        MASTER_PORT: `${port}`,
        RANK: `${rank}`,
        WORLD_SIZE: `${RANKS}`,
      }),
  )
  await Promise.all(all.map((t) => t.answer()))
  const seconds: number[] = []
  for (let i = 0; i < steps + WARM; i++) {
    const step = await Promise.all(all.map((t) => t.ask<PeerStep>('step')))
    if (i >= WARM) seconds.push(Math.max(...step.map((s) => s.answer.seconds)))
  }
  await Promise.all(all.map((t) => t.end()))
  return median(seconds)
}

const measured = async (folder: string): Promise<void> => {
  const rows = []
  for (const [i, net] of NETS.entries()) {
    const [whole, local, ddp]: [number[], number[], number[]] = [[], [], []]
    for (let round = 0; round < rounds; round++) {
      whole.push(ours(net, 'whole', folder))
      ddp.push(await theirs(net, folder, 29400 + i * rounds + round))
      local.push(ours(net, 'local', folder))
    }
    const row = {
      ...net,
      wholeNormsSeconds: rounded(median(whole)),
      localNormsSeconds: rounded(median(local)),
      ddpSeconds: rounded(median(ddp)),
      wholeOfDdp: rounded(median(whole) / median(ddp)),
      localOfDdp: rounded(median(local) / median(ddp)),
    }
    console.log(JSON.stringify(row))
    rows.push(row)
  }
  record('ddp', { ranks: RANKS, threadsEach: 1, rounds, steps, load: rounded(loadavg()[0]!), rows })
}

void begin(() => inFolder('ddp', measured))
