// The benches of `npm run bench -- NAME [--suite NAME]`. One row a suite: its module, options, results and about its time. The first suite of a name
// is the default. Invariant: docs/internals/benchmarks.md has a row for each suite (test/house/benches.test.ts).

import { parseArgs } from 'node:util'

export interface Option {
  /** The name of its value. An option without one is a flag. */
  readonly value?: string
  readonly text: string
  readonly default?: string
}
type Options = Readonly<Record<string, Option>>

export interface Suite {
  readonly text: string
  /** In bench/. */
  readonly file: string
  /** Files of bench/results. */
  readonly writes: readonly string[]
  readonly takes: Time
  readonly needs?: string
  /** Arguments without a flag. */
  readonly names?: string
  readonly options: Options
}
type Time = 'seconds' | 'minutes' | 'an hour' | 'hours'

// ---------------------------------------------------------------- options

const flag = (text: string) => ({ text }) as const
const valued = (value: string, text: string) => ({ value, text }) as const
const preset = (value: string, text: string, standard: string) => ({ value, text, default: standard }) as const

const rounds = (count: string) => preset('N', 'turns of each side', count)
const only = (value: string) => valued(value, 'measure this one alone')
const python = (standard: string) => preset('PATH', 'a Python that has PyTorch', process.env['SPILLWAY_PYTHON'] ?? standard)
const steps = (count: string) => preset('N', 'steps of a turn', count)
const spill = valued('DIR', 'the folder of the spill file')
const keepBusy = flag('keep samples of a busy machine, too')
const VENV = 'build/venv/bin/python'

const CPU = {
  python: python(VENV),
  cases: valued('A,B', 'these cases; the results of others stay'),
  rounds: rounds('15'),
  threads: preset('N', 'threads of each side', '2'),
  'keep-busy': keepBusy,
  out: valued('FILE', 'write the results there'),
  redraw: flag('draw the plot of the stored results, and measure nothing'),
} as const
const MODES = { ...CPU, modes: valued('A,B', 'the ways of PyTorch to run a step; default: all') } as const

// ---------------------------------------------------------------- suites

type More = Partial<Pick<Suite, 'needs' | 'names' | 'writes'>>

/** A bench of its own module, with results of the module's name. */
const suite = <O extends Options = Record<never, never>>(
  file: string,
  takes: Time,
  text: string,
  more: More & { options?: O } = {},
) => ({
  ...{ text, file: `${file}.ts`, writes: [`${file}.json`], takes },
  ...more,
  options: (more.options ?? {}) as O,
})

const cpu = <O extends Options>(name: string, takes: Time, text: string, options: O, more: More = {}) =>
  suite('cpu/run', takes, text, { writes: [`cpu-${name}.json`, `cpu-${name}.svg`], options, ...more })
const beside = <O extends Options>(name: string, text: string, options: O) =>
  cpu(name, 'an hour', text, options, { needs: 'PyTorch' })

const NETWORKS = { names: '[NETWORK …]' }
const OTHER = { names: '[FOLDER]' }
const OTHER_AND_NETWORKS = { names: '[FOLDER] [NETWORK …]' }

export const BENCHES = {
  cpu: {
    'in-core': beside('in-core', 'training steps of five networks', MODES),
    modern: beside('modern', 'training steps of eight networks since 2017', MODES),
    bf16: beside('bf16', 'training steps in bf16', CPU),
    checkpointing: beside('checkpointing', "PyTorch's checkpointing, and ours in a third of its memory", CPU),
    large: cpu('large', 'hours', 'images of 4096² and 8192² in a small budget', CPU),
    tiles: cpu('tiles', 'minutes', 'one tile per core, or one tile at a time', CPU),
    weights: cpu('weights', 'minutes', 'the cost of weight layouts', CPU),
    roofline: cpu('roofline', 'an hour', 'training steps beside the least time that the processor allows', CPU),
    versions: cpu('versions', 'an hour', 'training steps in turns with another checkout', {
      ...CPU,
      before: valued('FOLDER', 'the other checkout'),
    }),
    cold: cpu('cold', 'an hour', 'steps in half of their memory, planned without and with measurements', CPU),
    overhead: suite('overhead', 'minutes', 'the cost of a call besides its arithmetic', OTHER),
    frozen: suite('frozen', 'minutes', 'a step with frozen parameters, compared with a whole one', {
      options: { rounds: rounds('3') },
    }),
    masked: suite('masked', 'minutes', 'a masked network with and without skipping empty parts', {
      options: {
        sides: preset('N,N', 'sides of the image', '1024,2048'),
        images: preset('A,B', 'images: blobs, full', 'blobs,full'),
        turns: rounds('3'),
        steps: steps('3'),
        only: only('PLAN'),
      },
    }),
  },
  onednn: {
    steps: suite('onednn', 'hours', 'training steps with four versions of oneDNN, in turns', {
      names: '[PATTERN …]',
      options: {
        versions: valued('A,B', 'these versions; default: all'),
        cases: valued('A,B', 'these networks; default: all'),
        rounds: rounds('7'),
        'keep-busy': keepBusy,
        out: valued('FILE', 'write only this file'),
        test: flag('run the tests of PATTERN with each version instead'),
      },
    }),
  },
  learning: {
    examples: suite('examples', 'an hour', "trainings of the examples, compared with PyTorch's", {
      options: {
        dump: valued('DIR', 'write weights and batches for PyTorch instead'),
        only: only('NAME'),
        seeds: preset('N', 'dumped trainings', '10'),
      },
    }),
    anysize: suite('anysize', 'minutes', "predictions for photos of 40 sizes, compared with PyTorch's", {
      ...{ writes: [], needs: 'PyTorch', options: { python: python('python3') } },
    }),
  },
  data: {
    feed: suite('feed', 'minutes', 'a step fed from memory, JPEGs, bytes and floats', {
      options: { rounds: rounds('5'), images: preset('N', 'images of the data set', '64') },
    }),
    slides: suite('slides', 'an hour', 'training on whole slides, compared with the same pixels in .npy', {
      options: {
        only: only('NETWORK'),
        width: valued('N', 'width of a slide'),
        height: valued('N', 'height of a slide'),
        budget: valued('SIZE', 'the budget'),
        steps: preset('N', 'steps of a training', '4'),
        spill,
      },
    }),
  },
  predictions: {
    tiled: suite('predictions', 'hours', 'predictions at 8192² in 512 MiB, compared with small images in-core', {
      options: {
        side: preset('N', 'side of the large image', '8192'),
        small: preset('N', 'side of the small image', '512'),
        budget: preset('SIZE', 'the budget of the large image', '512MiB'),
        rounds: rounds('3'),
        only: only('NETWORK'),
        spill,
      },
    }),
  },
  import: {
    networks: suite('import', 'hours', 'networks of torchvision, timm and segmentation-models-pytorch that import takes', {
      ...{ ...NETWORKS, writes: ['import.json', 'programs.json', 'survey.json'], needs: 'PyTorch' },
      options: {
        python: python('python3'),
        programs: flag('programs of torch.export, in training mode and for inference'),
        survey: flag('programs of more families, for inference'),
        losses: flag('train imported programs, and compare their losses'),
        keep: valued('FOLDER', 'keep the exported files there'),
      },
    }),
  },
  ranks: {
    batch: suite('ranks', 'minutes', 'a batch over 2 to 1024 GPUs, simulated'),
    bands: suite('bands', 'seconds', 'images in bands of rows over 1, 2 and 4 GPUs, simulated'),
    ddp: suite('ddp', 'an hour', "two processes in turns with PyTorch's DistributedDataParallel", {
      ...{ needs: 'PyTorch, MPI', options: { python: python(VENV), rounds: rounds('5'), steps: steps('5') } },
    }),
  },
  plans: {
    zoo: suite('zoo', 'an hour', 'auto on 40 networks at a half to a sixteenth of their memory', {
      ...{ ...NETWORKS, options: { refusals: flag('find only the smallest budgets') } },
    }),
    joint: suite('joint', 'minutes', 'auto on seven networks in small budgets, and in another checkout', OTHER_AND_NETWORKS),
    bounds: suite('bounds', 'minutes', 'lower bounds of six networks', NETWORKS),
    waiting: suite('waiting', 'minutes', 'waits on a link of 1 GB/s, and in another checkout', OTHER_AND_NETWORKS),
    large: suite('large', 'minutes', 'auto on images of 16384² to 40960²', { names: '[CASE …]' }),
  },
  planning: {
    strategies: suite('planning', 'minutes', 'seconds of every strategy, and in another checkout', OTHER_AND_NETWORKS),
    limit: suite('limit', 'an hour', 'seconds relative to the machine of the limit of five', { names: 'FOLDER' }),
    deep: suite('deep', 'minutes', 'seconds and memory for 20 000 ops'),
    gigapixel: suite('gigapixel', 'minutes', 'seconds and memory for images of 16384²', NETWORKS),
  },
  sizes: {
    networks: suite('sizes', 'an hour', 'memory of every network of the zoo, and its smallest budget', NETWORKS),
    fits: suite('fits', 'an hour', '`fits` for 20 networks on four simulated machines', NETWORKS),
  },
  launches: {
    steps: suite('launches', 'minutes', 'launches and bytes of steps on the CUDA device, counted without a GPU', {
      ...{ ...NETWORKS, needs: 'headers of CUDA', options: { as: preset('COLUMN', 'the column of the results', 'now') } },
    }),
  },
  answers: {
    commands: suite('answers', 'minutes', 'the time to a first answer of the command line', { names: '[TIMES] [REGEX]' }),
    editor: suite('editor', 'minutes', "hover, completion and memory of TypeScript's server"),
  },
  memory: {
    process: suite('process', 'an hour', 'the peak memory of training processes, compared with their plans', NETWORKS),
    spill: suite('spill', 'minutes', 'the rates of a spill file', OTHER),
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Suite>>>>

// ---------------------------------------------------------------- arguments

type Given<O> = {
  readonly [K in keyof O]: O[K] extends { readonly value: string }
    ? O[K] extends { readonly default: string }
      ? string
      : string | undefined
    : boolean
}

/** Values of the options by name, with their defaults, and the arguments without flags. */
export const argumentsOf = <O extends Options>({
  options,
}: {
  readonly options: O
}): { readonly given: Given<O>; readonly named: readonly string[] } => {
  const known = Object.entries(options).map(([name, { value, default: standard }]) => {
    if (value === undefined) return [name, { type: 'boolean' as const, default: false }] as const
    return [name, { type: 'string' as const, ...(standard === undefined ? {} : { default: standard }) }] as const
  })
  const { values, positionals } = parseArgs({ allowPositionals: true, options: Object.fromEntries(known) })
  return { given: values as Given<O>, named: positionals }
}
