// Types of a network with more layers than TypeScript's limit of recursive calls in a row (1000). In: a chain of 1300 layers. Out: the folds over the
// layers of a network (dsl/plan) give the results of the run time.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { blocks, conv2d, model, rangeOf, relu, repeat, segmentsOf, seq } from '../../dsl'
import { leastBytes } from '../../dsl/plan/bytes'
import { sumsInside, tooFine } from '../../dsl/plan/words'
import { renderError } from '../../staging/core/errors'
import { elaborated } from '../dsl/forward'
import { check } from './checker'

const NET = `model([1, 4, 8, 8], blocks('a', repeat(13, blocks('b', repeat(50, seq(conv2d('c', 4, 3), relu()))))))`
const net = model([1, 4, 8, 8], blocks('a', repeat(13, blocks('b', repeat(50, seq(conv2d('c', 4, 3), relu()))))))

const program = `import { blocks, conv2d, model, relu, repeat, seq } from '../../dsl'
import type { CheckedOptions } from '../../dsl/plan/checked'
import type { LeastBytes } from '../../dsl/plan/bytes'
import type { PatternIn } from '../../dsl/plan/patterns'
import type { RangeOf, SegmentsOf } from '../../dsl/plan/ranges'
import type { StepOf } from '../../dsl/trainable'
const net = ${NET}
type M = typeof net
declare const segments: SegmentsOf<M>
declare const least: LeastBytes<StepOf<M>>
declare const range: RangeOf<M, 'a.0.b.40.c', 'a.12.b.49.c'>
type Tiled<N extends number> = { tiles: [{ from: 'a.0.b.0.c'; to: 'a.11.b.0.c'; H: 4 }, { from: 'a.11.b.1.c'; to: 'a.12.b.49.c'; H: N }] }
declare const legal: CheckedOptions<M, Tiled<8>>
declare const tooFine: CheckedOptions<M, Tiled<9>>['tiles'][1]['H']
declare const weighted: Extract<PatternIn<M>, 'a.12.b.49.c.*'>
`

const least = (): number => {
  const e = elaborated(net)
  if (isLeft(e)) throw new Error(renderError(e.left))
  return leastBytes(e.right)
}

test('a chain of 1300 layers', () => {
  assert.is(net.layers.length, 1300)
  const checked = check({ deep: program })
  assert.equal(checked.errors('deep'), [])
  const typed = (constant: string): string => checked.typeOf('deep', constant)
  const [only, ...others] = segmentsOf(net)
  assert.equal(others, [])
  assert.match(typed('segments'), `FtSegment<"${only!.from}", "${only!.to}", ${only!.ft.map((d) => `"${d}"`).join(' | ')}>]`)
  const range = rangeOf(net, 'a.0.b.40.c', 'a.12.b.49.c')
  assert.match(typed('range'), `"${range.to}", ${range.ft.map((d) => `"${d}"`).join(' | ')}, ${range.parameters}>`)
  assert.is(typed('least'), `${least()}`)
  assert.is(typed('legal'), 'object')
  assert.is(typed('tooFine'), JSON.stringify(tooFine('a.11.b.1.c', 'conv2d', '9', 'H', '8')))
  assert.is(typed('weighted'), '"a.12.b.49.c.*"')
})

test('in a plan module, a range of one layer may be its sums or their use', () => {
  const checked = check({
    parts: `import { batchNorm, conv2d, model, seq } from '../../dsl'
import type { TilesFault } from '../../dsl/plan/checked'
import type { SitesOfModel } from '../../dsl/plan/ranges'
const net = model([1, 4, 8, 8], seq(conv2d('c', 4, 3), batchNorm('bn'), conv2d('d', 4, 3)))
type Range = { from: 'bn'; to: 'bn'; H: 2 }
declare const planned: TilesFault<[Range], SitesOfModel<typeof net>, true>
declare const byHand: TilesFault<[Range], SitesOfModel<typeof net>>['reason' & keyof TilesFault<[Range], SitesOfModel<typeof net>>]
`,
  })
  assert.equal(checked.errors('parts'), [])
  assert.is(checked.typeOf('parts', 'planned'), 'null')
  assert.is(checked.typeOf('parts', 'byHand'), JSON.stringify(sumsInside('bn', 'batchNorm', 'H')))
})

test.run()
