// `npm run bench -- cpu --suite frozen`: the cost of a step with frozen parameters. In: ResNet-50, 8 images of 224 x 224, in-core, trained whole and
// with the classifier alone. Out: seconds and processors' seconds of a step, held bytes, an optimizer's bytes; bench/results/frozen.json. Invariant:
// both sides train in this process, in turns, the same images; the first steps of each turn do not count.
import { resnet50 } from '../models/resnet'
import { crossEntropy, model, PAGE_BYTES, sgd, source, stage, train } from '../src'
import { begin, median, processorSeconds, record } from './sides'
import { argumentsOf, BENCHES } from './table'

const SHAPE = [8, 3, 224, 224] as const
const PIXELS = SHAPE[1] * SHAPE[2] * SHAPE[3]
const CLASSES = 1000
const WARM_UP = 2
const STEPS = 4
const GOAL = 0.45

const net = model(SHAPE, resnet50)
const images = Array.from({ length: SHAPE[0] }, (_, i) =>
  Float32Array.from({ length: PIXELS }, (_, p) => (Math.imul(p + i * PIXELS, 0x9e3779b9) >>> 8) / 2 ** 24),
)
const data = source({ length: images.length, read: (i) => ({ input: images[i]!, target: (i * 97) % CLASSES }) })

const sides = {
  whole: stage(net, { loss: crossEntropy, optimizer: sgd({ lr: 0.01, momentum: 0.9 }), strategy: 'in-core' }),
  classifier: stage(net, {
    loss: crossEntropy,
    optimizer: sgd({ lr: 0.01, momentum: 0.9 }),
    strategy: 'in-core',
    groups: [{ match: 'fc.*' }, { match: '*', frozen: true }],
  }),
} as const
type Side = keyof typeof sides
const SIDES = Object.keys(sides) as Side[]

interface Taken {
  readonly seconds: number
  readonly processorSeconds: number
}

const taken = async (side: Side): Promise<Taken> => {
  const seconds: number[] = []
  const spent: number[] = []
  await train(net, sides[side], {
    data,
    steps: WARM_UP + STEPS,
    onProgress: (p) => {
      if (p.kind !== 'step') return
      seconds.push(p.seconds)
      spent.push(processorSeconds())
    },
  })
  return { seconds: median(seconds.slice(WARM_UP)), processorSeconds: (spent.at(-1)! - spent[WARM_UP - 1]!) / STEPS }
}

/** Momenta: averages of norms are no optimizer's. */
const optimizerBytes = (side: Side): number =>
  sides[side].plan.graph.values
    .filter((v) => v.role === 'state' && !v.name.includes('.running_'))
    .reduce((n, v) => n + 4 * v.shape.reduce((m, d) => m * d, 1), 0)

const main = async (): Promise<void> => {
  const { given } = argumentsOf(BENCHES.cpu.frozen)
  const answers: Record<Side, Taken[]> = { whole: [], classifier: [] }
  for (let round = 0; round < Number(given.rounds); round++) for (const side of SIDES) answers[side].push(await taken(side))
  const ratio = (of: keyof Taken): number => median(answers.whole.map((w, i) => answers.classifier[i]![of] / w[of]))
  const rows = SIDES.map((side) => ({
    trained: side,
    secondsPerStep: median(answers[side].map((t) => t.seconds)),
    processorSecondsPerStep: median(answers[side].map((t) => t.processorSeconds)),
    plannedSecondsPerStep: sides[side].timeline.makespanSeconds,
    peakBytes: sides[side].plan.peakPages * PAGE_BYTES,
    optimizerBytes: optimizerBytes(side),
  }))
  const found = { ratio: ratio('seconds'), ratioOfProcessors: ratio('processorSeconds') }
  console.log(
    `a step of the classifier alone takes ${found.ratio.toFixed(3)} of the whole's, by processors' time ` +
      `${found.ratioOfProcessors.toFixed(3)} (${GOAL} is the goal); it holds ${(rows[1]!.peakBytes / 2 ** 20).toFixed(0)} MiB ` +
      `for ${(rows[0]!.peakBytes / 2 ** 20).toFixed(0)}`,
  )
  record('frozen', { network: `resnet50 b${SHAPE[0]}@${SHAPE[2]}`, rounds: Number(given.rounds), goal: GOAL, ...found, rows })
}

void begin(main)
