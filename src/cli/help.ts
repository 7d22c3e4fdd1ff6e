// The help of the commands. In: a command with its options. Out: the same, its options in groups by subject, and examples below them.
// Invariant: each flag has one group, in every command.
import type { Command, Option } from 'commander'
import type { CommandName } from './commands'

/** The groups in the order of the help. Flags without a group come last, under "Options:". */
export const GROUPS: Readonly<Record<string, readonly string[]>> = {
  'Model:': [
    '--template',
    '--image',
    '--batch',
    '--classes',
    '--output',
    '--net',
    '--weights',
    '--weights-skip',
    '--weights-strip',
  ],
  'Data:': [
    '--data',
    '--strict-data',
    '--skip-damaged',
    '--fit',
    '--layout',
    '--mean',
    '--std',
    '--depth',
    '--level',
    '--microns',
    '--tile-size',
    '--tissue',
    '--blocks',
    '--canvas',
    '--bags',
    '--augment',
    '--shuffle',
    '--no-shuffle',
    '--images',
    '--balance-classes',
    '--samples',
    '--seed',
    '--workers',
  ],
  'Search:': ['--rates', '--from', '--to'],
  'Training:': [
    '--steps',
    '--epochs',
    '--trial',
    '--overfit',
    '--plan',
    '--schedule',
    '--warmup',
    '--time-limit',
    '--on-nonfinite',
  ],
  'Loss:': ['--loss', '--class-weights', '--ignore-index', '--label-smoothing', '--delta', '--balance', '--gamma', '--smooth'],
  'Optimizer:': [
    ...[
      '--optimizer',
      '--lr',
      '--momentum',
      '--weight-decay',
      '--nesterov',
      '--beta1',
      '--beta2',
      '--eps',
      '--alpha',
      '--centered',
      '--momentum-decay',
      '--decoupled',
    ],
    ...['--clip-value', '--clip-norm', '--accumulate', '--average', '--layer-decay', '--freeze'],
  ],
  'Evaluation:': [
    ...[
      '--evaluate',
      '--evaluate-images',
      '--evaluate-every',
      '--evaluate-average',
      '--metrics',
      '--keep-best',
      '--patience',
      '--save-best',
    ],
  ],
  'Checkpoints:': ['--checkpoint-dir', '--checkpoint-every', '--keep-last', '--resume', '--resume-ranks'],
  'Memory:': [
    ...[
      '--budget',
      '--budgets',
      '--in',
      '--up-to',
      '--strategy',
      '--strategies',
      '--effort',
      '--host-memory',
      '--spill',
      '--spill-writes-per-step',
    ],
    ...['--throttle', '--allocator', '--allocators'],
  ],
  'Device:': ['--device', '--machine', '--precision', '--threads', '--algorithms', '--measure', '--mode'],
  'Processes:': ['--engine', '--ranks', '--bands', '--norms', '--shard', '--network'],
  'Output:': [
    ...[
      '--out',
      '--format',
      '--as',
      '--run',
      '--save',
      '--no-save',
      '--emit',
      '--report',
      '--trace',
      '--explain',
      '--log',
      '--tensorboard',
      '--csv',
      '--plot',
    ],
    '--external-data',
    '--list-unsupported',
    '--dry-run',
  ],
  'Configuration:': ['--config', '--no-config'],
}

export const EXAMPLES: Readonly<Record<CommandName, readonly string[]>> = {
  new: ['spillway new my-project', 'spillway new cells --template segment'],
  models: ['spillway models'],
  plan: [
    'spillway plan resnet18 --image 224 --batch 8 --budget 300MiB',
    'spillway plan vgg16 --image 448 --batch 8 --budget 2GiB --machine v100-pcie-16g',
    'spillway plan my-net.ts --budget 1GiB --report plan.html',
    'spillway plan resnet18 --image 224 --batch 16 --budget 200MiB --explain layer1.0.conv1',
  ],
  fits: [
    'spillway fits resnet50 --in 11GiB --machine v100-pcie-16g',
    'spillway fits resnet18 --image 224 --batch 16 --in 300MiB',
  ],
  train: [
    'spillway train resnet18 --image 96 --batch 4 --steps 5 --budget 300MiB',
    'spillway train resnet18 --data images/train --epochs 10 --save net.safetensors',
    'spillway train my-net.ts --data images --epochs 20 --checkpoint-dir run --resume',
  ],
  'lr-find': [
    'spillway lr-find resnet18 --data images/train --batch 16',
    'spillway lr-find my-net.ts --data images --optimizer adamw --from 1e-6 --to 1 --out rates.csv',
  ],
  runs: ['spillway runs', 'spillway runs resnet18-2 --json'],
  'compare-runs': ['spillway compare-runs resnet18 resnet18-2 --report compared.html'],
  evaluate: ['spillway evaluate --weights net.safetensors --data images/val --metrics accuracy'],
  predict: [
    'spillway predict --weights net.safetensors --data photos --out results.csv',
    'spillway predict my-net.ts --weights net.safetensors --data photo.png --out masks --as classes --format png',
  ],
  view: ['spillway view slide.svs --out viewer', 'spillway view slide.svs masks/slide.tif --level 1 --out viewer'],
  check: ['spillway check my-net.ts', 'spillway check my-net.ts --image 512 --batch 8 --budget 1GiB'],
  verify: ['spillway plan resnet18 --budget 300MiB --save plan.json', 'spillway verify plan.json'],
  compare: ['spillway compare resnet18 --image 224 --batch 8 --machine v100-pcie-16g --csv compare.csv --plot compare.svg'],
  export: ['spillway export --weights net.safetensors --out net.onnx'],
  import: ['spillway import net.onnx --out my-net.ts', 'spillway import net.pt2 --list-unsupported'],
  setup: ['spillway setup cuda --dry-run', 'spillway setup cuda'],
  doctor: ['spillway doctor'],
  completion: ['spillway completion bash > ~/.local/share/bash-completion/completions/spillway'],
}

const PLACES = new Map(
  Object.entries(GROUPS).flatMap(([title, flags], group) =>
    flags.map((flag, i) => [flag, { title, at: 100 * group + i }] as const),
  ),
)
const placeOf = (o: Option): number => PLACES.get(o.long ?? '')?.at ?? Number.POSITIVE_INFINITY

/** Groups the options of a command, and adds its examples. */
export const described = (c: Command, name: CommandName): Command => {
  for (const o of c.options) {
    const place = PLACES.get(o.long ?? '')
    if (place) o.helpGroup(place.title)
  }
  // Commander prints groups and options in the order of this array.
  const options = c.options as Option[]
  options.sort((a, b) => placeOf(a) - placeOf(b))
  return c.addHelpText('after', `\nExamples:\n${EXAMPLES[name].map((line) => `  ${line}`).join('\n')}`)
}
