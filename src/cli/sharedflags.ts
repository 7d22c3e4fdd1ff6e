// Flags that several commands have: models, sizes, budgets, the lower tier, weights.
import type { Command } from 'commander'
import * as E from 'fp-ts/Either'
import { DEVICES } from '../../staging/devices'
import { SHARDS } from '../../staging/graph/machine'
import { ALLOCATORS } from '../../staging/memory/allocators/replay'
import { PREDICTING } from '../../staging/planner/predicting'
import { MEASURED, NETWORKS } from '../../staging/sim/networks'
import { unknownName } from '../errors/errors'
import { ALGORITHMS, type Measuring, MEASURING, PRECISIONS } from '../machine/localmachine'
import { isMetricName, type MetricName, METRICS } from '../predict/metricnames'
import { choiceOption, countOption, durationOption, option, pixelsOption, repeated, sizeOption, threadsOption } from './options'
import { OWN_FLAGS } from './own'

export const names = () => require('./names') as typeof import('./names')

export const sizeOptions = (c: Command): Command =>
  c
    .option('--image <size>', 'image size in pixels: 512, or height x width: 509x389', pixelsOption('--image'))
    .option('--batch <n>', 'images per step', countOption('--batch'))

/** For a network of the zoo. */
export const CLASSES = [
  '--classes <n>',
  'number of classes of a zoo network (default: that of the data, else of the network)',
  countOption('--classes'),
] as const

/** For a command that reads weights. */
export const CLASSES_READ = [CLASSES[0], 'number of classes of a zoo network (default: that of --weights)', CLASSES[2]] as const

export const flagged = (c: Command, flags: typeof OWN_FLAGS): Command =>
  flags.reduce((own, [flag, about, parse]) => (parse ? own.option(flag, about, parse) : own.option(flag, about)), c)

export const modelOptions = (c: Command): Command =>
  flagged(sizeOptions(c), OWN_FLAGS).option(
    '--algorithms <choice>',
    `kernels: ${ALGORITHMS.join(', ')} (default measured)`,
    choiceOption('--algorithms', ALGORITHMS),
  )

export const measuring = (c: Command, usual: Measuring): Command =>
  c.option(
    '--measure <when>',
    `measure unknown call times first, or estimate them now and measure while runs execute (default ${usual})`,
    choiceOption('--measure', MEASURING),
  )

export const BUDGET = [
  '--budget <size>',
  'hard limit on device memory: 512MiB, 11GiB, plain bytes',
  sizeOption('--budget'),
] as const

/** The options of a plan that trains nothing. */
export const forwardOptions = (c: Command): Command =>
  tierOptions(
    measuring(
      c
        .option(BUDGET[0], `${BUDGET[1]} (default: all device memory)`, BUDGET[2])
        .option(
          '--strategy <name>',
          `planning method: ${PREDICTING.join(', ')} (default auto)`,
          choiceOption('--strategy', PREDICTING),
        )
        .option(
          '--algorithms <choice>',
          `kernels: ${ALGORITHMS.join(', ')} (default measured)`,
          choiceOption('--algorithms', ALGORITHMS),
        ),
      'while',
    )
      .option('--device <name>', 'device to run on: cpu, ref, null, cuda (default cpu)', choiceOption('--device', DEVICES))
      .option(
        '--precision <name>',
        'stored type of activations: fp32, bf16, fp16, tf32 (default fp32; tf32 on cuda)',
        choiceOption('--precision', PRECISIONS),
      )
      .option('--threads <n>', 'threads of the cpu device (default: all cores)', countOption('--threads')),
  )

const SPILL = [
  '--spill <where>',
  'folder for swapped values that exceed --host-memory, or ram for no disk (default ram)',
] as const

/** The place of values away from the device. */
export const tierOptions = (c: Command): Command =>
  c
    .option(...SPILL)
    .option(
      '--host-memory <size>',
      'limit on host memory for swapped values; the rest spills (default: all free memory; on cpu 0 for auto or with --spill)',
      sizeOption('--host-memory'),
    )
    .option(
      '--spill-writes-per-step <size>',
      'limit on bytes that a step writes to the spill disk (default: a rate that does not wear out the disk)',
      sizeOption('--spill-writes-per-step'),
    )

export const WEIGHTS =
  'weights file with PyTorch names (safetensors or torch.save), or the name of a network with published weights'

/** Which of a weights file's tensors become which of the model's. */
export const weightsOptions = (c: Command, file: string): Command =>
  c
    .option('--weights <file>', file)
    .option('--weights-skip <pattern>', "do not load model weights that match, e.g. 'fc.*' (repeatable)", repeated)
    .option('--weights-strip <prefix>', "remove this prefix from names in the file, e.g. 'module.' (repeatable)", repeated)

export const NETWORK = [
  '--network <name>',
  `network between ranks, for predicted times: ${NETWORKS.join(', ')}, or ${MEASURED} (default: ${MEASURED} under mpirun or srun, else none)`,
  choiceOption('--network', [...NETWORKS, MEASURED]),
] as const

export const SHARD = [
  '--shard <what>',
  'shard across ranks: none, optimizer (its state), gradients (and the state) (default: none, if memory allows)',
  choiceOption('--shard', SHARDS),
] as const

export const THREADS = ['--threads <n>', 'threads of the cpu device (default: all cores)', threadsOption] as const

export const PRECISION = [
  '--precision <name>',
  'stored type of activations: fp32, bf16 (cuda and some processors), fp16 (with a loss scale), tf32 (cuda) (default fp32; tf32 on cuda)',
  choiceOption('--precision', PRECISIONS),
] as const

export const planningOptions = (c: Command): Command =>
  tierOptions(modelOptions(c))
    .option(...CLASSES)
    .option(BUDGET[0], `${BUDGET[1]} (default: all device memory)`, BUDGET[2])
    .option('--strategy <name>', 'planning method, e.g. auto, tiled, in-core (default auto)')
    .option(
      '--effort <time>',
      'about this processor time for the search of auto: 1s, 30s (default 5s); counted as work, for the same plan everywhere',
      durationOption('--effort'),
    )
    .option(
      '--allocator <name>',
      `simulate another allocator on the plan: ${ALLOCATORS.join(', ')} (default pages, the one that runs)`,
    )
    .option(...THREADS)
    .option(...PRECISION)
    .option('--throttle <size>', 'imitate a slower link: bytes per second in each direction', sizeOption('--throttle', 1))

/** `top3` and others like it are no list. */
export const metricOption = option(E.fromPredicate(isMetricName, (text) => unknownName('metric', text, METRICS))) as (
  text: string,
) => MetricName

export const MODEL = ['<model>', "a zoo network (see 'spillway models') or a TypeScript file"] as const

/** A command with weights of a zoo network needs no model: the weights name it. */
export const MODEL_OR_RECIPE = ['[model]', `${MODEL[1]} (default: the zoo network that --weights names)`] as const

export const listing = (c: Command): Command => c.addHelpText('after', () => names().listsText())
