// The promises of the planners and their results, for the page. In: the results of `npm run acceptance`, in its simulated sections, and of `npm run
// sweep`, as they are committed. Out: a table of claims, `auto` beside every other strategy, and the reasons of missed claims.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { zooNames } from '../../src/zoo'
import type { Claim } from '../acceptance/claims'
import { autoBeside } from '../sweep/beside'
import { sweptNetworks } from '../sweep/stored'
import type { Section } from './page'
import { type Experiment, part } from './part'

const RESULTS = join(__dirname, '../results')

const claimsOf = (section: string): readonly Claim[] => {
  const file = join(RESULTS, `acceptance-${section}.json`)
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { readonly claims: readonly Claim[] }).claims : []
}

/** The figures that fit a cell. */
const shown = (figures: Claim['figures']): string =>
  Object.entries(figures)
    .flatMap(([name, value]): readonly string[] => {
      if (typeof value === 'number' || typeof value === 'boolean') return [`${name} ${value}`]
      if (name !== 'auto' && !name.includes(':') && name !== 'tiled') return []
      const { ratio } = value as { readonly ratio?: number | null }
      return [`${name} ${ratio ?? 'does not fit'}`]
    })
    .join(', ')

const claims = (section: string, heading: string): Section => ({
  heading,
  words: [`\`npm run acceptance -- ${section}\`, \`bench/results/acceptance-${section}.json\`.`],
  table: {
    head: ['claim', 'holds', 'figures'],
    rows: claimsOf(section).map((c) => [c.what, c.holds ? 'yes' : '**no**', shown(c.figures)]),
  },
})

const LIMITS = [
  '**vgg16 at a third** is claimed for batch 64. At batch 32, parameters and momenta (1056 MiB) exceed a third of its in-core memory (880 MiB). `auto` then keeps them in the lower tier, and takes 1.12 times its compute.',
  '**The bound is not reachable where its two terms cross.** Excess values at the turn are swapped out during the forward pass, which is a third of the compute C, and swapped in after it. Let F and B be the passes, and T half of the transfers. Then a step takes at least max(F, T) + max(B, T). At the crossing (T = C/2, F = C/3), this is 7/6 of the bound. The worst ratios of `swap:dynprog` and `swap:fractional`, 1.19, are there. With whole activations, the ratio would be up to 1.24: resnet18’s first activation is an eighth of all, and the link is idle until it is complete. So activations above a 32nd of all are swapped in parts.',
]

const sweep = (): Section => {
  const all = sweptNetworks()
  const beside = autoBeside(all, 1e-6)
  const networks = new Set(all.map((n) => n.network)).size
  const plans = all.reduce((n, s) => n + Object.values(s.strategies).flatMap((x) => x.ratios).length, 0)
  const faults = all.reduce((n, s) => n + s.faults.length, 0)
  return {
    heading: 'Every planner, every network',
    words: [
      `\`npm run sweep\`, \`bench/results/sweep.json\`: ${networks} of ${zooNames.length} networks at two sizes each, up to ${Math.max(...all.map((n) => n.budgetsMiB.length))} budgets, ${plans} cases. Faults (a plan that is not verified, a budget that is exceeded, a wrong smallest budget): ${faults}.`,
      'The number of cases where `auto` takes less time than another strategy (or is the only one with a plan), the same, and more.',
    ],
    table: {
      head: ['strategy', 'cases', 'auto below', 'the same', 'above'],
      rows: beside.map((b) => [
        `\`${b.strategy}\``,
        b.cases,
        `${b.below} (${((100 * b.below) / b.cases).toFixed(0)} %)`,
        b.same,
        b.above,
      ]),
    },
  }
}

const sections = (): readonly Section[] => [
  claims('thirds', 'A third of in-core'),
  claims('bounds', 'The bound of paper 5'),
  claims('pages', 'Pages'),
  claims('times', 'Planning times'),
  { heading: 'Limits', words: LIMITS },
  ...(claimsOf('bits').length ? [claims('bits', 'The bits of in-core')] : []),
  ...(sweptNetworks().length ? [sweep()] : []),
]

/** Its results are those of other commands; nothing is stored here. */
export const bars: Experiment = {
  title: 'Claims of the planners',
  words: ['These results are of `npm run acceptance` and `npm run sweep`, each from the state in which it ran.'],
  parts: [part('claims', () => 'bench/results', sections)],
}
