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
  readonly writes?: readonly string[]
  readonly takes: 'seconds' | 'minutes' | 'an hour' | 'hours'
  readonly needs?: string
  /** Arguments without a flag. */
  readonly names?: string
  readonly options?: Options
}

const rounds = (count: string) => ({ value: 'N', text: 'turns of each side', default: count }) as const
const only = (value: string) => ({ value, text: 'measure this one alone' }) as const
const python = (standard: string) => ({
  value: 'PATH',
  text: 'a Python that has PyTorch',
  default: process.env['SPILLWAY_PYTHON'] ?? standard,
})
const OTHER = '[FOLDER]'
const NETWORKS = '[NETWORK …]'
const VENV = 'build/venv/bin/python'

const CPU = {
  python: python(VENV),
  cases: { value: 'A,B', text: 'these cases; the results of others stay' },
  rounds: rounds('15'),
  threads: { value: 'N', text: 'threads of each side', default: '2' },
  'keep-busy': { text: 'keep the processors busy between the sides' },
  out: { value: 'FILE', text: 'write the results there' },
  redraw: { text: 'draw the plot of the stored results, and measure nothing' },
} as const satisfies Options
const MODES = {
  ...CPU,
  modes: { value: 'A,B', text: 'the ways of PyTorch to run a step; default: all' },
} as const satisfies Options

const cpu = <O extends Options>(name: string, text: string, takes: Suite['takes'], options: O, needs?: string) => ({
  ...{ text, file: 'cpu/run.ts', writes: [`cpu-${name}.json`, `cpu-${name}.svg`], takes, options },
  ...(needs === undefined ? {} : { needs }),
})

export const BENCHES = {
  cpu: {
    'in-core': cpu('in-core', 'training steps of five networks', 'an hour', MODES, 'PyTorch'),
    modern: cpu('modern', 'training steps of eight networks since 2017', 'an hour', MODES, 'PyTorch'),
    bf16: cpu('bf16', 'training steps in bf16', 'an hour', MODES, 'PyTorch'),
    checkpointing: cpu(
      'checkpointing',
      "PyTorch's checkpointing, and ours in a third of its memory",
      'an hour',
      MODES,
      'PyTorch',
    ),
    large: cpu('large', 'images of 4096² and 8192² in a small budget', 'hours', CPU),
    tiles: cpu('tiles', 'one tile per core, or one tile at a time', 'minutes', CPU),
    weights: cpu('weights', 'the cost of weight layouts', 'minutes', CPU),
    roofline: cpu('roofline', 'training steps beside the least time that the processor allows', 'an hour', CPU),
    versions: cpu('versions', 'training steps in turns with another checkout', 'an hour', {
      ...CPU,
      before: { value: 'FOLDER', text: 'the other checkout' },
    }),
    cold: cpu('cold', 'steps in half of their memory, planned without and with measurements', 'an hour', CPU),
    overhead: {
      text: 'the cost of a call besides its arithmetic',
      ...{ file: 'overhead.ts', writes: ['overhead.json'], takes: 'minutes', names: OTHER },
    },
    frozen: {
      text: 'a step with frozen parameters, compared with a whole one',
      ...{ file: 'frozen.ts', writes: ['frozen.json'], takes: 'minutes', options: { rounds: rounds('3') } },
    },
    masked: {
      text: 'a masked network with and without skipping empty parts',
      ...{ file: 'masked.ts', writes: ['masked.json'], takes: 'minutes' },
      options: {
        sides: { value: 'N,N', text: 'sides of the image', default: '1024,2048' },
        images: { value: 'A,B', text: 'images: blobs, full', default: 'blobs,full' },
        turns: rounds('3'),
        steps: { value: 'N', text: 'steps of a turn', default: '3' },
        only: only('PLAN'),
      },
    },
  },
  onednn: {
    steps: {
      text: 'training steps with four versions of oneDNN, in turns',
      ...{ file: 'onednn.ts', writes: ['onednn.json'], takes: 'hours', names: '[PATTERN …]' },
      options: {
        versions: { value: 'A,B', text: 'these versions; default: all' },
        cases: { value: 'A,B', text: 'these networks; default: all' },
        rounds: rounds('7'),
        'keep-busy': { text: 'keep the processors busy between the sides' },
        out: { value: 'FILE', text: 'write only this file' },
        test: { text: 'run the tests of PATTERN with each version instead' },
      },
    },
  },
  learning: {
    examples: {
      text: "trainings of the examples, compared with PyTorch's",
      ...{ file: 'examples.ts', writes: ['examples.json'], takes: 'an hour' },
      options: {
        dump: { value: 'DIR', text: 'write weights and batches for PyTorch instead' },
        only: only('NAME'),
        seeds: { value: 'N', text: 'dumped trainings', default: '10' },
      },
    },
    anysize: {
      text: "predictions for photos of 40 sizes, compared with PyTorch's",
      ...{ file: 'anysize.ts', takes: 'minutes', needs: 'PyTorch', options: { python: python('python3') } },
    },
  },
  data: {
    feed: {
      text: 'a step fed from memory, JPEGs, bytes and floats',
      ...{ file: 'feed.ts', writes: ['feed.json'], takes: 'minutes' },
      options: { rounds: rounds('5'), images: { value: 'N', text: 'images of the data set', default: '64' } },
    },
    slides: {
      text: 'training on whole slides, compared with the same pixels in .npy',
      ...{ file: 'slides.ts', writes: ['slides.json'], takes: 'an hour' },
      options: {
        only: only('NETWORK'),
        width: { value: 'N', text: 'width of a slide' },
        height: { value: 'N', text: 'height of a slide' },
        budget: { value: 'SIZE', text: 'the budget' },
        steps: { value: 'N', text: 'steps of a training', default: '4' },
        spill: { value: 'DIR', text: 'the folder of the spill file' },
      },
    },
  },
  predictions: {
    tiled: {
      text: 'pixels per second of predictions at 8192² in 512 MiB, compared with small images in-core',
      ...{ file: 'predictions.ts', writes: ['predictions.json'], takes: 'hours' },
      options: {
        side: { value: 'N', text: 'side of the large image', default: '8192' },
        small: { value: 'N', text: 'side of the small image', default: '512' },
        budget: { value: 'SIZE', text: 'the budget of the large image', default: '512MiB' },
        rounds: rounds('3'),
        only: only('NETWORK'),
        spill: { value: 'DIR', text: 'the folder of the spill file' },
      },
    },
  },
  import: {
    networks: {
      text: 'networks of torchvision, timm and segmentation-models-pytorch that import takes',
      ...{
        file: 'import.ts',
        writes: ['import.json', 'programs.json', 'survey.json'],
        takes: 'hours',
        needs: 'PyTorch',
        names: NETWORKS,
      },
      options: {
        python: python('python3'),
        programs: { text: 'programs of torch.export, in training mode and for inference' },
        survey: { text: 'programs of more families, for inference' },
        losses: { text: 'train imported programs, and compare their losses' },
        keep: { value: 'FOLDER', text: 'keep the exported files there' },
      },
    },
  },
  ranks: {
    batch: {
      text: 'a batch over 2 to 1024 GPUs, simulated',
      ...{ file: 'ranks.ts', writes: ['ranks.json'], takes: 'minutes' },
    },
    bands: {
      text: 'images in bands of rows over 1, 2 and 4 GPUs, simulated',
      ...{ file: 'bands.ts', writes: ['bands.json'], takes: 'minutes' },
    },
    ddp: {
      text: "two processes in turns with PyTorch's DistributedDataParallel",
      ...{ file: 'ddp.ts', writes: ['ddp.json'], takes: 'an hour', needs: 'PyTorch, MPI' },
      options: {
        python: python(VENV),
        rounds: rounds('5'),
        steps: { value: 'N', text: 'steps of a turn', default: '5' },
      },
    },
  },
  plans: {
    zoo: {
      text: 'auto on 40 networks at a half to a sixteenth of their memory',
      ...{ file: 'zoo.ts', writes: ['zoo.json'], takes: 'an hour', names: NETWORKS },
      options: { refusals: { text: 'find only the smallest budgets' } },
    },
    joint: {
      text: 'auto on seven networks in small budgets, compared with another checkout',
      ...{ file: 'joint.ts', writes: ['joint.json'], takes: 'minutes', names: `${OTHER} ${NETWORKS}` },
    },
    bounds: {
      text: 'lower bounds of six networks',
      ...{ file: 'bounds.ts', writes: ['bounds.json'], takes: 'minutes', names: NETWORKS },
    },
    waiting: {
      text: 'waits on a link of 1 GB/s, compared with another checkout',
      ...{ file: 'waiting.ts', writes: ['waiting.json'], takes: 'minutes', names: `${OTHER} ${NETWORKS}` },
    },
    large: {
      text: 'auto on images of 16384² to 40960²',
      ...{ file: 'large.ts', writes: ['large.json'], takes: 'minutes', names: '[CASE …]' },
    },
  },
  planning: {
    strategies: {
      text: 'seconds of every strategy for large networks, compared with another checkout',
      ...{ file: 'planning.ts', writes: ['planning.json'], takes: 'minutes', names: `${OTHER} ${NETWORKS}` },
    },
    limit: {
      text: 'seconds relative to the machine of the limit of five',
      ...{ file: 'limit.ts', writes: ['limit.json'], takes: 'an hour', names: 'FOLDER' },
    },
    deep: {
      text: 'seconds and memory for 20 000 ops',
      ...{ file: 'deep.ts', writes: ['deep.json'], takes: 'minutes' },
    },
    gigapixel: {
      text: 'seconds and memory for images of 16384²',
      ...{ file: 'gigapixel.ts', writes: ['gigapixel.json'], takes: 'minutes', names: NETWORKS },
    },
  },
  sizes: {
    networks: {
      text: 'memory of every network of the zoo, and its smallest budget',
      ...{ file: 'sizes.ts', writes: ['sizes.json'], takes: 'an hour', names: NETWORKS },
    },
    fits: {
      text: '`fits` for 20 networks on four simulated machines',
      ...{ file: 'fits.ts', writes: ['fits.json'], takes: 'an hour', names: NETWORKS },
    },
  },
  launches: {
    steps: {
      text: 'launches and bytes of steps on the CUDA device, counted without a GPU',
      ...{ file: 'launches.ts', writes: ['launches.json'], takes: 'minutes', needs: 'headers of CUDA', names: NETWORKS },
      options: { as: { value: 'COLUMN', text: 'the column of the results', default: 'now' } },
    },
  },
  answers: {
    commands: {
      text: 'the time to a first answer of the command line',
      ...{ file: 'answers.ts', writes: ['answers.json'], takes: 'minutes', names: '[TIMES] [REGEX]' },
    },
    editor: {
      text: "hover, completion and memory of TypeScript's server",
      ...{ file: 'editor.ts', writes: ['editor.json'], takes: 'minutes' },
    },
  },
  memory: {
    process: {
      text: 'the peak memory of training processes, compared with their plans',
      ...{ file: 'process.ts', writes: ['process.json'], takes: 'an hour', names: NETWORKS },
    },
    spill: {
      text: 'the rates of a spill file',
      ...{ file: 'spill.ts', writes: ['spill.json'], takes: 'minutes', names: OTHER },
    },
  },
} as const satisfies Readonly<Record<string, Readonly<Record<string, Suite>>>>

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
