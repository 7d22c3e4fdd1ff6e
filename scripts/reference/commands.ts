// docs/reference/options.md and cli.md: the options of all commands, and the commands. In: the commands as they are declared (src/cli).
// Out: the pages. Invariant: flags, texts and defaults are those of the help; an option without a subject is listed under "Other".
import { Command, type Option } from 'commander'
import { type CommandName, COMMANDS } from '../../src/cli/commands'
import { declare } from '../../src/cli/flags'
import { code, fenced, generatedNote, plain, slug, splitDefault, table } from './markdown'

/** Subjects in order, with the flags that belong to them. A help group of the command line counts more. */
const SUBJECTS: readonly (readonly [title: string, flags: readonly string[]])[] = [
  ['Model and input', ['image', 'batch', 'classes', 'net', 'mode', 'as']],
  [
    'Memory and planning',
    [
      'budget',
      'budgets',
      'strategy',
      'strategies',
      'allocator',
      'allocators',
      'plan',
      'spill',
      'host-memory',
      'spill-writes-per-step',
    ],
  ],
  ['Device', ['device', 'machine', 'threads', 'precision', 'algorithms', 'measure', 'throttle']],
  ['Loss', ['loss', 'delta', 'balance', 'gamma', 'ignore-index', 'class-weights', 'label-smoothing', 'smooth']],
  [
    'Optimizer and updates',
    [
      'optimizer',
      'lr',
      'momentum',
      'weight-decay',
      'nesterov',
      'beta1',
      'beta2',
      'alpha',
      'eps',
      'centered',
      'freeze',
      'clip-value',
      'clip-norm',
      'accumulate',
      'average',
      'schedule',
      'warmup',
    ],
  ],
  ['Length', ['steps', 'epochs', 'time-limit', 'patience', 'on-nonfinite']],
  ['Data', ['data', 'images', 'fit', 'layout', 'augment', 'workers', 'shuffle', 'balance-classes', 'samples', 'seed']],
  ['Weights', ['weights', 'weights-skip', 'weights-strip']],
  ['Evaluation', ['evaluate', 'evaluate-every', 'evaluate-average', 'metrics']],
  ['Checkpoints', ['checkpoint-dir', 'checkpoint-every', 'keep-best', 'keep-last', 'resume', 'resume-ranks']],
  ['Several processes', ['engine', 'ranks', 'bands', 'network', 'norms', 'shard']],
  [
    'Output',
    [
      'out',
      'format',
      'run',
      'save',
      'save-best',
      'emit',
      'report',
      'trace',
      'log',
      'tensorboard',
      'csv',
      'plot',
      'external-data',
      'json',
    ],
  ],
]
const OTHER = 'Other'

/** One command line for each command, in the order of the help. */
const EXAMPLES: Readonly<Record<CommandName, string>> = {
  new: 'spillway new my-project --template segment',
  models: 'spillway models',
  plan: 'spillway plan resnet50 --image 1024 --budget 2GiB --report plan.html',
  fits: 'spillway fits resnet50 --in 11GiB --machine v100-pcie-16g',
  train: 'spillway train resnet18 --data photos/train --epochs 10 --save weights.safetensors',
  'lr-find': 'spillway lr-find resnet18 --data photos/train --batch 16',
  runs: 'spillway runs',
  'compare-runs': 'spillway compare-runs resnet18 resnet18-2 --report compared.html',
  evaluate: 'spillway evaluate --weights weights.safetensors --data photos/val --metrics accuracy',
  predict: 'spillway predict --weights weights.safetensors --data photos/new --out results.csv',
  view: 'spillway view slide.svs masks/slide.tif --out viewer',
  check: 'spillway check my-net.ts --budget 512MiB',
  verify: 'spillway verify plan.json',
  compare: 'spillway compare vgg16 --image 512 --machine v100-pcie-16g --budgets 4 --plot compare.svg',
  export: 'spillway export my-net.ts --weights weights.safetensors --out my-net.onnx',
  import: 'spillway import model.onnx --out my-net.ts',
  setup: 'spillway setup cuda',
  doctor: 'spillway doctor',
  completion: 'spillway completion bash',
}

const NAMES = Object.keys(COMMANDS) as readonly CommandName[]
const commandOf = (name: CommandName): Command =>
  declare(
    new Command(name)
      .description(COMMANDS[name])
      .exitOverride()
      .configureOutput({ writeErr: () => {} }),
    name,
    () => Promise.resolve(),
  )

const longOf = (o: Option): string => (o.long ?? o.short ?? '').replace(/^--/, '')
const subjectOf = (o: Option): string =>
  o.helpGroupHeading?.replace(/:$/, '') ?? SUBJECTS.find(([, flags]) => flags.includes(longOf(o)))?.[0] ?? OTHER
const argumentOf = (o: Option): string => o.flags.replace(/^.*?--[\w-]+\s*/, '')

/** The flag with its texts, each with the commands that give it. */
interface Listed {
  readonly flag: string
  readonly subject: string
  readonly texts: Map<string, { readonly option: Option; readonly commands: CommandName[] }>
}
const listedOf = (commands: readonly Command[]): readonly Listed[] => {
  const all = new Map<string, Listed>()
  for (const c of commands)
    for (const option of c.options) {
      const flag = longOf(option)
      const listed = all.get(flag) ?? { flag, subject: subjectOf(option), texts: new Map() }
      all.set(flag, listed)
      const known = listed.texts.get(option.description) ?? { option, commands: [] }
      listed.texts.set(option.description, known)
      known.commands.push(c.name() as CommandName)
    }
  return [...all.values()]
}

/** Subjects that have an option: those of the table in its order, then those of help groups. */
const subjectsOf = (listed: readonly Listed[]): readonly string[] => {
  const order = [...SUBJECTS.map(([title]) => title), ...listed.map((l) => l.subject).filter((s) => s !== OTHER), OTHER]
  return [...new Set(order)].filter((s) => listed.some((l) => l.subject === s))
}

const commandLink = (name: CommandName): string => `[${name}](cli.md#${name})`
const flagLink = (flag: string): string => `[${code(`--${flag}`)}](options.md#option-${flag})`

const rowsOf = ({ flag, texts }: Listed): readonly (readonly string[])[] =>
  [...texts.values()].map(({ option, commands }, i) => {
    const [text, usual] = splitDefault(option.description)
    const given = option.defaultValue === undefined ? usual : String(option.defaultValue)
    const anchor = i === 0 ? `<a id="option-${flag}"></a>` : ''
    const argument = argumentOf(option)
    return [
      `${anchor}${code(`--${flag}${argument === '' ? '' : ` ${argument}`}`)}`,
      plain(text),
      plain(given),
      commands.length === NAMES.length ? 'all' : commands.map(commandLink).join(', '),
    ]
  })

export const optionsPage = (): string => {
  const listed = listedOf(NAMES.map(commandOf))
  const part = (subject: string): string =>
    `## ${subject}\n\n${table(
      ['option', 'meaning', 'default', 'commands'],
      listed.filter((l) => l.subject === subject).flatMap(rowsOf),
    )}`
  return `${generatedNote('the commands (src/cli/flags.ts, own.ts)')}
# Options

Every option of every command, by subject. [Commands](cli.md) lists them by command. Sizes are bytes or have a unit: \`512MiB\`, \`2GiB\`.
An empty default means that the option has none.

${subjectsOf(listed).map(part).join('\n\n')}
`
}

// ---------------------------------------------------------------- commands

const commandSection = (c: Command): string => {
  const name = c.name() as CommandName
  const example = EXAMPLES[name]
  refuseBad(example)
  const usage = `spillway ${c.createHelp().commandUsage(c).trim()}`
  const listed = listedOf([c])
  const own = listed.filter((l) => l.flag !== 'json')
  return [
    `## ${name}`,
    plain(sentence(c.description())),
    fenced('sh', usage),
    c.registeredArguments.length === 0
      ? ''
      : table(
          ['argument', 'meaning'],
          c.registeredArguments.map((a) => [code(`<${a.name()}>`), plain(a.description)]),
        ),
    own.length === 0
      ? ''
      : table(
          ['subject', 'options'],
          subjectsOf(own).map((subject) => [
            `[${subject}](options.md#${slug(subject)})`,
            own
              .filter((l) => l.subject === subject)
              .map((l) => flagLink(l.flag))
              .join(' '),
          ]),
        ),
    `Example:\n\n${fenced('sh', `npx ${example}`)}`,
  ]
    .filter((text) => text !== '')
    .join('\n\n')
}

const sentence = (text: string): string => `${text[0]!.toUpperCase()}${text.slice(1)}${/[.!]$/.test(text) ? '' : '.'}`

/** Throws if the command line refuses the example. */
const refuseBad = (example: string): void => {
  const [, name, ...rest] = example.split(' ')
  commandOf(name as CommandName).parse(rest, { from: 'user' })
}

export const cliPage = (): string => `${generatedNote('the commands (src/cli)')}
# Commands

\`npx spillway COMMAND\` runs a command; \`npx spillway COMMAND --help\` prints its options. [Options](options.md) explains each of them.
With \`--json\`, every command prints one JSON object on stdout and everything else on stderr. A
[configuration file](../configuration.md) gives options that the command line does not give.

${table(
  ['command', 'purpose'],
  NAMES.map((name) => [`[${name}](#${name})`, plain(COMMANDS[name])]),
)}

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | any other failure |
| 2 | the call is wrong |
| 3 | no plan fits the budget |
| 4 | a loss that is not finite |
| 5 | the checkpoint folder is locked or belongs to another run |
| 75 | stopped early with everything saved; \`--resume\` continues |
| 128 + n | ended by signal n |

${NAMES.map((name) => commandSection(commandOf(name))).join('\n\n')}
`
