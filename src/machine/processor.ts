// The name of this processor. In: /proc/cpuinfo, whose words differ from one kind of processor to the next. Out: a name, for people and for records
// of the basis of times and bits.
import { readFileSync } from 'node:fs'
import { attempt } from '../errors/exceptions'

/** A processor of arm64 has no name there, only its maker's number and the maker's number for it. */
export const processorNamed = (cpuinfo: string): string => {
  const named = (field: string): string | undefined => new RegExp(`^${field}\\s*:\\s*(.+)$`, 'm').exec(cpuinfo)?.[1]
  const part = named('CPU part')
  return named('model name') ?? (part ? `arm64 processor ${part} of maker ${named('CPU implementer')}` : 'unknown processor')
}

export const thisProcessor = (): string => processorNamed(attempt(() => readFileSync('/proc/cpuinfo', 'utf8')) ?? '')
