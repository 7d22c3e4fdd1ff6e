// A comparison as a table. In: a comparison. Out: CSV, a row a case; sizes are in bytes, times in seconds, absent values are empty.
import type { Case, Comparison, FeasibleCase } from '../../stage/sweep'

const COLUMNS: readonly (readonly [title: string, of: (c: FeasibleCase) => string | number | undefined])[] = [
  ['chosen', (c) => c.chosen],
  ['peakBytes', (c) => c.peakBytes],
  ['makespanSeconds', (c) => c.makespanSeconds],
  ['inCoreSeconds', (c) => c.inCoreSeconds],
  ['boundSeconds', (c) => c.boundSeconds ?? undefined],
  ['gap', (c) => c.gap ?? undefined],
  ['swapBoundSeconds', (c) => c.swapBoundSeconds],
  ['recomputeSeconds', (c) => c.recomputeSeconds],
  ['haloRatio', (c) => c.haloRatio],
  ['bytesOut', (c) => c.bytesOut],
  ['bytesIn', (c) => c.bytesIn],
  ['planningSeconds', (c) => c.planningSeconds],
  ['meanUnusable', (c) => c.meanUnusable],
]

const rowOf = (c: Case): string =>
  [
    c.strategy,
    c.allocator,
    c.budgetBytes,
    c.feasible,
    c.feasible ? '' : (c.smallestBytes ?? ''),
    ...COLUMNS.map(([, of]) => (c.feasible ? (of(c) ?? '') : '')),
  ].join(',')

export const comparisonCsv = ({ cases }: Comparison): string =>
  [
    ['strategy', 'allocator', 'budgetBytes', 'feasible', 'smallestBytes', ...COLUMNS.map(([title]) => title)].join(','),
    ...cases.map(rowOf),
    '',
  ].join('\n')
