// The names that options take, for help and completion. In: a flag. Out: its possible values. Invariant: every list is the one that checks the option
// itself.
import { DEVICES } from '../../staging/devices'
import { ALLOCATORS } from '../../staging/memory/allocators/replay'
import { lossNames } from '../../staging/ops/losses'
import { optimizerNames } from '../../staging/ops/optimizer'
import { strategies } from '../../staging/planner/strategies'
import { machineNames } from '../machine/machine'
import { METRICS } from '../predict/metricnames'
import { scheduleNames } from '../train/schedules'
import { zooNames } from '../zoo'
import { ALGORITHMS, MEASURING, PRECISIONS } from '../machine/localmachine'
import { SHELLS } from './completion'
import { PARTS } from './options'

const VALUES: Readonly<Record<string, () => readonly string[]>> = {
  '<model>': () => zooNames,
  '<shell>': () => SHELLS,
  '<part>': () => PARTS,
  '--machine': machineNames,
  '--device': () => DEVICES,
  '--strategy': () => strategies,
  '--strategies': () => strategies,
  '--allocator': () => ALLOCATORS,
  '--allocators': () => ALLOCATORS,
  '--algorithms': () => ALGORITHMS,
  '--measure': () => MEASURING,
  '--precision': () => PRECISIONS,
  '--loss': () => lossNames,
  '--optimizer': () => optimizerNames,
  '--schedule': () => scheduleNames,
  '--keep-best': () => ['loss', ...METRICS],
  '--metrics': () => METRICS,
}

/** The values of a flag, or of an argument in angle brackets; none if anything may follow. */
export const valuesOf = (of: string): readonly string[] => VALUES[of]?.() ?? []

/** As many on a line as fit, below a title. */
const listText = (title: string, all: readonly string[], width = 100): string =>
  all.reduce((text, name) => {
    const line = `${text.slice(text.lastIndexOf('\n') + 1)}, ${name}`
    return text === `${title}\n  ` ? `${text}${name}` : line.length <= width ? `${text}, ${name}` : `${text},\n  ${name}`
  }, `${title}\n  `)

export const listsText = (): string =>
  ['', listText('Strategies:', strategies), '', listText('Machines:', machineNames())].join('\n')
