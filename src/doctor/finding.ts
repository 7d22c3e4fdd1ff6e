// One finding of the doctor: its subject, its result, and its cure. ok: as it should be; missing: training on the CPU device needs it; optional: nice
// to have; note: good to know.

export type State = 'ok' | 'missing' | 'optional' | 'note'

export interface Finding {
  readonly area: 'machine' | 'memory' | 'disk' | 'native' | 'cuda' | 'ranks'
  readonly name: string
  readonly state: State
  readonly value: string
  /** The cure, as a command if there is one. */
  readonly fix?: string
}

type Area = Finding['area']

export const ok = (area: Area, name: string, value: string): Finding => ({ area, name, state: 'ok', value })
export const note = (area: Area, name: string, value: string, fix?: string): Finding => ({
  area,
  name,
  state: 'note',
  value,
  ...(fix === undefined ? {} : { fix }),
})
export const missing = (area: Area, name: string, value: string, fix: string): Finding => ({
  area,
  name,
  state: 'missing',
  value,
  fix,
})
export const optional = (area: Area, name: string, value: string, fix: string): Finding => ({
  area,
  name,
  state: 'optional',
  value,
  fix,
})
