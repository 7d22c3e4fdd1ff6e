// A trained value added to each channel (a bias) or to each element (a position embedding), the same for all images.
import { elementsOf, sameShape } from '../core/box'
import { type AttrsOf, data, defineOp, type OperandDef, shapeText, type Sizes } from './op'
import { checked, expectRank, firstIn, firstOut, legal, partialSums, perElement } from './rules'

/**
 * 0: the parameter has a number for each channel. 1: for each element of an image, in the order of [C,H,W]. 2: the same in the order of [H,W,C]. The
 * parameter of elements may have further dimensions of any sizes: [1,H·W,C] is one of order 2.
 */
const fields = { elements: 'int' } as const
const limits = { elements: { least: 0, most: 2 } } as const
type Attrs = AttrsOf<typeof fields>

const parameterOf = ({ elements }: Attrs, [, c, h, w]: Sizes): Sizes =>
  elements === 0 ? [c!] : elements === 1 ? [c!, h!, w!] : [1, h! * w!, c!]
const expectParameter = (name: string, a: Attrs, got: Sizes, image: Sizes) => (): string | undefined => {
  const want = parameterOf(a, image)
  const fits = a.elements === 0 ? sameShape(got, want) : elementsOf(got) === elementsOf(want) && got.length <= 4
  return fits
    ? undefined
    : `${name} has shape ${shapeText(got)}; allowed: ${shapeText(want)}, or as many numbers in other dimensions`
}
const parameter = (name: string): OperandDef => ({ name, role: 'whole' })

export const shift = defineOp({
  kind: 'shift',
  wire: 225,
  half: 'may',
  fields,
  limits,
  anchor: 'out',
  inPlace: [0],
  what: 'y = x + p, p `[C]` (elements 0), `[C,H,W]` (1) or `[H,W,C]` (2) of the whole image; may run in place',
  ins: [data('x'), parameter('p')],
  outs: [data('y')],
  shape: (a, [x, p]) =>
    checked([expectRank('the input', x!, 4), () => expectParameter('the parameter', a, p!, x!)()], () => legal(x!)),
  backward: (g) => {
    const [, p] = g.ins
    if (g.needsGradient(1)) g.addGradient(1, g.emit('shift_bwd', g.attrs, [g.outputGradient(0)], [g.shape(p!)])[0]!)
    if (g.needsGradient(0)) g.addGradient(0, g.outputGradient(0))
  },
  samples: (x) => [0, 1, 2].map((elements) => ({ attrs: { elements }, ins: [x, parameterOf({ elements }, x)] })),
  flops: perElement(1, firstOut),
})

export const shiftBwd = defineOp({
  kind: 'shift_bwd',
  wire: 226,
  half: 'may',
  fields,
  limits,
  anchor: 0,
  outputsGiven: true,
  what: 'dp = Σ dy over batch and, with elements 0, pixels; 0 for elements outside dy; sum',
  ins: [data('dy')],
  outs: [{ ...parameter('dp'), merge: 'sum' }],
  shape: (a, [dy], [dp]) =>
    checked([expectRank('the incoming gradient', dy!, 4), () => expectParameter('dp', a, dp!, dy!)()], () => legal(dp!)),
  flops: perElement(1, firstIn),
  workspace: partialSums(1),
})
