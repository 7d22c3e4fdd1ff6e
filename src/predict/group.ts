// Images of one size and their plan. In: sizes of images. Out: a group for each padded size, in the budget of the given plan.
// Invariant: each image has one place in one group, and its output is cut back to its own size.
import { resizedGeoreference } from '../files/georeference'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Form, Model, Shape } from '../../dsl'
import type { Graph, Value } from '../../staging/graph/graph'
import { isHalf } from '../../staging/ops/op'
import type { Region, SlidePlace, SlideTile } from '../data/data'
import type { ImageFile, Size } from '../data/decode'
import type { DataDescription } from '../data/description'
import type { DataSource } from '../data/source'
import { type SpillwayError, usage } from '../errors/errors'
import { preparePrediction } from '../stage/prepare'
import type { Staged } from '../stage/staged'
import { outputOf } from './batches'
import type { OutputFacts, OutputShape, Picture } from './outputs'
import { paddedBy } from './padding'
import { resized } from './resized'

/** A rectangle of the output of an image. */
export interface Cut extends Region {
  /** The place of the image in its group. */
  readonly image: number
  readonly name: string
  /** The slide of the output. */
  readonly slide?: SlidePlace
}

/** Images of one size, and the plan for them. */
export interface Group {
  readonly staged: Staged
  readonly output: Value
  readonly data: DataSource
  /** The source of these images alone, by their places in the group. */
  readonly part: (places: readonly number[]) => Either<SpillwayError, DataSource>
  readonly names: readonly string[]
  /** The place of each among all images. */
  readonly at: readonly number[]
  /** The outputs of the images, in their order: one for each image, or for each slide on it. Padding is cut off. */
  readonly cuts: readonly Cut[]
  /** File of each image, or its name. */
  readonly files: readonly string[]
  /** The picture at a place among all images, for overlays. */
  readonly pictureOf?: (at: number) => Promise<Picture>
  /** The tile at a place among all images, if they are tiles of slides. */
  readonly tileOf?: (at: number) => SlideTile
}

/** Facts that a kept predictor looks up once, for all of its calls. */
export interface Kept {
  readonly form: Form
  readonly description: DataDescription | undefined
  readonly pad: (image: Size) => Size
  /** Plans by the size of their input. */
  readonly plans: Map<string, Staged>
  /** Pictures in memory, in place of the files of the data. */
  readonly pictures?: readonly NamedPicture[] | undefined
}

/** A picture and the name of its outputs. */
export interface NamedPicture {
  readonly file: ImageFile
  readonly name: string
}

export const shapeOf = ({ shape, dtype }: Value, graph: Graph): OutputShape => {
  const [, c, h, w] = shape as readonly [number, number, number, number]
  const classes = graph.ops[graph.ops.length - 1]?.kind === 'argmax'
  return { type: isHalf(dtype) || dtype === 'u8' ? 'f32' : dtype, shape: [c, h, w], classes }
}

/** The shape of an output of a group. */
export const shapeIn = ({ output, staged, cuts }: Group, i: number): OutputShape => {
  const whole = shapeOf(output, staged.plan.graph)
  const { height, width } = cuts[i] ?? sizeOfValue(output)
  return { ...whole, shape: [whole.shape[0], height, width] }
}

/** The scale, the place and the pixels without data of an output: an output of half the size has pixels that are twice as large. */
export const factsOfOutput = ({ staged, output, cuts }: Group, i: number): OutputFacts => {
  const slide = cuts[i]?.slide
  if (!slide) return {}
  const { microns, georeference, isEmpty } = slide
  const [input, made] = [sizeOfPlan(staged), sizeOfValue(output)]
  const [across, down] = [input.width / made.width, input.height / made.height]
  return {
    microns: microns === undefined ? undefined : microns * across,
    georeference: georeference && resizedGeoreference(georeference, across, down),
    isEmpty: isEmpty && ((y, x) => isEmpty(Math.floor(y * down), Math.floor(x * across))),
  }
}

/** Returns true if the graph gives one result for a whole image, such as the class. */
export const isPerImage = (graph: Graph): boolean => {
  const { height, width } = sizeOfValue(outputOf(graph)!)
  return height * width === 1
}

const wholeCut = (size: Size, name: string, image: number): Cut => ({ ...size, top: 0, left: 0, name, image })

export const groupOf = (
  staged: Staged,
  data: DataSource,
  part: Group['part'],
  names: readonly string[],
  at: readonly number[],
  cuts?: readonly Cut[],
): Group => {
  const output = outputOf(staged.plan.graph)!
  const size = sizeOfValue(output)
  return { staged, output, data, part, names, files: names, at, cuts: cuts ?? names.map((n, i) => wholeCut(size, n, i)) }
}

const sizeOfValue = ({ shape }: Value): Size => {
  const [, , height, width] = shape as Shape
  return { height, width }
}

/** Height and width of the input of a plan. */
export const sizeOfPlan = ({ plan: { graph } }: Staged): Size => sizeOfValue(graph.values.find((v) => v.role === 'input')!)

/** Followers choose among the leader's plans: the smallest that holds the image. */
const paddedAmong =
  (plans: readonly Staged[]) =>
  (image: Size): Size =>
    plans
      .map(sizeOfPlan)
      .filter(({ height, width }) => height >= image.height && width >= image.width)
      .sort((a, b) => a.height * a.width - b.height * b.width)[0] ?? image

/** The part of an output that belongs to a rectangle of the image, which is padded. */
const cutFor = ({ top, left, height, width }: Region, padded: Size, output: Size): Region => {
  const along = (from: number, length: number, input: number, made: number): readonly [number, number] => {
    const start = Math.floor((from * made) / input)
    return [start, Math.min(made, Math.ceil(((from + length) * made) / input)) - start]
  }
  const [rows, columns] = [along(top, height, padded.height, output.height), along(left, width, padded.width, output.width)]
  return { top: rows[0], left: columns[0], height: rows[1], width: columns[1] }
}

/** Plans of recent sizes that a predictor keeps. */
const MOST_PLANS = 16

/** The newest entries stay. */
const remember = (plans: Map<string, Staged>, key: string, staged: Staged): void => {
  plans.delete(key)
  plans.set(key, staged)
  const [oldest] = plans.keys()
  if (plans.size > MOST_PLANS && oldest !== undefined) plans.delete(oldest)
}

/** A group for each padded size, with the plan for it; `open` opens those of the images whose places are given. */
export const groupsBySize = (
  model: Model | undefined,
  staged: Staged,
  form: Form | undefined,
  sizes: readonly Size[],
  nameOf: (i: number) => string,
  open: (at: readonly number[], graph: Graph) => Either<SpillwayError, DataSource>,
  plans: readonly Staged[] | undefined,
  kept: Kept | undefined,
  slidesOf: (i: number) => readonly SlidePlace[] = () => [],
): Either<SpillwayError, readonly Group[]> => {
  const { graph } = staged.plan
  const [batch, c, h, w] = graph.values.find((v) => v.role === 'input')!.shape as Shape
  const made = ({ height, width }: Size): Staged | undefined =>
    plans?.find((one) => sizeOfPlan(one).height === height && sizeOfPlan(one).width === width)
  const newPlanFor = (height: number, width: number): Either<SpillwayError, Staged> =>
    height === h && width === w
      ? E.right(staged)
      : plans
        ? E.fromNullable(usage(`this rank has an image of ${height} x ${width}, but rank 0 has none of this size`))(
            made({ height, width }),
          )
        : model === undefined || form === undefined
          ? E.left(usage(`an image has ${height} x ${width} pixels, but the plan is for ${h} x ${w}`))
          : resized(model, staged, [batch, c, height, width], (m) =>
              preparePrediction(m, staged.machine, { as: form, name: graph.name }),
            )
  const planFor = (height: number, width: number): Either<SpillwayError, Staged> => {
    const key = `${height} ${width}`
    const known = kept?.plans.get(key)
    const planned = known ? E.right(known) : newPlanFor(height, width)
    if (kept && E.isRight(planned)) remember(kept.plans, key, planned.right)
    return planned
  }
  const pad = kept?.pad ?? (model ? paddedBy(model) : paddedAmong([staged, ...(plans ?? [])]))
  const padded = sizes.map(pad)
  const bySize = new Map<string, number[]>()
  padded.forEach(({ height, width }, i) => bySize.set(`${height} ${width}`, [...(bySize.get(`${height} ${width}`) ?? []), i]))
  return pipe(
    [...bySize.values()],
    E.traverseArray((at) =>
      pipe(
        planFor(padded[at[0]!]!.height, padded[at[0]!]!.width),
        E.bindTo('own'),
        E.bind('data', ({ own }) => open(at, own.plan.graph)),
        E.map(({ own, data }) => {
          const part: Group['part'] = (places) =>
            open(
              places.map((place) => at[place]!),
              own.plan.graph,
            )
          const output = sizeOfValue(outputOf(own.plan.graph)!)
          const cuts = at.flatMap((i, image): readonly Cut[] => {
            const slides = isPerImage(own.plan.graph) ? [] : slidesOf(i)
            if (slides.length === 0)
              return [{ ...cutFor({ top: 0, left: 0, ...sizes[i]! }, padded[i]!, output), name: nameOf(i), image }]
            return slides.map((slide) => ({ ...cutFor(slide, padded[i]!, output), name: slide.name, image, slide }))
          })
          return groupOf(own, data, part, at.map(nameOf), at, cuts)
        }),
      ),
    ),
  )
}
