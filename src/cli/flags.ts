// Each command's arguments and options, and what it runs. In: a command that has its name. Out: the same with all that it takes.
// Invariant: what a command needs to run is loaded when it runs, and the lists of strategies and machines when its help is read.
import { Command } from 'commander'
import * as E from 'fp-ts/Either'
import { FORMS, MODES } from '../../dsl/prediction'
import { DEVICES } from '../../staging/devices'
import { ALLOCATORS } from '../../staging/memory/allocators/replay'
import { PREDICTING } from '../../staging/schedule/predicting'
import { AUGMENTS, FITS } from '../data/augment'
import { type CommandName, COMMANDS } from './commands'
import {
  ALGORITHMS,
  budgetsOption,
  choiceOption,
  countOption,
  durationOption,
  imageOption,
  LAYOUTS,
  listOption,
  MEASURING,
  option,
  PRECISIONS,
  repeated,
  scheduleOption,
  sizeOption,
  threadsOption,
} from './options'
import { FORMATS } from '../predict/outputs'
import { isMetricName, METRICS, type MetricName } from '../predict/metrics'
import { unknownName } from '../errors/errors'
import type { Measuring } from '../machine/localmachine'
import { ENGINES } from '../ranks/engine'
import { NORMS, SHARDS } from '../../staging/graph/machine'
import { MEASURED, NETWORKS } from '../../staging/sim/networks'
import { scheduleNames } from '../train/schedules'
import type { Runner } from './output'
import { LOSS_FLAGS, OWN_FLAGS } from './own'

/** What runs, each with its own modules. */
const check = () => require('./check') as typeof import('./check')
const compare = () => require('./compare') as typeof import('./compare')
const completion = () => require('./completion') as typeof import('./completion')
const exchange = () => require('./exchange') as typeof import('./exchange')
const evaluate = () => require('./evaluate') as typeof import('./evaluate')
const doctor = () => require('./doctor') as typeof import('./doctor')
const models = () => require('./models') as typeof import('./models')
const plan = () => require('./plan') as typeof import('./plan')
const predict = () => require('./predict') as typeof import('./predict')
const checked = () => require('./beside') as typeof import('./beside')
const train = () => require('./train') as typeof import('./train')
const verify = () => require('./verify') as typeof import('./verify')
const names = () => require('./names') as typeof import('./names')

// ---------------------------------------------------------------- what several take

const sizeOptions = (c: Command): Command =>
  c
    .option('--image <size>', 'image size in pixels: 512, or 509x389 for height x width', imageOption)
    .option('--batch <n>', 'images a step', countOption('--batch'))

/** Of a network of the zoo. */
const CLASSES = ['--classes <n>', 'of a zoo name: a head for so many classes', countOption('--classes')] as const

const flagged = (c: Command, flags: typeof OWN_FLAGS): Command =>
  flags.reduce((own, [flag, about, parse]) => (parse ? own.option(flag, about, parse) : own.option(flag, about)), c)

const modelOptions = (c: Command): Command =>
  flagged(sizeOptions(c), OWN_FLAGS).option(
    '--algorithms <choice>',
    `${ALGORITHMS.join(', ')} (default measured)`,
    choiceOption('--algorithms', ALGORITHMS),
  )

const measuring = (c: Command, usual: Measuring): Command =>
  c.option(
    '--measure <when>',
    `what this machine has not measured yet: first, or estimated now and measured while runs go on (default ${usual})`,
    choiceOption('--measure', MEASURING),
  )

const BUDGET = ['--budget <size>', 'the hard cap on device memory: 512MiB, 11GiB, plain bytes', sizeOption('--budget')] as const

/** What a plan that trains nothing takes. */
const forwardOptions = (c: Command): Command =>
  tierOptions(
    measuring(
      c
        .option(BUDGET[0], `${BUDGET[1]} (default: what the device has)`, BUDGET[2])
        .option(
          '--strategy <name>',
          `how to fit: ${PREDICTING.join(', ')} (default auto)`,
          choiceOption('--strategy', PREDICTING),
        )
        .option('--algorithms <choice>', `${ALGORITHMS.join(', ')} (default measured)`, choiceOption('--algorithms', ALGORITHMS)),
      'while',
    )
      .option('--device <name>', 'cpu, ref, null, cuda (default cpu)', choiceOption('--device', DEVICES))
      .option('--precision <name>', 'fp32, bf16, tf32 (default fp32)', choiceOption('--precision', PRECISIONS))
      .option('--threads <n>', 'threads of the device (default: all cores)', countOption('--threads')),
  )

const SPILL = ['--spill <where>', "the lower tier: 'ram', or a folder for the spill file (default ram)"] as const
/** Of what leaves the device: where it lies. */
const tierOptions = (c: Command): Command =>
  c
    .option(...SPILL)
    .option(
      '--host-memory <size>',
      'of the lower tier, what may be host memory: the spill folder takes the rest (default: what there is; on cpu with --spill none)',
      sizeOption('--host-memory'),
    )
    .option(
      '--spill-writes-per-step <size>',
      'what a step may write to the disk of --spill (default: so much that a week of it does not wear the disk out)',
      sizeOption('--spill-writes-per-step'),
    )

const WEIGHTS = 'the weights, by their names in PyTorch (safetensors, or what torch.save writes)'
/** Which of a weights file's tensors become which of the model's. */
const weightsOptions = (c: Command, file: string): Command =>
  c
    .option('--weights <file>', file)
    .option(
      '--weights-skip <pattern>',
      "weights of the model that stay as they begin, whatever the file has: 'fc.*', and as often as need be",
      repeated,
    )
    .option(
      '--weights-strip <prefix>',
      "what comes off the names in the file that begin with it: 'module.', and as often as need be",
      repeated,
    )

const FIT = [
  '--fit <how>',
  `images of another size than the model's: ${FITS.join(', ')} (default cover)`,
  choiceOption('--fit', FITS),
] as const
const LAYOUT = [
  '--layout <order>',
  `of arrays: ${LAYOUTS.join(', ')}, with the channels last as pixels lie in images (default nchw)`,
  choiceOption('--layout', LAYOUTS),
] as const
const NETWORK = [
  '--network <name>',
  `between processes that share a batch, for predicted times: ${NETWORKS.join(', ')}, or ${MEASURED}, by those that run (default: that under mpirun or srun, else no time on the way)`,
  choiceOption('--network', [...NETWORKS, MEASURED]),
] as const
const BANDS = [
  '--bands <n>',
  'cut the rows of each image into so many bands, one for each of as many processes; where there are more, they share the batch, too (default 1)',
  countOption('--bands'),
] as const
const NORM = [
  '--norms <of>',
  'of several processes, batch norms over the whole batch, or local: over the share of each (default whole)',
  choiceOption('--norms', NORMS),
] as const
const SHARD = [
  '--shard <what>',
  'of several processes, what each has a part of: none, the state of the optimizer, or gradients, too (default: none, unless memory is short)',
  choiceOption('--shard', SHARDS),
] as const
const WORKERS = [
  '--workers <n>',
  'threads that decode images (default: half the cores, four at most)',
  countOption('--workers', 0),
] as const

const planningOptions = (c: Command): Command =>
  tierOptions(modelOptions(c))
    .option(...CLASSES)
    .option(BUDGET[0], `${BUDGET[1]} (default: what the device has)`, BUDGET[2])
    .option('--strategy <name>', 'how to fit (default auto)')
    .option(
      '--allocator <name>',
      `${ALLOCATORS.join(', ')}: what runs are pages; the others are replayed on the plan to compare (default pages)`,
    )
    .option('--threads <n>', 'threads of the device (default: all cores)', threadsOption)
    .option(
      '--precision <name>',
      'fp32, bf16 (activations stored and multiplied so: on cuda, and where the processor has it), tf32 (products on cuda); default fp32',
      choiceOption('--precision', PRECISIONS),
    )
    .option('--throttle <size>', 'imitate a slower link: bytes a second in each direction', sizeOption('--throttle', 1))

/** `top3` and others like it are no list. */
const metricOption = option(E.fromPredicate(isMetricName, (text) => unknownName('metric', text, METRICS))) as (
  text: string,
) => MetricName

const MODEL = ['<model>', 'a zoo name, or a TypeScript file'] as const
const listing = (c: Command): Command => c.addHelpText('after', () => names().listsText())

// ---------------------------------------------------------------- each of them

type Declare = (c: Command, run: Runner) => Command

const DECLARED: Readonly<Record<CommandName, Declare>> = {
  models: (c, run) => c.action(() => run((out) => models().listModels(out))),
  plan: (c, run) =>
    listing(measuring(planningOptions(c.argument(...MODEL)), 'first'))
      .option('--machine <name>', "this machine's cpu, ref, null or cuda, or a named one for simulation (default cpu)")
      .option(
        '--mode <what>',
        `what is planned: ${MODES.join(', ')}; the others keep nothing for a backward pass (default train)`,
        choiceOption('--mode', MODES),
      )
      .option(
        '--as <form>',
        `of a prediction or an evaluation, what of the output leaves: ${FORMS.join(', ')}`,
        choiceOption('--as', FORMS),
      )
      .option('--ranks <n>', 'how many processes share the batch of --batch (default 1)', countOption('--ranks'))
      .option(...BANDS)
      .option(...NETWORK)
      .option(...NORM)
      .option(...SHARD)
      .option('--save <file>', 'write the plan as JSON')
      .option('--emit <file>', 'write a typed plan module')
      .option('--report <file>', 'write the report page')
      .option('--trace <file>', 'write a trace for Perfetto')
      .action((model, o) => run((out) => checked().besideTypes(model, o, () => plan().planModel(model, o, out)))),
  train: (c, run) =>
    weightsOptions(
      measuring(planningOptions(c.argument(...MODEL)), 'while'),
      'start from these weights (safetensors, or what torch.save writes)',
    )
      .option('--plan <file>', 'a plan that was saved, instead of staging')
      .option('--steps <n>', 'steps of the whole run, those before a resume included (default 10)', countOption('--steps'))
      .option('--epochs <n>', 'the same in epochs of the data', countOption('--epochs'))
      .option(
        '--schedule <name>',
        `how the learning rate moves: ${scheduleNames.join(', ')}; with options, cosine:floor=0.01 (default constant)`,
        scheduleOption,
      )
      .option(
        '--warmup <n>',
        'steps in which the learning rate rises to what the schedule begins with',
        countOption('--warmup', 0),
      )
      .option(
        '--data <path>',
        'a folder of images or arrays, a .safetensors file, or a .csv or .json list of images (default: synthetic)',
      )
      .option(...FIT)
      .option(...LAYOUT)
      .option(
        '--augment <a,b>',
        `what happens to images by chance: ${AUGMENTS.join(', ')}`,
        listOption(choiceOption('--augment', AUGMENTS)),
      )
      .option(...WORKERS)
      .option('--shuffle', 'take the data in another order in each epoch, by seed')
      .option('--samples <n>', 'distinct synthetic samples (default: one batch)', countOption('--samples'))
      .option('--seed <n>', 'seed of weights, data and dropout (default 0)', countOption('--seed', 0))
      .option('--device <name>', 'cpu, ref, null, cuda (default cpu)')
      .option('--machine <name>', 'the same')
      .option('--checkpoint-dir <dir>', 'keep the training state there')
      .option(
        '--checkpoint-every <n>',
        'steps between checkpoints (default: a tenth of the run)',
        countOption('--checkpoint-every'),
      )
      .option(
        '--time-limit <time>',
        'save in --checkpoint-dir and end with 75 after so long (3h, 45m); SIGUSR1 does so at once',
        durationOption('--time-limit'),
      )
      .option(
        '--on-nonfinite <what>',
        'a loss that is not finite: end (default), with 4 and nothing of it saved, or continue',
        choiceOption('--on-nonfinite', ['end', 'continue'] as const),
      )
      .option('--evaluate <path>', 'after epochs, evaluate on these data, in the same budget')
      .option('--evaluate-every <n>', 'epochs from one evaluation to the next (default 1)', countOption('--evaluate-every'))
      .option('--evaluate-average', 'evaluate the average of the weights that --average keeps, not the latest')
      .option(
        '--metrics <a,b>',
        `what is measured beside the loss: ${METRICS.join(', ')}, or top and a number (default: by the loss)`,
        listOption(metricOption),
      )
      .option('--patience <n>', 'end when so many evaluations, or epochs, have brought nothing better', countOption('--patience'))
      .option(
        '--keep-best <metric>',
        'keep the checkpoint that is best by this metric, too; what --patience goes by (default loss)',
      )
      .option('--keep-last <n>', 'how many of the newest checkpoints stay (default 2)', countOption('--keep-last'))
      .option('--save-best <file>', 'write the best weights (safetensors)')
      .option('--resume', 'go on from the last checkpoint of --checkpoint-dir')
      .option('--resume-ranks', 'with --resume: the run so far may have had another number of processes (bits then differ)')
      .option('--save <file>', 'write the weights at the end (safetensors)')
      .option('--log <where>', 'a folder for a JSON line a step and the page of the run, or a .csv file for a row a step')
      .option('--tensorboard <dir>', 'write loss, seconds and learning rate of each step there, and the plan, for TensorBoard')
      .option('--report <file>', 'write a page of the run, and keep it up to date while it goes on')
      .option(
        '--engine <name>',
        `where several processes that share a batch meet: ${ENGINES.join(', ')} (default: mpi under mpirun or srun)`,
        choiceOption('--engine', ENGINES),
      )
      .option('--ranks <n>', 'of --engine threads: how many share a batch', countOption('--ranks'))
      .option(...BANDS)
      .option(...NETWORK)
      .option(...NORM)
      .option(...SHARD)
      .action((model, o) => run((out) => checked().besideTypes(model, o, () => train().trainModel(model, o, out)))),
  evaluate: (c, run) =>
    forwardOptions(
      weightsOptions(flagged(sizeOptions(c.argument(...MODEL)), LOSS_FLAGS), WEIGHTS)
        .option('--data <path>', 'a folder of images or arrays, a .safetensors file, or a .csv or .json list of images')
        .option(
          '--metrics <a,b>',
          `what is measured beside the loss: ${METRICS.join(', ')} (default: what the loss suggests)`,
          listOption(metricOption),
        ),
    )
      .option(...CLASSES)
      .option(...FIT)
      .option(...LAYOUT)
      .option(...WORKERS)
      .option('--out <file>', 'write the result there, as JSON')
      .action((model, o) => run((out) => checked().besideTypes(model, o, () => evaluate().evaluateModel(model, o, out)))),
  predict: (c, run) =>
    forwardOptions(
      weightsOptions(c.argument(...MODEL), WEIGHTS)
        .option('--data <path>', 'the images: a folder of image files, or of .npy; one such file, a .safetensors file')
        .option('--out <path>', 'a .npy or .safetensors file for all outputs, or a folder for one file each')
        .option(
          '--format <kind>',
          `files in that folder: ${FORMATS.join(', ')} (pictures of classes); default npy`,
          choiceOption('--format', FORMATS),
        )
        .option('--as <form>', `${FORMS.join(', ')} of what the model gives (default values)`, choiceOption('--as', FORMS))
        .option(
          '--image <size>',
          "image size in pixels: 512, or 509x389 for height x width (default: the first image's)",
          imageOption,
        )
        .option('--batch <n>', 'images a step (default 1)', countOption('--batch')),
    )
      .option(...CLASSES)
      .option(...FIT)
      .option(...LAYOUT)
      .option(...WORKERS)
      .option('--report <file>', 'write the report page of the plan')
      .action((model, o) => run((out) => checked().besideTypes(model, o, () => predict().predictModel(model, o, out)))),
  check: (c, run) =>
    modelOptions(c.argument('<file>', 'a TypeScript or JavaScript file whose default export is a model, a net or a step'))
      .option(BUDGET[0], `${BUDGET[1]} (default: none, and everything is kept)`, BUDGET[2])
      .option('--strategy <name>', 'how to fit into --budget (default auto)')
      .option('--machine <name>', 'the machine to stage for (default a simulated one, so that nothing is measured)')
      .action((file, o) => run((out) => check().checkFile(file, o, out))),
  verify: (c, run) => c.argument('<plan>', 'a plan file').action((file) => run((out) => verify().verifyFile(file, out))),
  compare: (c, run) =>
    listing(measuring(modelOptions(c.argument(...MODEL)), 'first'))
      .option(...CLASSES)
      .option('--machine <name>', 'default cpu')
      .option(
        '--strategies <a,b>',
        'default all',
        listOption((t) => t),
      )
      .option('--budgets <n>', 'how many, evenly from the smallest to in-core (default 8); or sizes: 2GiB,4GiB', budgetsOption)
      .option('--csv <file>', 'write the table as CSV')
      .option(
        '--allocators <a,b>',
        `each plan on these: ${ALLOCATORS.join(', ')} (default pages, what runs)`,
        listOption((t) => t),
      )
      .option('--plot <file>', 'write the comparison as SVG')
      .action((model, o) => run((out) => checked().besideTypes(model, o, () => compare().compareModel(model, o, out)))),
  export: (c, run) =>
    sizeOptions(c.argument(...MODEL))
      .option(...CLASSES)
      .option('--weights <file>', 'the weights that are exported (safetensors, or what torch.save writes)')
      .option('--out <file>', 'the ONNX file to write')
      .option('--net <name>', 'of a step: the objective whose net is meant')
      .option('--external-data', 'the weights in a file of their own (by default only beyond 2 GiB)')
      .action((model, o) => run((out) => exchange().exportModel(model, o, out))),
  import: (c, run) =>
    sizeOptions(c.argument('<file>', 'an ONNX file'))
      .option('--out <file>', 'the model file to write, in TypeScript')
      .option('--save <file>', 'write the weights there (default: beside --out, as .safetensors)')
      .action((file, o) => run((out) => exchange().importModel(file, o, out))),
  doctor: (c, run) => c.action(() => run((out) => doctor().runDoctor(out))),
  completion: (c, run) =>
    c
      .argument('<shell>', 'bash, zsh or fish')
      .addHelpText('after', () => completion().INSTALLING)
      .action((shell) => run((out) => completion().printCompletion(shell, allCommands(), names().valuesOf, out))),
}

/** All that a command takes, and what it does. */
export const declare = (c: Command, name: CommandName, run: Runner): Command =>
  DECLARED[name](c.option('--json', 'one JSON object on stdout, everything else on stderr'), run)

const allCommands = (): readonly Command[] =>
  (Object.keys(DECLARED) as CommandName[]).map((name) =>
    declare(new Command(name).description(COMMANDS[name]), name, () => Promise.resolve()),
  )
