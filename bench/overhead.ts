// `npm run bench -- cpu --suite overhead`: the cost of a call beside its arithmetic: a chain of tiny convolutions and rectifiers on 8x8 images, about
// a thousand calls a step, trained on `cpu` by one thread. In: maybe a FOLDER with another checkout, in turns with this one. Out: microseconds a call
// (the median of a process's steps, by process) and bench/results/overhead.json. Invariant: both sides run this very file in processes of their own;
// warm-up steps do not count.
import { conv2d, type Model, model, type Net, relu, seq, stage, train } from '../src'
import { begin, inTurns, median, record } from './sides'

const SIDE = 8
const LAYERS = 200
const STEPS = 120
const WARM_UP = 20
const PROCESSES = 7

interface Answer {
  readonly calls: number
  readonly microsecondsPerCall: number
}

/** In a process of its own. */
const once = async (): Promise<Answer> => {
  let net: Net = seq(conv2d('c0', SIDE, 1), relu())
  for (let i = 1; i < LAYERS; i++) net = seq(net, conv2d(`c${i}`, SIDE, 1), relu()) as Net
  const chain = (model as (shape: readonly number[], net: Net) => Model)([1, SIDE, SIDE, SIDE], net)
  const staged = stage(chain, { strategy: 'in-core', algorithms: 'fixed' })
  const seconds: number[] = []
  await train(chain, staged, {
    steps: STEPS,
    threads: 1,
    onProgress: (p) => {
      if (p.kind === 'step') seconds.push(p.seconds)
    },
  })
  const calls = staged.plan.calls.length
  return { calls, microsecondsPerCall: (median(seconds.slice(WARM_UP)) / calls) * 1e6 }
}

const main = (): void => {
  const sides = inTurns<Answer>(__filename, process.argv[2], PROCESSES).map(({ side, answers }) => {
    const each = answers.map((a) => a.microsecondsPerCall)
    const row = {
      side,
      calls: answers[0]!.calls,
      microsecondsPerCall: median(each),
      least: Math.min(...each),
      most: Math.max(...each),
    }
    const range = `(${row.least.toFixed(2)} to ${row.most.toFixed(2)})`
    console.log(`${side.padEnd(7)} ${row.calls} calls: ${row.microsecondsPerCall.toFixed(2)} us a call ${range}`)
    return row
  })
  record('overhead', { processes: PROCESSES, stepsOfEach: STEPS - WARM_UP, sides })
}

void begin(main, once)
