// Each command's arguments and options, and its function. In: a command that has its name. Out: the same with its options. Invariant: the modules of
// a command are loaded when it runs, and the lists of strategies and machines when its help is read.
import { Command } from 'commander'
import { FORMS, MODES } from '../../dsl/prediction'
import { ALLOCATORS } from '../../staging/memory/allocators/replay'
import { AUGMENT_WORDS } from '../data/augment'
import { METRICS } from '../predict/metricnames'
import { FORMATS } from '../predict/outputs'
import { ENGINES } from '../ranks/engine'
import { scheduleNames } from '../train/schedules'
import { type CommandName, COMMANDS } from './commands'
import {
  BAGS,
  BANDS,
  BLOCKS,
  CANVAS,
  DEPTH,
  FIT,
  IMAGES,
  LAYOUT,
  LEVEL,
  MEAN,
  MICRONS,
  NORM,
  OWN_FIT,
  SKIP_DAMAGED,
  STD,
  STRICT_DATA,
  TILE_SIZE,
  TISSUE,
  WORKERS,
} from './dataflags'
import { described } from './help'
import {
  budgetsOption,
  choiceOption,
  countOption,
  durationOption,
  listOption,
  needingValues,
  PARTS,
  pixelsOption,
  positiveOption,
  scheduleOption,
  sizeOption,
} from './options'
import type { Runner } from './output'
import { LOSS_FLAGS } from './own'
import {
  BUDGET,
  CLASSES,
  CLASSES_READ,
  flagged,
  forwardOptions,
  listing,
  measuring,
  metricOption,
  MODEL,
  MODEL_OR_RECIPE,
  modelOptions,
  names,
  NETWORK,
  planningOptions,
  PRECISION,
  SHARD,
  sizeOptions,
  THREADS,
  tierOptions,
  WEIGHTS,
  weightsOptions,
} from './sharedflags'
import { templateNames, TEMPLATES } from './templates'

/** The functions of commands, each with its own modules. */
const check = () => require('./check') as typeof import('./check')

const compare = () => require('./compare') as typeof import('./compare')

const completion = () => require('./completion') as typeof import('./completion')

const fits = () => require('./fits') as typeof import('./fits')

const exchange = () => require('./exchange') as typeof import('./exchange')

const evaluate = () => require('./evaluate') as typeof import('./evaluate')

const doctor = () => require('./doctor') as typeof import('./doctor')

const models = () => require('./models') as typeof import('./models')

const newly = () => require('./new') as typeof import('./new')

const plan = () => require('./plan') as typeof import('./plan')

const predict = () => require('./predict') as typeof import('./predict')

const checked = () => require('./beside') as typeof import('./beside')

const runs = () => require('./runs') as typeof import('./runs')

const finding = () => require('./lrfind') as typeof import('./lrfind')

const setup = () => require('./setup') as typeof import('./setup')

const train = () => require('./train') as typeof import('./train')

const verify = () => require('./verify') as typeof import('./verify')

const view = () => require('./view') as typeof import('./view')

type Declare = (c: Command, run: Runner) => Command

/** Arguments and options of a training. */
const trainFlags = (c: Command) =>
  weightsOptions(measuring(planningOptions(c.argument(...MODEL)), 'while'), `initial weights: a ${WEIGHTS}`)
    .option('--plan <file>', 'use a saved plan instead of planning')
    .option('--steps <n>', 'total steps, including steps before a resume (default 10)', countOption('--steps'))
    .option('--epochs <n>', 'total epochs, instead of --steps', countOption('--epochs'))
    .option(
      '--schedule <name>',
      `learning rate schedule: ${scheduleNames.join(', ')}; options as in cosine:floor=0.01 (default constant)`,
      scheduleOption,
    )
    .option('--warmup <n>', 'steps of linear warm-up before the schedule (default 0)', countOption('--warmup', 0))
    .option(
      '--data <path>',
      'image folder with one folder per class, folder of arrays, .safetensors file, .csv or .json list, COCO annotations, or parent folder with train/ and val/ (default: synthetic)',
    )
    .option(...IMAGES)
    .option(...FIT)
    .option(...LAYOUT)
    .option(...MEAN)
    .option(...STD)
    .option(...DEPTH)
    .option(...LEVEL)
    .option(...MICRONS)
    .option(...TILE_SIZE)
    .option(...TISSUE)
    .option(...BLOCKS)
    .option(...CANVAS)
    .option(...BAGS)
    .option(
      '--augment <a,b>',
      `random changes to images: ${AUGMENT_WORDS.join(', ')}`,
      listOption(choiceOption('--augment', AUGMENT_WORDS)),
    )
    .option(...STRICT_DATA)
    .option(...SKIP_DAMAGED)
    .option(...WORKERS)
    .option('--shuffle', 'shuffle the data in each epoch, by --seed (default)')
    .option('--no-shuffle', 'keep the order of the data')
    .option('--balance-classes', 'draw each class equally often in each epoch; the number of samples stays')
    .option('--samples <n>', 'number of synthetic samples (default: one batch)', countOption('--samples'))
    .option('--seed <n>', 'seed of initial weights, data order and dropout (default 0)', countOption('--seed', 0))
    .option('--device <name>', 'device to run on: cpu, ref, null, cuda (default cpu)')
    .option('--machine <name>', 'same as --device')
    .option('--checkpoint-dir <dir>', 'folder for checkpoints')
    .option(
      '--checkpoint-every <n>',
      'steps between checkpoints (default: a tenth of the run)',
      countOption('--checkpoint-every'),
    )
    .option(
      '--time-limit <time>',
      'after this time (3h, 45m), or at SIGUSR1, save a checkpoint and exit with 75',
      durationOption('--time-limit'),
    )
    .option(
      '--on-nonfinite <what>',
      'if a loss is not finite: end with exit code 4, or continue (default end)',
      choiceOption('--on-nonfinite', ['end', 'continue'] as const),
    )
    .option('--evaluate <path>', 'evaluate on these data after each epoch, in the same budget (default: val/ of a parent folder)')
    .option('--evaluate-images <folder>', 'folder of the images of --evaluate, if these are COCO annotations (default: --images)')
    .option('--evaluate-every <n>', 'epochs between evaluations (default 1)', countOption('--evaluate-every'))
    .option('--evaluate-average', 'evaluate the averaged weights of --average')
    .option(
      '--metrics <a,b>',
      `metrics besides the loss: ${METRICS.join(', ')}, or topN, e.g. top3 (default: chosen by the loss)`,
      listOption(metricOption),
    )
    .option('--patience <n>', 'end after this number of evaluations (or epochs) without improvement', countOption('--patience'))
    .option('--keep-best <metric>', 'metric that decides the best checkpoint and --patience (default loss)')
    .option('--keep-last <n>', 'number of newest checkpoints to keep (default 2)', countOption('--keep-last'))
    .option('--save-best <file>', 'write the best weights (default: runs/NAME/best.safetensors, with --evaluate)')
    .option('--resume', 'continue from the last checkpoint in --checkpoint-dir')
    .option('--resume-ranks', 'allow --resume with another number of ranks (bits may differ)')
    .option('--run <name>', 'name of the run: its folder is runs/NAME (default: name of the model)')
    .option('--save <file>', 'write the final weights here (default: runs/NAME/last.safetensors)')
    .option('--no-save', 'keep no weights, and write no folder of the run')
    .option('--log <where>', 'folder for steps.jsonl and metrics.csv, or a .csv file with one row per step (default: runs/NAME)')
    .option('--tensorboard <dir>', 'folder for TensorBoard events: loss, seconds, learning rate, plan (default: runs/NAME)')
    .option('--report <file>', 'write the HTML page of the run here, updated during the run (default: runs/NAME/index.html)')
    .option('--trace <file>', 'write a trace of the last step for Perfetto, predicted and measured')
    .option(
      '--engine <name>',
      `connection of the ranks: ${ENGINES.join(', ')} (default: mpi under mpirun or srun)`,
      choiceOption('--engine', ENGINES),
    )
    .option('--ranks <n>', 'number of ranks of --engine threads', countOption('--ranks'))
    .option(...BANDS)
    .option(...NETWORK)
    .option(...NORM)
    .option(...SHARD)

const DECLARED: Readonly<Record<CommandName, Declare>> = {
  new: (c, run) =>
    c
      .argument('<name>', 'name of the project, and of its folder')
      .option(
        '--template <name>',
        `template: ${Object.entries(TEMPLATES)
          .map(([name, about]) => `${name} (${about})`)
          .join(', ')} (default classify)`,
        choiceOption('--template', templateNames),
      )
      .action((name, o) => run((out) => newly().newProject(name, o, out))),
  models: (c, run) => c.action(() => run((out) => models().listModels(out))),
  plan: (c, run) =>
    listing(measuring(planningOptions(c.argument(...MODEL)), 'first'))
      .option('--machine <name>', 'device of this machine, or a simulated machine, see the list below (default cpu)')
      .option('--mode <what>', `purpose of the plan: ${MODES.join(', ')} (default train)`, choiceOption('--mode', MODES))
      .option(
        '--as <form>',
        `form of the outputs of predict and evaluate: ${FORMS.join(', ')} (default values)`,
        choiceOption('--as', FORMS),
      )
      .option('--ranks <n>', 'number of ranks that share the batch (default 1)', countOption('--ranks'))
      .option(...BANDS)
      .option(...NETWORK)
      .option(...NORM)
      .option(...SHARD)
      .option('--data <path>', 'slides whose sizes --canvas serves')
      .option(...LEVEL)
      .option(...MICRONS)
      .option(...BLOCKS)
      .option(...CANVAS)
      .option(...BAGS)
      .option('--save <file>', 'write the plan as JSON')
      .option('--emit <file>', 'write the plan as a typed TypeScript module')
      .option('--report <file>', 'write an HTML page about the plan')
      .option('--trace <file>', 'write a predicted trace for Perfetto')
      .option(
        '--explain [name]',
        'explain the decisions for the largest values, or for one value or layer: alternatives with prices, and the resource that binds',
      )
      .action((model, o) => run((out) => checked().besideTypes(model, o, () => plan().planModel(model, o, out)))),
  fits: (c, run) =>
    listing(tierOptions(modelOptions(c.argument(...MODEL))))
      .option(...CLASSES)
      .option(
        '--in <size>',
        'budget of device memory: 512MiB, 11GiB, plain bytes (default: all device memory)',
        sizeOption('--in'),
      )
      .option(
        '--up-to <n>',
        'end of the search, in times of the largest in-core batch or pixels (default 4)',
        countOption('--up-to'),
      )
      .option(
        '--effort <time>',
        'about this processor time for the plan of each answer: 1s, 5s (default: no search, but the best of a few plans)',
        durationOption('--effort'),
      )
      .option('--machine <name>', 'device of this machine, or a simulated machine, see the list below (default cpu)')
      .option(...THREADS)
      .option(...PRECISION)
      .action((model, o) => run((out) => checked().besideTypes(model, o, () => fits().fitModel(model, o, out)))),
  train: (c, run) =>
    trainFlags(c)
      .option('--trial', 'one step, and one batch of the evaluation; keep no files')
      .option(
        '--overfit <n>',
        'train this number of steps on one batch, and judge the loss; keep no files',
        countOption('--overfit'),
      )
      .action((model, o) => run((out) => checked().besideTypes(model, o, () => train().trainModel(model, o, out)))),
  'lr-find': (c, run) =>
    trainFlags(c)
      .option('--rates <n>', 'number of rates, one step each (default 100)', countOption('--rates'))
      .option('--from <n>', 'first learning rate (default 1e-7)', positiveOption('--from'))
      .option('--to <n>', 'last learning rate (default 10)', positiveOption('--to'))
      .option('--out <file>', 'write the rates and losses: a .csv or .json file')
      .action((model, o) => run((out) => checked().besideTypes(model, o, () => finding().findTheRate(model, o, out)))),
  runs: (c, run) =>
    c
      .argument('[run]', 'name of a run, or a folder with runs (default: the folder runs)')
      .action((name) => run((out) => runs().showRuns(name, out))),
  'compare-runs': (c, run) =>
    c
      .argument('<runs...>', 'names of runs, or their folders')
      .option('--report <file>', 'write an HTML page with the curves of all runs')
      .action((names, o) => run((out) => runs().compareRuns(names, o, out))),
  evaluate: (c, run) =>
    forwardOptions(
      weightsOptions(flagged(sizeOptions(c.argument(...MODEL_OR_RECIPE)), LOSS_FLAGS), WEIGHTS)
        .option(
          '--data <path>',
          'image folder with one folder per class, folder of arrays, .safetensors file, .csv or .json list, COCO annotations, or parent folder with val/',
        )
        .option(
          '--metrics <a,b>',
          `metrics besides the loss: ${METRICS.join(', ')}, or topN, e.g. top3 (default: chosen by the loss)`,
          listOption(metricOption),
        ),
    )
      .option(...CLASSES_READ)
      .option(...IMAGES)
      .option(...OWN_FIT)
      .option(...LAYOUT)
      .option(...MEAN)
      .option(...STD)
      .option(...DEPTH)
      .option(...LEVEL)
      .option(...MICRONS)
      .option(...TILE_SIZE)
      .option(...TISSUE)
      .option(...BLOCKS)
      .option(...CANVAS)
      .option(...BAGS)
      .option(...STRICT_DATA)
      .option(...SKIP_DAMAGED)
      .option(...WORKERS)
      .option('--out <file>', 'write the result: a .json, .jsonl or .csv file')
      .action((model, o) => run((out) => checked().besideTypes(model, o, () => evaluate().evaluateModel(model, o, out)))),
  predict: (c, run) =>
    forwardOptions(
      weightsOptions(c.argument(...MODEL_OR_RECIPE), WEIGHTS)
        .option('--data <path>', 'folder of images or .npy files, one such file, or a .safetensors file')
        .option(
          '--out <path>',
          '.csv, .json or .jsonl table, .npy or .safetensors file of all outputs, or a folder: one file per image (default: a table in the terminal)',
        )
        .option(
          '--format <kind>',
          `files in the folder: ${FORMATS.join(', ')}; png is a mask of the classes, overlay the image tinted by them, tiff and zarr a tiled pyramid of any output (default npy)`,
          choiceOption('--format', FORMATS),
        )
        .option(
          '--as <form>',
          `form of the outputs: ${FORMS.join(', ')} (default: values; the best classes in a table of a classifier)`,
          choiceOption('--as', FORMS),
        )
        .option(
          '--image <size>',
          'resize images to this size in pixels: 512, or height x width: 509x389 (default: size of training for one result per image, else own size)',
          pixelsOption('--image'),
        )
        .option('--batch <n>', 'images per step (default 1)', countOption('--batch')),
    )
      .option(...CLASSES_READ)
      .option(...OWN_FIT)
      .option(...LAYOUT)
      .option(...MEAN)
      .option(...STD)
      .option(...DEPTH)
      .option(...LEVEL)
      .option(...MICRONS)
      .option(...TILE_SIZE)
      .option(...TISSUE)
      .option(...BLOCKS)
      .option(...CANVAS)
      .option(...BAGS)
      .option(...STRICT_DATA)
      .option(...SKIP_DAMAGED)
      .option(...WORKERS)
      .option('--report <file>', 'write an HTML page about the plan')
      .action((model, o) => run((out) => checked().besideTypes(model, o, () => predict().predictModel(model, o, out)))),
  view: (c, run) =>
    c
      .argument('<slide>', 'a tiled TIFF, BigTIFF, GeoTIFF, SVS or OME-Zarr image')
      .argument(
        '[predictions...]',
        'predictions of this slide: TIFFs of --format tiff, PNG or TIFF masks with one class per pixel, or tables of its tiles',
      )
      .option('--out <folder>', 'folder to write: a new or an empty one, or an earlier viewer, which is replaced')
      .option('--level <n>', 'finest level of the slide to show, 0 is the finest (default 0)', countOption('--level', 0))
      .option(MICRONS[0], 'microns per pixel of the finest level to show, instead of --level, within 10 %', MICRONS[2])
      .action((slide, predictions, o) => run((out) => view().viewSlide(slide, predictions, o, out))),
  check: (c, run) =>
    tierOptions(modelOptions(c.argument('<file>', 'TypeScript or JavaScript file with a model, net or step as default export')))
      .option(BUDGET[0], `${BUDGET[1]} (default: unlimited, in-core)`, BUDGET[2])
      .option('--strategy <name>', 'planning method, with --budget (default auto)')
      .option('--machine <name>', 'machine to plan for (default: a simulated machine, without measuring)')
      .action((file, o) => run((out) => check().checkFile(file, o, out))),
  verify: (c, run) => c.argument('<plan>', 'a plan file').action((file) => run((out) => verify().verifyFile(file, out))),
  compare: (c, run) =>
    listing(measuring(tierOptions(modelOptions(c.argument(...MODEL))), 'first'))
      .option(...CLASSES)
      .option('--machine <name>', 'device of this machine, or a simulated machine, see the list below (default cpu)')
      .option(...PRECISION)
      .option(
        '--strategies <a,b>',
        'strategies to compare (default all)',
        listOption((t) => t),
      )
      .option('--budgets <n>', 'number of budgets from the smallest to in-core, or sizes: 2GiB,4GiB (default 8)', budgetsOption)
      .option('--csv <file>', 'write the table as CSV')
      .option(
        '--allocators <a,b>',
        `allocators to simulate on each plan: ${ALLOCATORS.join(', ')} (default pages, the one that runs)`,
        listOption((t) => t),
      )
      .option('--plot <file>', 'write the comparison as an SVG plot')
      .action((model, o) => run((out) => checked().besideTypes(model, o, () => compare().compareModel(model, o, out)))),
  export: (c, run) =>
    sizeOptions(c.argument(...MODEL_OR_RECIPE))
      .option(...CLASSES_READ)
      .option('--weights <file>', 'weights to export, with PyTorch names (safetensors or torch.save)')
      .option('--out <file>', 'ONNX file to write')
      .option('--net <name>', 'for a step: name of the objective whose net to export')
      .option('--external-data', 'write the weights to a separate file (default: only above 2 GiB)')
      .action((model, o) => run((out) => exchange().exportModel(model, o, out))),
  import: (c, run) =>
    sizeOptions(c.argument('<file>', 'an ONNX file, or a .pt2 file of torch.export.save'))
      .option('--out <file>', 'TypeScript model file to write')
      .option('--save <file>', 'weights file to write (default: beside --out, as .safetensors)')
      .option('--output <name>', 'value that becomes the output: one of several, or an inner one')
      .option('--list-unsupported', 'list all unsupported nodes, and write nothing')
      .action((file, o) => run((out) => exchange().importModel(file, o, out))),
  setup: (c, run) =>
    c
      .argument('<part>', 'cuda')
      .option('--dry-run', 'list the missing parts and their sizes; change nothing')
      .action((part, o) => run((out) => setup().setup(choiceOption('part', PARTS)(part), o, out))),
  doctor: (c, run) => c.action(() => run((out) => doctor().runDoctor(out))),
  completion: (c, run) =>
    c
      .argument('<shell>', 'bash, zsh or fish')
      .addHelpText('after', () => completion().INSTALLING)
      .action((shell) => run((out) => completion().printCompletion(shell, allCommands(), names().valuesOf, out))),
}

/** A command with options of its own takes them from a configuration file, too. */
const configurable = (c: Command): Command =>
  c.options.length === 0
    ? c
    : c
        .option('--config <file>', 'file with options (default: spillway.config.ts, .js, .mjs, .cjs or .json in this folder)')
        .option('--no-config', 'read no configuration file')

/** Declares the arguments, the options and the action of a command. */
export const declare = (c: Command, name: CommandName, run: Runner): Command =>
  described(
    needingValues(
      configurable(DECLARED[name](c, run)).option('--json', 'print one JSON object on stdout, and all else on stderr'),
    ),
    name,
  )

const allCommands = (): readonly Command[] =>
  (Object.keys(DECLARED) as CommandName[]).map((name) =>
    declare(new Command(name).description(COMMANDS[name]), name, () => Promise.resolve()),
  )
