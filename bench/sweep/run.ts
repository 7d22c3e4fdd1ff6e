// Every planner × every network of the zoo × two image sizes × ten budgets, planned for a V100 behind PCIe: `npm run sweep [-- NETWORK …]` plans the
// networks named (all by default) into bench/results/sweep.json, each at its end, and checks the file: each plan verified or refused with the
// smallest budget that works; `auto` never above another strategy, and its count below each. Exits 1 after a failed check. `--again STRATEGY` plans
// only that strategy anew, beside the file's others; `--rest` only networks without ten budgets and every strategy of today, to continue a stopped
// sweep.
import { zooNames } from '../../src/zoo'
import { strategies } from '../../staging/planner/strategies'
import { graphOf, machine } from '../lab/steps'
import { autoBeside, type Beside } from './beside'
import { type SweptNetwork, sweptAgain, sweptNetwork } from './network'
import { store, sweptNetworks } from './stored'

const ON = 'v100-pcie-16g'
const BUDGETS = 10
const MOST_ABOVE = 1e-6
const LEAST_BELOW = 0.7

/**
 * Batch, height and width of both sizes; two batches where the classifier's weights admit one size of image only. Batches as
 * networks are trained with: with few images parameters fill the memory, all budgets are nearly one, and values are too small
 * to have pages of their own, so that there is nothing to choose.
 */
type Sizes = readonly (readonly [batch: number, height: number, width: number])[]
const square = (batch: number, ...sides: readonly number[]): Sizes => sides.map((side) => [batch, side, side])

const WIDE: Sizes = [
  [1, 256, 512],
  [1, 512, 1024],
]

const sizesOf = (network: string): Sizes => {
  if (network.endsWith('-cifar')) return square(128, 32, 48)
  if (network.startsWith('inception')) return square(32, 299, 395)
  if (network.includes('-features')) return square(8, 512, 768)
  if (network.startsWith('deeplab') || network === 'unet') return square(8, 256, 512)
  if (network === 'pix2pixhd') return WIDE
  if (network.startsWith('vgg')) return [...square(64, 224), ...square(128, 224)]
  if (network === 'alexnet') return [...square(256, 224), ...square(512, 224)]
  return square(32, 224, 320)
}

const swept = (network: string, again: string | undefined): readonly SweptNetwork[] =>
  sizesOf(network).map((input) => {
    const on = machine(ON)
    const graph = graphOf(network, on, ...input)
    if (!graph) throw new Error(`${network} cannot be built at ${input.join('x')}`)
    const began = performance.now()
    const before = sweptNetworks().find((n) => n.network === network && n.input.join() === input.join())
    if (again && !before) throw new Error(`there is no sweep of ${network} at ${input.join('x')} yet`)
    const one = again && before ? sweptAgain(graph, on, before, again) : sweptNetwork(graph, on, input, BUDGETS)
    console.log(`${network} at ${input.join('x')}: planned in ${((performance.now() - began) / 1000).toFixed(0)} s`)
    return one
  })

/** Returns true if the file has all of a network. */
const isWhole = (network: string): boolean => {
  const stored = sweptNetworks().filter((n) => n.network === network)
  return (
    stored.length === sizesOf(network).length &&
    stored.every((n) => n.asked === BUDGETS && strategies.every((s) => n.strategies[s] !== undefined))
  )
}

const holds = (all: readonly SweptNetwork[]): boolean => {
  const faults = all.flatMap((n) => n.faults.map((f) => `${n.network} ${n.input.join('x')}: ${f}`))
  for (const f of faults) console.log(`FAILS  ${f}`)
  const every = (count: (s: Beside) => number, beside: readonly Beside[]): number => beside.reduce((n, s) => n + count(s), 0)
  const beside = autoBeside(all, MOST_ABOVE)
  for (const b of beside)
    console.log(`${b.strategy}: auto below in ${b.below} of ${b.cases} cases, as fast in ${b.same}, above in ${b.above}`)
  const share = every((b) => b.below, beside) / every((b) => b.cases, beside)
  console.log(`${all.length} networks and sizes; auto below each other strategy in ${(100 * share).toFixed(1)} % of cases`)
  return !faults.length && every((b) => b.above, beside) === 0 && beside.every((b) => b.below >= LEAST_BELOW * b.cases)
}

const main = (): void => {
  const goesOn = process.argv.includes('--rest')
  const [first, second, ...rest] = process.argv.slice(2).filter((a) => a !== '--rest')
  const again = first === '--again' ? second : undefined
  if (again !== undefined && !(strategies as readonly string[]).includes(again))
    throw new Error(`there is no strategy '${again}'`)
  const wanted = again === undefined ? process.argv.slice(2).filter((a) => a !== '--rest') : rest
  const unknown = wanted.find((w) => !zooNames.includes(w))
  if (unknown !== undefined) throw new Error(`there is no network '${unknown}'; allowed: ${zooNames.join(', ')}`)
  for (const network of zooNames) {
    if ((wanted.length && !wanted.includes(network)) || (goesOn && isWhole(network))) continue
    const fresh = swept(network, again)
    store(fresh, ON)
  }
  process.exitCode = holds(sweptNetworks()) ? 0 : 1
}

main()
