// The explanation of a plan as text. In: an explanation, and perhaps the name of a value or a layer. Out: lines; or an error if nothing has
// that name. A price is a difference of the step's seconds in the search's model.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { Alternative, ExplainedLoop, ExplainedValue, Explanation } from '../../staging/search/explain'
import { type SpillwayError, unknownName } from '../errors/errors'
import { plural, showSeconds, showSize } from './format'

/** Values and loops that are shown without a name. */
const SHOWN = 10
/** A larger difference between model and simulation makes prices rough. */
const ROUGH = 0.1

/** '+1.2 ms', '−80 µs' or '±0 s'. */
export const showPrice = (seconds: number): string =>
  `${seconds > 0 ? '+' : seconds < 0 ? '−' : '±'}${showSeconds(Math.abs(seconds))}`

const alternativeLines = (alternatives: readonly Alternative[]): readonly string[] =>
  alternatives.length === 0
    ? ['    no alternative']
    : alternatives.map(({ change, seconds }) => `    ${showPrice(seconds).padStart(10)}  ${change}`)

const valueLines = (v: ExplainedValue): readonly string[] => [
  `  ${v.name}, ${showSize(v.bytes)}: ${v.decision}`,
  `    binding: ${v.binding}`,
  ...alternativeLines(v.alternatives),
]

const loopLines = (l: ExplainedLoop): readonly string[] => [
  `  ${l.name}: ${plural(l.tiles, 'tile')}, ${showSeconds(l.seconds)}, waits ${showSeconds(l.waitSeconds)}`,
  ...(l.recomputes.length > 0 ? [`    recomputes ${l.recomputes.join(', ')}`] : []),
  `    binding: ${l.binding}`,
  ...alternativeLines(l.alternatives),
]

/** The loops that wait longest or recompute most come first. */
const byCost = (a: ExplainedLoop, b: ExplainedLoop): number =>
  b.waitSeconds - a.waitSeconds || b.recomputes.length - a.recomputes.length

export const NOT_EXPLAINED =
  "--explain: the loops of this plan are not those of the search, so alternatives have no prices; plan with the strategy 'auto', for training"

export const explanationText = (e: Explanation, name?: string): Either<SpillwayError, string> => {
  const rough =
    Math.abs(e.seconds / e.simulatedSeconds - 1) > ROUGH
      ? ` The simulation says ${showSeconds(e.simulatedSeconds)}, so prices are rough.`
      : ''
  const prices = `Prices are seconds of the step, more or less than now, by the model of the search (${showSeconds(e.seconds)}).${rough}`
  if (name === undefined) {
    const [values, loops] = [e.values.slice(0, SHOWN), [...e.loops].sort(byCost).slice(0, SHOWN)]
    return E.right(
      [
        '',
        `The largest values, ${values.length} of ${e.values.length}. ${prices}`,
        ...values.flatMap(valueLines),
        '',
        `The loops with the longest waits, ${loops.length} of ${e.loops.length}:`,
        ...loops.flatMap(loopLines),
      ].join('\n'),
    )
  }
  const values = e.values.filter((v) => v.name === name || v.layer === name)
  const loops = e.loops.filter((l) => l.layers.includes(name))
  if (values.length + loops.length > 0)
    return E.right(['', `${name}. ${prices}`, ...values.flatMap(valueLines), ...loops.flatMap(loopLines)].join('\n'))
  const known = [...new Set([...e.loops.flatMap((l) => l.layers), ...e.values.map((v) => v.name)])]
  return E.left(unknownName('value or layer', name, known))
}
