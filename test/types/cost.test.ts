// serial
// What type-checking costs, in instantiations (exact, so a ceiling can be tight) and seconds (printed, with a wide one).
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { zooEntry } from '../../src/zoo'
import { type Cost, costOf } from './checker'

/** Network -> the most instantiations that it may take above a program that only imports the DSL. */
const ceilings: readonly (readonly [network: string, input: string, most: number])[] = [
  ['vgg16', '[1, 3, 224, 224]', 51_000],
  ['vgg16-features', '[1, 3, 20480, 20480]', 52_000],
  ['darknet19', '[1, 3, 224, 224]', 60_000],
  ['resnet18', '[1, 3, 224, 224]', 56_000],
  ['resnet50', '[1, 3, 224, 224]', 89_000],
  ['resnet50', '[1, 3, 4096, 4096]', 96_000],
]

costOf("import 'uvu'\nexport {}")
/** What importing the DSL and a family costs. */
const importOf = (family: string): string => `import { type LayerNames, model } from '../../dsl'
import family from '../../models/${family}'
`
const imported = (family: string): Cost =>
  costOf(`${importOf(family)}export { family, model }
export type { LayerNames }`)

for (const [network, input, most] of ceilings)
  test(`${network} at ${input}`, () => {
    const { family } = zooEntry(network)!
    const empty = imported(family)
    const c = costOf(`${importOf(family)}export const net = model(${input}, family['${network}'].net)
export const names = (n: LayerNames<typeof net>): string => n`)
    const instantiations = c.instantiations - empty.instantiations
    const seconds = c.seconds - empty.seconds
    console.log(
      `${network.padEnd(14)} ${input.padEnd(22)} ${String(instantiations).padStart(7)} instantiations, ${seconds.toFixed(2)} s above an import`,
    )
    assert.ok(instantiations > 1000, 'the network was not checked at all')
    assert.ok(instantiations <= most, `${instantiations} instantiations, at most ${most} are allowed`)
    assert.ok(seconds < 3, `${seconds.toFixed(2)} s, less than 3 s are allowed`)
  })

test.run()
