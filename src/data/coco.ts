// COCO annotations. In: the parsed JSON, the folder of its images, the kind of targets. Out: samples with category names or shapes, each with its
// place in the JSON. Invariant: each fault is refused by its place; nothing is skipped silently.
// Worked example: categories 3 'dog' and 1 'cat' are the classes cat, dog; for masks background, cat, dog.
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { runsIn, type Shape } from './annotations'
import { namesText } from './classes'

/** The targets that a model needs: one class, several classes, or a label per pixel; or only the files. */
export type Wanted = 'class' | 'classes' | 'masks' | 'files'

/** A shape with the name of its category. */
export type NamedShape = { readonly category: string; readonly shape: Shape }

export interface CocoSample {
  readonly image: string
  /** Names of the categories, each once. */
  readonly categories: readonly string[]
  readonly width: number
  readonly height: number
  readonly shapes: readonly NamedShape[]
  readonly at: string
}

export interface Coco {
  readonly samples: readonly CocoSample[]
  /** Names in the order of their ids. */
  readonly categories: readonly string[]
}

type Fields = Readonly<Record<string, unknown>>

/** A fault of the JSON; caught in `cocoIn`. */
class Fault extends Error {}
const fault = (at: string, reason: string): never => {
  throw new Fault(`${at}: ${reason}`)
}

const isFields = (u: unknown): u is Fields => typeof u === 'object' && u !== null && !Array.isArray(u)

/** Returns true if a JSON value is meant as COCO. */
export const isCoco = (u: unknown): u is Fields => isFields(u) && ['images', 'annotations', 'categories'].some((key) => key in u)

const listOf = (json: Fields, key: string): readonly Fields[] => {
  const list = json[key]
  if (!Array.isArray(list))
    return fault(
      key,
      `${list === undefined ? 'it is missing' : 'it is not a list'}; COCO needs images, annotations and categories`,
    )
  return list.map((u, i) => (isFields(u) ? u : fault(`${key}[${i}]`, 'it is not an object')))
}

const placeOf = (key: string, i: number, u: Fields): string =>
  typeof u['id'] === 'number' ? `${key}[${i}] (id ${u['id']})` : `${key}[${i}]`

const idIn = (u: Fields, key: string, at: string): number => {
  const id = u[key]
  return Number.isSafeInteger(id)
    ? Number(id)
    : fault(at, `${key} is ${JSON.stringify(id) ?? 'missing'}; allowed: a whole number`)
}

const textIn = (u: Fields, key: string, at: string): string => {
  const text = u[key]
  return typeof text === 'string' && text !== ''
    ? text
    : fault(at, `${key} is ${JSON.stringify(text) ?? 'missing'}; allowed: a text`)
}

const sizeIn = (u: Fields, key: string, at: string): number => {
  const size = idIn(u, key, at)
  return size >= 1 ? size : fault(at, `${key} is ${size}; allowed: pixels from 1 on`)
}

/** Entries by their ids, each once. */
const byId = (json: Fields, key: string): ReadonlyMap<number, { readonly u: Fields; readonly at: string }> => {
  const found = new Map<number, { readonly u: Fields; readonly at: string }>()
  listOf(json, key).forEach((u, i) => {
    const at = placeOf(key, i, u)
    const id = idIn(u, 'id', at)
    if (found.has(id)) fault(at, `its id is also that of ${found.get(id)!.at}`)
    found.set(id, { u, at })
  })
  return found
}

// ---------------------------------------------------------------- shapes

/** Coordinates may lie this number of pixels outside, as rounded ones do. */
const OUTSIDE = 1

const polygonsIn = (list: readonly unknown[], width: number, height: number, at: string): readonly (readonly number[])[] => {
  if (list.length === 0) fault(at, 'segmentation is empty; allowed: polygons or run lengths')
  return list.map((polygon, k) => {
    const place = `${at}: polygon ${k}`
    if (!Array.isArray(polygon) || polygon.length < 6 || polygon.length % 2 === 1 || !polygon.every((n) => Number.isFinite(n)))
      return fault(place, 'it is not a list of x and y of at least 3 points')
    polygon.forEach((n: number, i) => {
      const most = i % 2 === 0 ? width : height
      if (n < -OUTSIDE || n > most + OUTSIDE)
        fault(place, `point ${i >> 1} has ${i % 2 === 0 ? 'x' : 'y'} ${n}, outside of the image of ${width} x ${height} pixels`)
    })
    return polygon as readonly number[]
  })
}

const runsOf = (u: Fields, width: number, height: number, at: string): readonly number[] => {
  const { size, counts } = u
  if (!Array.isArray(size) || size[0] !== height || size[1] !== width)
    return fault(
      at,
      `its run lengths have the size ${JSON.stringify(size) ?? 'nothing'}, but the image has [${height},${width}] (height, width)`,
    )
  const read = typeof counts === 'string' ? runsIn(counts) : E.right(counts)
  if (E.isLeft(read)) return fault(at, read.left)
  const runs = read.right
  if (!Array.isArray(runs) || !runs.every((n) => Number.isSafeInteger(n) && n >= 0))
    return fault(at, 'its counts are not a list of whole numbers from 0 on, or a compressed text of them')
  const sum = runs.reduce((a: number, b: number) => a + b, 0)
  return sum === width * height ? runs : fault(at, `its run lengths have ${sum} pixels, but the image has ${width * height}`)
}

const shapeIn = (u: Fields, width: number, height: number, at: string): Shape => {
  const { segmentation, iscrowd } = u
  const own = { label: 0, isCrowd: iscrowd === 1 || iscrowd === true }
  if (Array.isArray(segmentation)) return { ...own, polygons: polygonsIn(segmentation, width, height, at) }
  if (isFields(segmentation)) return { ...own, runs: runsOf(segmentation, width, height, at) }
  return fault(
    at,
    `segmentation is ${JSON.stringify(segmentation) ?? 'missing'}; a model with a label per pixel needs polygons or run lengths`,
  )
}

// ---------------------------------------------------------------- all of it

const read = (json: Fields, folder: string, wanted: Wanted): Coco => {
  const categories = new Map([...byId(json, 'categories')].map(([id, { u, at }]) => [id, textIn(u, 'name', at)]))
  const names = [...categories].sort(([a], [b]) => a - b).map(([, name]) => name)
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) fault('categories', `two are named '${twice}'`)
  const samples = new Map(
    [...byId(json, 'images')].map(([id, { u, at }]) => {
      const [width, height] = wanted === 'masks' ? [sizeIn(u, 'width', at), sizeIn(u, 'height', at)] : [0, 0]
      return [
        id,
        {
          image: join(folder, textIn(u, 'file_name', at)),
          width,
          height,
          at,
          found: new Set<string>(),
          shapes: [] as NamedShape[],
        },
      ]
    }),
  )
  for (const { u, at } of byId(json, 'annotations').values()) {
    const [imageId, categoryId] = [idIn(u, 'image_id', at), idIn(u, 'category_id', at)]
    const sample = samples.get(imageId) ?? fault(at, `image_id ${imageId} is no id of images`)
    const category = categories.get(categoryId) ?? fault(at, `category_id ${categoryId} is no id of categories`)
    sample.found.add(category)
    if (wanted === 'masks') sample.shapes.push({ category, shape: shapeIn(u, sample.width, sample.height, at) })
  }
  return { categories: names, samples: [...samples.values()].map(({ found, ...rest }) => ({ ...rest, categories: [...found] })) }
}

/** Samples of a COCO file, or the first fault and its place. */
export const cocoIn = (json: Fields, folder: string, wanted: Wanted): Either<string, Coco> => {
  try {
    return E.right(read(json, folder, wanted))
  } catch (e) {
    if (e instanceof Fault) return E.left(e.message)
    throw e
  }
}

/** The category of an image; undefined for an image without annotations. */
export const onlyCategory = ({ categories, at }: CocoSample): Either<string, string | undefined> =>
  categories.length <= 1
    ? E.right(categories[0])
    : E.left(
        `${at}: it has the categories ${namesText([...categories].sort())}, but the model takes one class per image; for several, use --loss bce-with-logits with an output for each category`,
      )
