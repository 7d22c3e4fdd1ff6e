// timeout 600
// each of models
// The cost of type-checking, in instantiations (exact, so a ceiling can be tight) and seconds (printed). The gate's step check-types
// checks every network of the zoo.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { zooEntry } from '../../src/zoo'
import { FULL } from '../full'
import { costOf } from './checker'

interface Ceiling {
  readonly network: string
  readonly input: string
  /** The most instantiations that it may take above a program that imports the DSL and a family. */
  readonly most: number
}

// biome-ignore format: a table
const ceilings: readonly Ceiling[] = [
  { network: 'vgg16', input: '[1, 3, 224, 224]', most: 40_000 },
  { network: 'vgg16-features', input: '[1, 3, 20480, 20480]', most: 37_000 },
  { network: 'darknet19', input: '[1, 3, 224, 224]', most: 47_000 },
  { network: 'resnet18', input: '[1, 3, 224, 224]', most: 48_000 },
  { network: 'resnet50', input: '[1, 3, 224, 224]', most: 68_000 },
  { network: 'resnet50', input: '[1, 3, 4096, 4096]', most: 69_000 },
  { network: 'unet', input: '[1, 3, 512, 512]', most: 51_000 },
  { network: 'resnet152', input: '[1, 3, 224, 224]', most: 83_000 },
  { network: 'deeplabv3plus-resnet101', input: '[2, 3, 512, 512]', most: 90_000 },
  { network: 'inception4', input: '[1, 3, 299, 299]', most: 109_000 },
  { network: 'densenet201', input: '[1, 3, 224, 224]', most: 250_000 },
]

const importOf = (family: string): string => `import { type LayerNames, model } from '../../dsl'
import family from '../../models/${family}'
`
// The first check of a process also warms it up.
costOf("import 'uvu'\nexport {}")
const empty = costOf(`${importOf('vgg')}export { family, model }\nexport type { LayerNames }`)

/** A plain chain, residuals, and the most expensive. */
const FEW = ['vgg16', 'resnet50', 'densenet201']

for (const { network, input, most } of ceilings.filter((c) => FULL || FEW.includes(c.network)))
  test(`${network} at ${input}`, () => {
    const c = costOf(`${importOf(zooEntry(network)!.family)}export const net = model(${input}, family['${network}'].net)
export const names = (n: LayerNames<typeof net>): string => n`)
    const instantiations = c.instantiations - empty.instantiations
    const took = c.seconds - empty.seconds
    console.log(
      `${network.padEnd(24)} ${input.padEnd(22)} ${String(instantiations).padStart(7)} instantiations, ${took.toFixed(2)} s above an import`,
    )
    assert.ok(instantiations > 1000, 'the network was not checked at all')
    assert.ok(instantiations <= most, `${instantiations} instantiations, at most ${most} are allowed`)
  })

const imports = "import { batchNorm, blocks, conv2d, model, relu, repeat, seq } from '../../dsl'\n"
const layers = Array.from({ length: 300 }, (_, i) => (i % 2 === 0 ? `conv2d('c${i}', ${8 * (1 + (i % 5))}, 3)` : 'relu()'))
const convolutions = Array.from({ length: 300 }, (_, i) => `conv2d('c${i}', ${8 * (1 + (i % 5))}, 3)`)
const chains: readonly (readonly [name: string, net: string, most: number])[] = [
  ['300 layers in a row', `seq(${layers.join(', ')})`, 75_000],
  ['300 convolutions', `seq(${convolutions.join(', ')})`, 90_000],
  ['500 copies', "blocks('b', repeat(500, seq(conv2d('c', 3, 3), relu())))", 155_000],
]
for (const [name, net, most] of chains)
  test(name, () => {
    const base = costOf(`${imports}export const net = model([1, 3, 8, 8], seq(conv2d('c', 3, 3), relu()))`)
    const c = costOf(`${imports}export const net = model([1, 3, 8, 8], ${net})`)
    const instantiations = c.instantiations - base.instantiations
    console.log(
      `${name.padEnd(24)} ${instantiations} instantiations, ${(c.seconds - base.seconds).toFixed(2)} s above two layers`,
    )
    assert.ok(instantiations <= most, `${instantiations} instantiations, at most ${most} are allowed`)
  })

test.run()
