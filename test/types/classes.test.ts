// timeout 300
// Networks of the zoo with other classes, as the compiler sees them: sizes, words for wrong options, heads of one's own, and declarations that
// stay short.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { check } from './checker'

const prelude = `import { apply, fed, globalAvgPool, linear, model, type Net, seq } from '../../src'
import { resnet50, resnet50Body, resnetHead } from '../../models/resnet'
import { vgg16 } from '../../models/vgg'
import { deeplabv3plusResnet50 } from '../../models/deeplab'
import { unet } from '../../models/unet'
`
const checked = check({
  legal: `${prelude}
export const ten = model([8, 3, 224, 224], resnet50({ classes: 10 }))
export const a: [8, 10, 1, 1] = ten.output
export const b: [8, 1000, 1, 1] = model([8, 3, 224, 224], resnet50).output
export const c: [2, 4, 224, 224] = model([2, 3, 224, 224], deeplabv3plusResnet50({ classes: 4 })).output
export const d: [1, 5, 64, 64] = model([1, 3, 64, 64], unet({ classes: 5 })).output
export const e: [1, 3, 1, 1] = model([1, 3, 224, 224], vgg16({ classes: 3 })).output
export const own: [8, 7, 1, 1] = model([8, 3, 224, 224], seq(resnet50Body, globalAvgPool('p'), linear('fc', 7))).output
export const head: [8, 6, 1, 1] = model([8, 3, 224, 224], seq(resnet50Body, resnetHead(6))).output
export const within = apply(seq(resnet50({ classes: 8 }), linear('more', 2)), fed('image', [8, 3, 224, 224]))
export const f: [8, 2, 1, 1] = within.shape
export const net: Net = resnet50
export const of = <C extends number>(classes: C) => resnet50({ classes })
export const g: 23528522 = ten.parameters
`,
  key: `${prelude}export const wrong = resnet50({ clases: 10 })`,
  more: `${prelude}export const wrong = resnet50({ classes: 10, bias: true })`,
  none: `${prelude}export const wrong = resnet50({})`,
  text: `${prelude}export const wrong = resnet50({ classes: 'ten' })`,
  size: `${prelude}export const wrong = model([1, 3, 224, 224], resnet50({ classes: 0 }))`,
})

test('sizes follow the classes, in heads of the zoo and of one’s own', () => assert.equal(checked.errors('legal'), []))

test('options that there are not are refused', () => {
  assert.match(checked.errors('key').join('\n'), /'clases' does not exist in type .* Did you mean to write 'classes'\?/)
  assert.match(checked.errors('more').join('\n'), /'bias' does not exist in type/)
  assert.is(checked.errors('none').length, 1)
  assert.is(checked.errors('text').length, 1)
  assert.match(checked.errors('size').join('\n'), /layer 'fc' \(linear\): .*0/)
})

test('the type of a network class shows its name in an editor', () => {
  assert.match(checked.hover('legal', 'ten ='), /output: \[8, 10, 1, 1\];/)
  assert.match(checked.hover('legal', 'a: ['), /const a: \[8, 10, 1, 1\]/)
})

test.run()
