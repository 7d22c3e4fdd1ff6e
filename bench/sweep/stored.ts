// The results of sweeps, one file for all networks. In: swept networks. Out: the same, read again; a line a strategy, so that a
// change of a planner shows as a diff.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { zooNames } from '../../src/zoo'
import type { SweptNetwork } from './network'

const FILE = join(__dirname, '../results/sweep.json')

const text = (all: readonly SweptNetwork[], machine: string): string => {
  const rows = (n: SweptNetwork): string =>
    Object.entries(n.strategies)
      .map(([s, of]) => `   ${JSON.stringify(s)}: ${JSON.stringify(of)}`)
      .join(',\n')
  const one = ({ strategies: _, faults, ...n }: SweptNetwork, i: number): string =>
    `  {\n   "case": ${JSON.stringify(n)},\n   "faults": ${JSON.stringify(faults)},\n   "strategies": {\n${rows(all[i]!)}\n   }\n  }`
  return `{\n "machine": "${machine}",\n "networks": [\n${all.map(one).join(',\n')}\n ]\n}\n`
}

interface Stored {
  readonly case: Omit<SweptNetwork, 'strategies' | 'faults'>
  readonly faults: readonly string[]
  readonly strategies: SweptNetwork['strategies']
}

export const sweptNetworks = (): readonly SweptNetwork[] => {
  if (!existsSync(FILE)) return []
  const { networks } = JSON.parse(readFileSync(FILE, 'utf8')) as { readonly networks: readonly Stored[] }
  return networks.map((n) => ({ ...n.case, faults: n.faults, strategies: n.strategies }))
}

/** Replaces the earlier entries of these networks. */
export const store = (fresh: readonly SweptNetwork[], machine: string): void => {
  const names = new Set(fresh.map((n) => n.network))
  const order = (n: SweptNetwork): number => zooNames.indexOf(n.network)
  const all = [...sweptNetworks().filter((n) => !names.has(n.network)), ...fresh]
  mkdirSync(join(FILE, '..'), { recursive: true })
  writeFileSync(
    FILE,
    text(
      all.sort((a, b) => order(a) - order(b)),
      machine,
    ),
  )
}
