// Padding of images to sizes that a network accepts. In: a model, the size of an image. Out: the next size that the model accepts and maps to
// an output in the same proportion. Invariant: images are padded below and on the right only, so windows of strided layers keep their places.
// A pixel out of reach of the padding has the value that it has in a larger image.
// Worked example: a U-Net of four levels for 512 x 512 accepts each multiple of 16. A photo of 300 x 200 is padded to 304 x 208; of its mask
// of 304 x 208, the first 300 rows and 200 columns are the result.
import * as E from 'fp-ts/Either'
import { type Model, modelAt } from '../../dsl'
import type { Size } from '../data/decode'

/** Largest step between accepted sizes that is searched: six halvings. */
const MOST_STEP = 64

const sidesOf = ([, , height, width]: Model['input']): Size => ({ height, width })

/** Returns true if the model accepts images of this size, and its output has the proportion that it has at the model's own size. */
const accepts = ({ input, output, net }: Model, { height, width }: Size): boolean => {
  const made = modelAt([input[0], input[1], height, width], net, 'predict')
  if (E.isLeft(made)) return false
  const [own, now, before] = [sidesOf(made.right.output), sidesOf(output), sidesOf(input)]
  return own.height * before.height === now.height * height && own.width * before.width === now.width * width
}

/** The smallest step from the model's own size to the next accepted one. Without one below the limit: 1, which pads nothing. */
const stepOf = (model: Model, side: keyof Size): number => {
  const own = sidesOf(model.input)
  for (let step = 1; step <= MOST_STEP; step++) if (accepts(model, { ...own, [side]: own[side] + step })) return step
  return 1
}

/** Returns true if the model gives one result for a whole image, such as its class. */
export const isPerImage = ({ output }: Model): boolean => output[2] * output[3] === 1

/** Returns the size to which an image is padded: its own, if the model accepts it or pads nothing. The steps are searched once. */
export const paddedBy = (model: Model): ((image: Size) => Size) => {
  let steps: Size | undefined
  const known = new Map<string, Size>()
  const own = sidesOf(model.input)
  const next = (size: number, from: number, step: number): number => size + ((((from - size) % step) + step) % step)
  const padded = (image: Size): Size => {
    if (isPerImage(model) || accepts(model, image)) return image
    steps ??= { height: stepOf(model, 'height'), width: stepOf(model, 'width') }
    return { height: next(image.height, own.height, steps.height), width: next(image.width, own.width, steps.width) }
  }
  return (image) => {
    const key = `${image.height} ${image.width}`
    const size = known.get(key) ?? padded(image)
    known.set(key, size)
    return size
  }
}
