// The command line: `spillway COMMAND` (DESIGN 10). In: arguments. Out: the exit code; words and JSON on the way.
// Invariant: 0 done, 2 the call is wrong, 3 no plan fits, 130 interrupted, 1 anything else; with --json stdout holds one object.
import { Command, CommanderError } from 'commander'
import { isLeft, left } from 'fp-ts/Either'
import { type CompareOptions, compareModel } from './cli/compare'
import { runDoctor } from './cli/doctor'
import { listModels } from './cli/models'
import { ALGORITHMS, choiceOption, countOption, imageOption, listOption, PRECISIONS, sizeOption } from './cli/options'
import { type Done, fail, type Output, outputFor } from './cli/output'
import { OWN_FLAGS } from './cli/own'
import { planModel, type PlanOptions } from './cli/plan'
import { trainModel, type TrainCommandOptions } from './cli/train'
import { verifyFile } from './cli/verify'
import { type SpillwayError, SpillwayException, usage } from './errors/errors'
import { ALLOCATORS } from '../staging/memory/allocators/replay'
import { nearest } from './errors/nearest'
import { version } from './files/version'

// ---------------------------------------------------------------- options

const modelOptions = (c: Command): Command =>
  OWN_FLAGS.reduce(
    (own, [flag, about, parse]) => (parse ? own.option(flag, about, parse) : own.option(flag, about)),
    c
      .option('--image <size>', 'image size in pixels: 512, or 509x389 for height x width', imageOption)
      .option('--batch <n>', 'images a step', countOption('--batch')),
  ).option('--algorithms <choice>', `${ALGORITHMS.join(', ')} (default measured)`, choiceOption('--algorithms', ALGORITHMS))

const planningOptions = (c: Command): Command =>
  modelOptions(c)
    .option(
      '--budget <size>',
      'the hard cap on device memory: 512MiB, 11GiB, plain bytes (default: what the device has)',
      sizeOption('--budget'),
    )
    .option('--strategy <name>', 'how to fit (default auto)')
    .option(
      '--allocator <name>',
      `${ALLOCATORS.join(', ')}: what runs are pages; the others are replayed on the plan to compare (default pages)`,
    )
    .option('--spill <where>', "the lower tier: 'ram', or a folder for the spill file (default ram)")
    .option('--threads <n>', 'threads of the device (default: all cores)', countOption('--threads'))
    .option(
      '--precision <name>',
      'fp32, bf16 (activations stored and multiplied so: on cuda, and where the processor has it), tf32 (products on cuda); default fp32',
      choiceOption('--precision', PRECISIONS),
    )
    .option('--throttle <size>', 'imitate a slower link: bytes a second in each direction', sizeOption('--throttle'))

const command = (program: Command, name: string, about: string): Command =>
  program.command(name).description(about).option('--json', 'one JSON object on stdout, everything else on stderr')

type Runner = (work: (out: Output) => Done | Promise<Done>) => Promise<void>

const declare = (program: Command, run: Runner): void => {
  command(program, 'models', 'the zoo: name, parameters, layers, input').action(() => run(listModels))
  planningOptions(
    command(program, 'plan', 'stage a model and explain the plan').argument('<model>', 'a zoo name, or a TypeScript file'),
  )
    .option('--machine <name>', "this machine's cpu, ref, null or cuda, or a named one for simulation (default cpu)")
    .option('--save <file>', 'write the plan as JSON')
    .option('--emit <file>', 'write a typed plan module')
    .option('--report <file>', 'write the report page')
    .option('--trace <file>', 'write a trace for Perfetto')
    .action((model: string, o: PlanOptions) => run((out) => planModel(model, o, out)))
  planningOptions(
    command(program, 'train', 'stage a model, or take a plan, and train').argument('<model>', 'a zoo name, or a TypeScript file'),
  )
    .option('--plan <file>', 'a plan that was saved, instead of staging')
    .option('--steps <n>', 'steps of the whole run, those before a resume included (default 10)', countOption('--steps'))
    .option('--data <path>', 'input/target pairs: a folder or a .safetensors file (default: synthetic)')
    .option('--samples <n>', 'distinct synthetic samples (default: one batch)', countOption('--samples'))
    .option('--seed <n>', 'seed of weights, data and dropout (default 0)', countOption('--seed', 0))
    .option(
      '--host-memory <size>',
      'of the lower tier, what may be pinned memory before the spill folder takes the rest (cuda)',
      sizeOption('--host-memory'),
    )
    .option('--device <name>', 'cpu, ref, null, cuda (default cpu)')
    .option('--machine <name>', 'the same')
    .option('--checkpoint-dir <dir>', 'keep the training state there')
    .option(
      '--checkpoint-every <n>',
      'steps between checkpoints (default: a tenth of the run)',
      countOption('--checkpoint-every'),
    )
    .option('--resume', 'go on from the last checkpoint of --checkpoint-dir')
    .option('--weights <file>', 'start from these weights (safetensors)')
    .option('--save <file>', 'write the weights at the end (safetensors)')
    .option('--log <dir>', 'write a JSON line a step, and the report')
    .option('--report <file>', 'write the report page')
    .action((model: string, o: TrainCommandOptions) => run((out) => trainModel(model, o, out)))
  command(program, 'verify', 'check a plan file independently')
    .argument('<plan>', 'a plan file')
    .action((file: string) => run((out) => verifyFile(file, out)))
  modelOptions(
    command(program, 'compare', 'every strategy over a sweep of budgets').argument('<model>', 'a zoo name, or a TypeScript file'),
  )
    .option('--machine <name>', 'default cpu')
    .option(
      '--strategies <a,b>',
      'default all',
      listOption((t) => t),
    )
    .option('--budgets <n>', 'how many, evenly from the smallest to in-core (default 8)', countOption('--budgets'))
    .option(
      '--allocators <a,b>',
      `each plan on these: ${ALLOCATORS.join(', ')} (default pages, what runs)`,
      listOption((t) => t),
    )
    .option('--plot <file>', 'write the comparison as SVG')
    .action((model: string, o: CompareOptions) => run((out) => compareModel(model, o, out)))
  command(program, 'doctor', 'what this machine has, what is missing and how to get it').action(() => run(runDoctor))
}

// ---------------------------------------------------------------- what commander refuses

const flagsOf = (c: Command): readonly string[] =>
  c.options.map((o) => o.long).filter((l): l is string => l !== undefined && l !== null)

/** Commander's refusals in our words, with the nearest legal flags or commands. */
const refusal = (e: CommanderError, program: Command, args: readonly string[]): SpillwayError => {
  const message = e.message.replace(/^error: /, '').replace(/\s*\(Did you mean[\s\S]*$/, '')
  const current = program.commands.find((c) => c.name() === args.find((a) => !a.startsWith('-')))
  const quoted = /'([^' =]+)/.exec(message)?.[1] ?? ''
  if (e.code === 'commander.unknownOption') return usage(message, nearest(quoted, flagsOf(current ?? program), 3))
  if (e.code === 'commander.unknownCommand')
    return usage(
      message,
      nearest(
        quoted,
        program.commands.map((c) => c.name()),
        3,
      ),
    )
  return usage(message)
}

const isHelp = (e: CommanderError): boolean => e.exitCode === 0

const newProgram = (out: Output): Command => {
  const quiet = { writeErr: () => {}, outputError: () => {}, writeOut: (text: string) => void out.stream.write(text) }
  const program = new Command('spillway')
    .description('Trains convolutional networks larger than the memory of the device they run on.')
    .version(version())
    .exitOverride()
    .configureOutput(quiet)
    .showSuggestionAfterError(false)
  return program
}

/** Runs one command line; never throws for anything that a user did. */
export const main = async (args: readonly string[]): Promise<number> => {
  const out = outputFor(args.includes('--json'))
  const program = newProgram(out)
  let done: Done = left(usage('no command given', ['models', 'plan', 'train', 'verify', 'compare', 'doctor']))
  declare(program, async (work) => {
    done = await work(out)
  })
  for (const c of program.commands) c.copyInheritedSettings(program)
  if (args.length === 0) {
    program.outputHelp()
    return 2
  }
  try {
    await program.parseAsync(args, { from: 'user' })
  } catch (e) {
    if (e instanceof CommanderError) {
      if (isHelp(e)) return 0
      done = left(refusal(e, program, args))
    } else if (e instanceof SpillwayException) done = left(e.error)
    else if (isSystemError(e)) done = left({ tag: 'FileRefused', kind: 'output', file: e.path ?? '(unnamed)', reason: e.message })
    else throw e
  }
  return isLeft(done) ? fail(out, done.left) : 0
}

/** What the file system says: a full disk, a folder that is not there. */
const isSystemError = (e: unknown): e is NodeJS.ErrnoException =>
  e instanceof Error && typeof (e as NodeJS.ErrnoException).syscall === 'string'

if (require.main === module)
  main(process.argv.slice(2)).then(
    (code) => {
      process.exitCode = code
    },
    (e: unknown) => {
      console.error(e)
      process.exitCode = 1
    },
  )
