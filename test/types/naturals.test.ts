// Type-level arithmetic against the machine's: hundreds of sums, products, quotients and comparisons in one program.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { tablesText } from '../../scripts/gen-digits'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { check } from './checker'

/** A fixed sequence of numbers of all lengths (mulberry32). */
const random = (seed: number) => (): number => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
}
const next = random(7)
const natural = (digits: number): number => Math.floor(next() * 10 ** (1 + Math.floor(next() * digits)))
const edges = [0, 1, 2, 9, 10, 99, 100, 999, 1000, 100000]

interface Case {
  readonly expression: string
  readonly want: string
}
const cases: Case[] = []
const binary = (a: number, b: number): void => {
  const compare = a < b ? 'less' : a > b ? 'more' : 'equal'
  cases.push(
    { expression: `Add<${a}, ${b}>`, want: `${a + b}` },
    { expression: `Sub<${a}, ${b}>`, want: a < b ? '"negative"' : `${a - b}` },
    { expression: `Compare<${a}, ${b}>`, want: `"${compare}"` },
  )
}
const product = (a: number, b: number): void => void cases.push({ expression: `Mul<${a}, ${b}>`, want: `${a * b}` })
const quotient = (a: number, b: number): void =>
  void cases.push(
    { expression: `Div<${a}, ${b}>`, want: `${Math.floor(a / b)}` },
    { expression: `Mod<${a}, ${b}>`, want: `${a % b}` },
    { expression: `CeilDiv<${a}, ${b}>`, want: `${Math.ceil(a / b)}` },
  )
for (const a of edges)
  for (const b of edges) {
    binary(a, b)
    product(a, b)
    if (b > 0) quotient(a, b)
  }
for (let i = 0; i < 60; i++) {
  binary(natural(13), natural(13))
  product(natural(6), natural(7))
  quotient(natural(10), 1 + natural(1))
  quotient(natural(10), 1 + natural(4))
}

const program = `import type { Add, CeilDiv, Compare, Div, IsOdd, IsWhole, Mod, Mul, Sub } from '../../dsl/numbers/naturals'
${cases.map((c, i) => `declare const c${i}: ${c.expression}`).join('\n')}
declare const odd: [IsOdd<7>, IsOdd<10>, IsOdd<31>, IsOdd<0>]
declare const whole: [IsWhole<7>, IsWhole<0>, IsWhole<-1>, IsWhole<0.5>, IsWhole<1e30>, IsWhole<1e-9>, IsWhole<number>]
`
const checked = check({ numbers: program })

test(`${cases.length} results are exact`, () => {
  assert.equal(checked.errors('numbers'), [])
  const wrong = cases.filter((c, i) => checked.typeOf('numbers', `c${i}`) !== c.want)
  assert.equal(wrong, [])
  assert.ok(cases.length > 800)
})
test('parity and wholeness', () => {
  assert.is(checked.typeOf('numbers', 'odd'), '[true, false, true, false]')
  assert.is(checked.typeOf('numbers', 'whole'), '[true, true, false, false, false, false, true]')
})
test('the committed digit tables equal the output of the generator', () => {
  assert.is(readFileSync(join(__dirname, '../../dsl/numbers/tables.ts'), 'utf8'), tablesText())
})

test.run()
