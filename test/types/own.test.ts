// each of staging/ops/losses, staging/ops/optimizer
// Losses and optimizers while typing: what an optimizer keeps for each parameter, which options there are; and the same at run time.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import * as dsl from '../../dsl'
import { numbersKept } from '../../dsl/plan/bytes'
import { camel } from '../../scripts/generated'
import { type Choices, isFlag } from '../../staging/ops/choices'
import { type LossEntry, LOSSES } from '../../staging/ops/losses'
import { OPTIMIZERS, type Optimizer, type OptimizerEntry } from '../../staging/ops/optimizer'
import { check, type Programs } from './checker'

interface Case {
  readonly kind: string
  readonly options: Readonly<Record<string, number | boolean>>
  readonly kept: number
}

/** Every choice that decides the kept state. */
const cases: readonly Case[] = Object.entries<OptimizerEntry>(OPTIMIZERS).flatMap(([kind, { options, states }]) =>
  [...new Set(states.flatMap((s) => s.when ?? []))]
    .reduce<readonly Case['options'][]>(
      (all, name) => all.flatMap((o) => [o, { ...o, [name]: isFlag(options[name]!) ? true : 0.5 }]),
      [{ lr: 0.1 }],
    )
    .map((o) => ({ kind, options: o, kept: states.filter((s) => s.when === undefined || s.when in o).length })),
)

const using = (kind: string): string => `import { ${camel(kind)}, type NumbersKept } from '../../dsl'\n`
const keeping = ({ kind, options, kept }: Case): string => `${using(kind)}const o = ${camel(kind)}(${JSON.stringify(options)})
export const kept: ${kept} = 0 as unknown as NumbersKept<typeof o>
export const exactly: NumbersKept<typeof o> = ${kept}`

/** An option that is known only at run time: the state is some number. */
const unknown = Object.entries<OptimizerEntry>(OPTIMIZERS).flatMap(([kind, { options, states }]) =>
  states.flatMap(({ when }) =>
    when === undefined
      ? []
      : [
          `${using(kind)}declare const given: ${isFlag(options[when]!) ? 'boolean' : 'number'}
const o = ${camel(kind)}({ lr: 0.1, ${when}: given })
export const kept: NumbersKept<typeof o> = 7`,
        ],
  ),
)

const strays = Object.keys(OPTIMIZERS).map((kind) => `${using(kind)}export const o = ${camel(kind)}({ lr: 0.1, momentun: 0.9 })`)
const wrong = Object.entries<{ readonly options: Choices }>({ ...LOSSES, ...OPTIMIZERS }).flatMap(([kind, { options }]) =>
  Object.keys(options).map((name) => `${using(kind)}export const o = ${camel(kind)}({ lr: 0.1, ${name}: 'much' })`),
)

const named = (what: string, texts: readonly string[]): Programs => Object.fromEntries(texts.map((t, i) => [`${what}${i}`, t]))
const checked = check({
  ...named('kept', cases.map(keeping)),
  ...named('unknown', unknown),
  ...named('strays', strays),
  ...named('wrong', wrong),
})

for (const [i, c] of cases.entries())
  test(`${c.kind}(${JSON.stringify(c.options)}) keeps ${c.kept}`, () => {
    assert.equal(checked.errors(`kept${i}`), [])
    const make = (dsl as unknown as Readonly<Record<string, (o: object) => Optimizer>>)[camel(c.kind)]!
    assert.is(numbersKept(make(c.options)), c.kept)
  })
for (const i of unknown.keys())
  test(`a size that is unknown to the type checker has type number (${i})`, () => assert.equal(checked.errors(`unknown${i}`), []))
for (const [i, t] of strays.entries())
  test(`no other options: ${t.split('\n')[1]}`, () => assert.is(checked.errors(`strays${i}`).length, 1))
for (const [i, t] of wrong.entries())
  test(`must not compile: ${t.split('\n')[1]}`, () => assert.ok(checked.errors(`wrong${i}`).length > 0))

test('every loss and every optimizer has a constructor', () => {
  for (const [kind, { options }] of Object.entries<LossEntry>(LOSSES)) {
    const own = (dsl as unknown as Readonly<Record<string, unknown>>)[camel(kind)]
    const chosen = defaults(options)
    assert.equal(typeof own === 'function' ? own() : own, Object.keys(chosen).length === 0 ? kind : { kind, ...chosen })
  }
  assert.equal(dsl.crossEntropyWith({ ignoreIndex: 255 }), { kind: 'cross-entropy', ignoreIndex: 255 })
  assert.equal(dsl.crossEntropyWith({ weights: [1, 2], labelSmoothing: 0.1 }), {
    kind: 'cross-entropy',
    weights: [1, 2],
    labelSmoothing: 0.1,
  })
  assert.equal(dsl.crossEntropyWith({ ignoreIndex: undefined }), { kind: 'cross-entropy' })
})
/** The default choice. */
const defaults = (options: Choices): object =>
  Object.fromEntries(Object.entries(options).flatMap(([name, c]) => (c.default === 'none' ? [] : [[name, c.default]])))

test.run()
