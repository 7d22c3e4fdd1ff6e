// The positions of max pooling's maxima: a byte for each output, four channels to a word, and the gradient that reads them in place
// of x. A position is an index into the whole window in row order, padding included, so it does not depend on tiles.
import { chain, map } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { all, type AttrsOf, defineOp, type OperandDef, pixels, type Shapes, type Sizes } from './op'
import { maxFields, maxPooled, maxRest, poolWindows } from './pool'
import { checked, elements, expectRange, expectShape, legal } from './rules'

type Attrs = AttrsOf<typeof maxFields>

/** The number of values of a byte. */
export const MOST_PLACES = 256
const CHANNELS_PER_WORD = 4

/** Returns the shape of the positions of an output. */
export const placesShape = ([b, c, h, w]: Sizes): Sizes => [b!, Math.ceil(c! / CHANNELS_PER_WORD), h!, w!]

const windows = (name: string): OperandDef<typeof maxFields> => ({
  name,
  role: 'data',
  access: (a) => ({ ...poolWindows(a), C: all }),
})
const inBytes = (a: Attrs) => (): string | undefined =>
  a.kernelH * a.kernelW <= MOST_PLACES
    ? undefined
    : `a window of ${a.kernelH}x${a.kernelW} has too many places for a byte; allowed: at most ${MOST_PLACES}`

const places = (a: Attrs, x: Sizes): Shapes =>
  checked([inBytes(a)], () =>
    pipe(
      maxPooled(a, x),
      map(([y]) => [placesShape(y!)]),
    ),
  )

export const maxPoolPlaces = defineOp({
  kind: 'max_pool_places',
  wire: 86,
  half: 'may',
  fields: maxFields,
  rest: maxRest,
  anchor: 'out',
  what: "the position of max_pool's maximum (the first; a NaN counts as one) in its window, counted row by row with padding: one byte each, channel 4i + k in byte k of word i",
  ins: [windows('x')],
  outs: [{ ...pixels('places'), dtype: 'i32' }],
  shape: (a, [x]) => places(a, x!),
  flops: (a, s) => (a.kernelH * a.kernelW * elements(s.ins[0])) / (a.strideH * a.strideW),
})

export const maxPoolPlacesBwd = defineOp({
  kind: 'max_pool_places_bwd',
  wire: 87,
  half: 'may',
  fields: { ...maxFields, channels: 'int', extentH: 'int', extentW: 'int' },
  rest: maxRest,
  anchor: 1,
  what: 'max_pool_bwd from the places; sizes are those of x',
  ins: [{ ...pixels('places'), dtype: 'i32' }, pixels('dy')],
  outs: [windows('dx') as OperandDef],
  shape: (a, [found, dy]) => {
    const dx = [dy![0]!, a.channels, a.extentH, a.extentW]
    return checked(
      [
        expectRange('channels', a.channels, 1),
        expectRange('extentH', a.extentH, 1),
        expectRange('extentW', a.extentW, 1),
        inBytes(a),
      ],
      () =>
        pipe(
          maxPooled(a, dx),
          chain(([y]) =>
            checked([expectShape('the incoming gradient', dy!, y!), expectShape('places', found!, placesShape(y!))], () =>
              legal(dx),
            ),
          ),
        ),
    )
  },
  flops: (a, s) => a.kernelH * a.kernelW * elements(s.ins[1]),
})
