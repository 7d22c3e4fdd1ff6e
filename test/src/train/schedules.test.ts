// Learning rates beside those of PyTorch's schedulers (test/fixtures/make_schedules.py), to the rounding of doubles; refusals; and the ends of
// epochs.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText } from '../../../src/errors/errors'
import { epochEnd, epochsAt, lengthOf } from '../../../src/train/length'
import { checkedOptions } from '../../../src/train/options'
import { reductionsOf } from '../../../src/train/plateau'
import {
  constant,
  cosine,
  oneCycle,
  type PlateauOptions,
  plateau,
  polynomial,
  rateFactor,
  ratesOfSteps,
  type Schedule,
  scheduleNamed,
  scheduleNames,
  scheduleText,
  stepped,
} from '../../../src/train/schedules'

interface Case {
  readonly kind: Schedule['kind']
  readonly options: object
  readonly warmup: number
  readonly rates: readonly number[]
}
interface PlateauCase {
  readonly options: PlateauOptions
  /** The metric of each evaluation; null is NaN. */
  readonly values: readonly (number | null)[]
  /** The rate after each evaluation. */
  readonly rates: readonly number[]
}
const { cases, plateaus } = JSON.parse(readFileSync(join(__dirname, '../../fixtures/schedules.json'), 'utf8')) as {
  readonly cases: readonly Case[]
  readonly plateaus: readonly PlateauCase[]
}

test('each schedule is in the fixture', () =>
  assert.equal(new Set(cases.map((c) => c.kind)), new Set(scheduleNames.filter((name) => name !== 'plateau'))))

for (const { options, values, rates } of plateaus)
  test(`plateau ${JSON.stringify(options)}: PyTorch's rates`, () => {
    const schedule = plateau(options)
    const measured = values.map((v, i) => ({
      epoch: i + 1,
      step: 3 * (i + 1),
      metrics: { [options.metric ?? 'loss']: v ?? Number.NaN },
    }))
    const all = reductionsOf(schedule, measured)
    rates.forEach((rate, i) => {
      // The steps of the next epoch: with the metrics so far, and with all of them.
      for (const step of [3 * (i + 1) + 1, 3 * (i + 2)])
        for (const reductions of [all, reductionsOf(schedule, measured.slice(0, i + 1))]) {
          const own = rateFactor({ schedule, reductions }, step, 1000)
          assert.ok(Math.abs(own - rate) <= 1e-15, `evaluation ${i + 1}: ${own} beside ${rate}`)
        }
    })
  })

for (const { kind, options, warmup, rates } of cases)
  test(`${kind} ${JSON.stringify(options)} after ${warmup} steps of warm-up: PyTorch's rates`, () => {
    const schedule = { kind, ...options } as Schedule
    rates.forEach((rate, i) => {
      const own = rateFactor({ schedule, warmup }, i + 1, rates.length)
      // PyTorch makes a rate of the one before, and its roundings add up.
      assert.ok(Math.abs(own - rate) <= 4e-16 * rates.length, `step ${i + 1}: ${own} beside ${rate}`)
    })
  })

test("constructors of schedules return plain data with PyTorch's defaults", () => {
  assert.equal(
    [constant(), cosine(), polynomial()].map((s) => JSON.stringify(s)),
    ['{"kind":"constant"}', '{"kind":"cosine","floor":0}', '{"kind":"poly","power":1}'],
  )
  assert.equal(stepped({ every: 3 }), { kind: 'step', every: 3, factor: 0.1 })
  assert.equal(oneCycle({ rise: 0.2 }), { kind: 'one-cycle', rise: 0.2, start: 0.04, end: 0.000004 })
  // A third of the run where nothing is said.
  assert.equal(
    [1, 3, 4, 6, 7, 9].map((n) => rateFactor({ schedule: stepped({ factor: 0.5 }) }, n, 9)),
    [1, 1, 0.5, 0.5, 0.25, 0.25],
  )
})

test("a warm-up rises linearly to the first rate of the schedule; a user's schedule starts after it", () => {
  assert.equal(
    [1, 2, 3, 4, 5].map((n) => rateFactor({ warmup: 4 }, n, 5)),
    [0.25, 0.5, 0.75, 1, 1],
  )
  assert.ok(Math.abs(rateFactor({ schedule: oneCycle(), warmup: 2 }, 2, 42) - 0.04) < 1e-15)
  const seen: (readonly [number, number])[] = []
  const own = (step: number, total: number): number => {
    seen.push([step, total])
    return 2
  }
  assert.equal(
    [1, 2, 3].map((n) => rateFactor({ schedule: own, warmup: 2 }, n, 7)),
    [1, 2, 2],
  )
  assert.equal(seen, [
    [1, 5],
    [1, 5],
    [1, 5],
  ])
})

test('without a schedule there are no factors, so bits do not change; factors that are no numbers are refused', () => {
  for (const s of [{}, { schedule: constant() }, { warmup: 0 }]) {
    const rates = ratesOfSteps(s, 1, 3, 3)
    assert.ok(isRight(rates) && rates.right === undefined)
  }
  const some = ratesOfSteps({ schedule: cosine() }, 3, 2, 4)
  assert.ok(isRight(some) && some.right!.length === 2 && Math.abs(some.right![0]! - 0.5) < 1e-15)
  const odd = ratesOfSteps({ schedule: (n) => (n === 5 ? Number.NaN : 1) }, 4, 3, 9)
  assert.is(isLeft(odd) ? errorText(odd.left) : '', 'schedule: the factor of step 5 is NaN; allowed: numbers of at least 0')
})

const said = (o: object): string => {
  const checked = checkedOptions(o)
  return isLeft(checked) ? errorText(checked.left) : 'nothing'
}

test('errors of lengths and schedules name the fault', () => {
  assert.is(said({}), 'a run needs steps or epochs')
  assert.is(said({ steps: 1, epochs: 1 }), 'steps and epochs exclude each other: give one of them')
  assert.is(said({ epochs: 0.5 }), 'epochs is 0.5; allowed: whole numbers of at least 1')
  assert.is(said({ steps: 1, warmup: -1 }), 'warmup is -1; allowed: whole numbers of at least 0')
  assert.match(said({ steps: 1, schedule: { kind: 'cosin' } }), /^schedule 'cosin' is not known; allowed: .*cosine/)
  assert.is(said({ steps: 1, schedule: { kind: 'cosine', floor: 2 } }), "schedule 'cosine': floor is 2; allowed: 0 to 1")
  assert.match(
    said({ steps: 1, schedule: { kind: 'cosine', floor: 0, flor: 2 } }),
    /`flor` is not an option of schedule 'cosine'/,
  )
  assert.throws(() => stepped({ every: 0.5 }), /every is 0.5; allowed: whole numbers, 1 or more/)
})

test('the command line has their names and options', () => {
  const named = (text: string): unknown => {
    const s = scheduleNamed(text)
    return isLeft(s) ? errorText(s.left) : s.right
  }
  assert.equal(named('cosine'), cosine())
  assert.equal(named('one-cycle:rise=0.2,end=1e-3'), oneCycle({ rise: 0.2, end: 1e-3 }))
  assert.equal(named('plateau:metric=accuracy,patience=3'), plateau({ metric: 'accuracy', patience: 3 }))
  assert.match(named('plateau:patience=many') as string, /write options as plateau:name=number/)
  assert.match(named('plateau:factor=1') as string, /factor is 1; allowed: 0 or more and below 1/)
  assert.match(named('cosin') as string, /schedule 'cosin' is not known; allowed: .*cosine/)
  assert.match(named('cosine:0.1') as string, /write options as cosine:name=number/)
  assert.match(named('cosine:floo=0.1') as string, /`floo` is not an option of schedule 'cosine'; did you mean `floor`\?/)
})

test('the text of a schedule includes the length if the schedule depends on it', () => {
  assert.is(scheduleText({ schedule: constant() }, 9), 'constant')
  assert.is(scheduleText({ schedule: cosine({ floor: 0.1 }), warmup: 2 }, 9), 'cosine floor 0.1 over 9 steps, 2 of them warm-up')
  assert.is(
    scheduleText({ schedule: plateau(), warmup: 2 }, 9),
    'plateau factor 0.1, patience 10, threshold 0.0001, cooldown 0, floor 0, metric loss after 2 steps of warm-up',
  )
  assert.is(scheduleText({ schedule: () => 1 }, 9), 'a function of its own over 9 steps')
})

test('an epoch ends with the step that holds its last sample', () => {
  const ends = (samples: number, batch: number): readonly number[] => [1, 2, 3, 4].map((e) => epochEnd({ samples, batch }, e))
  assert.equal(ends(5, 2), [3, 5, 8, 10])
  assert.equal(ends(4, 2), [2, 4, 6, 8])
  assert.equal(ends(1, 3), [1, 1, 1, 2])
  // Against every sample in turn.
  for (let samples = 1; samples < 8; samples++)
    for (let batch = 1; batch < 8; batch++)
      for (let step = 1; step < 30; step++) {
        let whole = 0
        for (let position = 0; position < step * batch; position++) if (position % samples === samples - 1) whole++
        assert.is(epochsAt({ samples, batch }, step), whole)
        if (whole > 0) assert.ok(epochEnd({ samples, batch }, whole) <= step)
      }
})

test('epochs need data of a known number of samples', () => {
  const words = (o: object, samples?: number): string => {
    const l = lengthOf(o, samples, 2)
    return isLeft(l) ? errorText(l.left) : String(l.right.steps)
  }
  assert.is(words({ epochs: 3 }, 5), '8')
  assert.is(words({ steps: 4 }), '4')
  assert.match(words({ epochs: 3 }), /needs the number of samples/)
  assert.match(words({ epochs: 2 ** 52 }, 2 ** 20), /too many/)
})

test.run()
