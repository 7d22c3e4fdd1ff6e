// Training data in files. In: `--data DIR|FILE` and the values that the model is fed. Out: the runs of samples of each, found
// by its name. Invariant: each range was inside its file, of the right shape and type, when it was looked at;
// the native reader checks every read again. Files are listed in name order, so a data set has one order.
import { readdirSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { sameShape } from '../../staging/core/box'
import { type Graph, isFed, type Value } from '../../staging/graph/graph'
import { shapeText } from '../../staging/ops/op'
import { aboutTargets, type SpillwayError } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { contentsFix, lackText } from './contents'
import { type NpyType, openNpy } from './npy'
import { openTensors, type TensorFile, type TensorType } from './safetensors'
import { statAt } from './whole'

// ---------------------------------------------------------------- what is in the files

export type ElementType = 'f16' | 'f32' | 'f64' | 'u8' | 'i32' | 'i64'
export const ELEMENT_BYTES: Readonly<Record<ElementType, number>> = { f16: 2, f32: 4, f64: 8, u8: 1, i32: 4, i64: 8 }

/** An array in a file: C order, `offset` bytes from the file's start. */
interface StoredArray {
  readonly path: string
  readonly what: string
  readonly type: ElementType
  readonly shape: readonly number[]
  readonly offset: number
}
/** The contents of one file, or of one sample's files, for each fed value, in their order. */
type Stored = readonly StoredArray[]

const FROM_NPY: Readonly<Record<NpyType, ElementType>> = { f2: 'f16', f4: 'f32', f8: 'f64', u1: 'u8', i4: 'i32', i8: 'i64' }
const FROM_TENSOR: Partial<Readonly<Record<TensorType, ElementType>>> = {
  F16: 'f16',
  F32: 'f32',
  F64: 'f64',
  U8: 'u8',
  I32: 'i32',
  I64: 'i64',
}

const refused = (file: string, reason: string): Either<SpillwayError, never> =>
  E.left({ tag: 'FileRefused', kind: 'data', file, reason })

const npyArray = (path: string): Either<SpillwayError, StoredArray> =>
  pipe(
    openNpy(path),
    E.map(({ type, shape, offset }) => ({ path, what: basename(path), type: FROM_NPY[type], shape, offset })),
  )

const fromNpys = (paths: readonly string[]): Either<SpillwayError, Stored> => E.traverseArray(npyArray)(paths)

const tensorArray =
  ({ path, tensors }: TensorFile, names: readonly string[]) =>
  (name: string): Either<SpillwayError, StoredArray> => {
    const s = tensors.get(name)
    if (!s) return refused(path, `it has no tensor '${name}'; a data file must contain ${listed(names)}`)
    const type = FROM_TENSOR[s.type]
    if (!type) return refused(path, `its '${name}' is ${s.type}; allowed: ${Object.keys(FROM_TENSOR).join(', ')}`)
    return E.right({ path, what: `'${name}' of ${basename(path)}`, type, shape: s.shape, offset: s.offset })
  }

const fromTensors = (path: string, names: readonly string[]): Either<SpillwayError, Stored> =>
  pipe(
    openTensors('data', path),
    E.flatMap((file) => E.traverseArray(tensorArray(file, names))(names)),
  )

// ---------------------------------------------------------------- which files

const listed = (names: readonly string[]): string =>
  names.length === 1
    ? `'${names[0]}'`
    : `${names
        .slice(0, -1)
        .map((n) => `'${n}'`)
        .join(', ')} and '${names[names.length - 1]}'`

/** How a folder may hold values of these names; one alone needs none. */
export const layoutsOf = (names: readonly string[]): readonly string[] => {
  const all = (form: (n: string) => string): string => names.map(form).join(' and ')
  return [
    ...(names.length === 1 ? ['NAME.npy'] : []),
    all((n) => `${n}.npy`),
    names.map((n) => `NAME.${n}.npy`).join(' beside '),
    all((n) => `${n}/NAME.npy`),
    `NAME.safetensors with tensors ${names.join(' and ')}`,
  ]
}

type Open = () => Either<SpillwayError, Stored>

/** The samples of a folder, in the first layout that it has. */
const samplesIn = (folder: string, names: readonly string[]): readonly Open[] => {
  const entries = readdirSync(folder).sort()
  const has = (n: string): boolean => entries.includes(n)
  const at = (...n: string[]): string => join(folder, ...n)
  const first = names[0]!
  if (has(`${first}.npy`)) return [() => fromNpys(names.map((n) => at(`${n}.npy`)))]
  const beside = entries.filter((n) => n.endsWith(`.${first}.npy`)).map((n) => n.slice(0, -`.${first}.npy`.length))
  if (beside.length) return beside.map((stem) => () => fromNpys(names.map((n) => at(`${stem}.${n}.npy`))))
  if (names.every(has))
    return readdirSync(at(first))
      .filter((n) => n.endsWith('.npy'))
      .sort()
      .map((file) => () => fromNpys(names.map((n) => at(n, file))))
  const tensors = entries.filter((n) => n.endsWith('.safetensors'))
  return names.length > 1 || tensors.length > 0
    ? tensors.map((n) => () => fromTensors(at(n), names))
    : entries.filter((n) => n.endsWith('.npy')).map((n) => () => fromNpys([at(n)]))
}

/** Layouts of images, for the refusal of a folder with neither images nor arrays. */
const imagesOf = (names: readonly string[]): readonly string[] =>
  names.length === 1
    ? ['image files']
    : [
        'one folder of images per class',
        'images/NAME.png beside masks/NAME.png',
        'a .csv or .json list of image and label or mask',
      ]

const listSamples = (path: string, names: readonly string[]): Either<SpillwayError, readonly Open[]> => {
  const stat = statAt(path)
  if (!stat) return E.left({ tag: 'FileMissing', kind: 'data', file: path })
  if (!stat.isDirectory()) {
    if (path.endsWith('.safetensors')) return E.right([() => fromTensors(path, names)])
    if (path.endsWith('.npy') && names.length === 1) return E.right([() => fromNpys([path])])
    return refused(
      path,
      `allowed for data: a .safetensors file with tensors ${names.join(' and ')}, ${names.length === 1 ? 'a .npy file, ' : ''}or a folder with ${layoutsOf(names).join(', or ')}`,
    )
  }
  const samples = samplesIn(path, names)
  return samples.length
    ? E.right(samples)
    : refused(
        path,
        `${lackText(path, 'samples')}; allowed: ${[...imagesOf(names), ...layoutsOf(names)].join(', or ')}; ${contentsFix(path)}`,
      )
}

// ---------------------------------------------------------------- against the model

export type Layout = 'NCHW' | 'NHWC'
/** Samples of [C,H,W] that follow each other in one file, in C order, or with the channels last. */
export interface FileTensor extends Pick<StoredArray, 'path' | 'offset' | 'type'> {
  readonly samples: number
  readonly shape: readonly [c: number, h: number, w: number]
  readonly layout: Layout
}
/** For each fed value, by its name. */
export type DataFiles = ReadonlyMap<string, readonly FileTensor[]>
export const sampleCount = (files: readonly FileTensor[]): number => files.reduce((n, f) => n + f.samples, 0)

/** How many samples of [C,H,W] an array holds; class labels may leave out dimensions of 1. */
export const samplesOf = (shape: readonly number[], sample: readonly number[], labels: boolean): number | undefined => {
  const forms = labels ? [sample, sample.filter((d) => d !== 1)] : [sample]
  if (forms.some((f) => sameShape(shape, f))) return 1
  return forms.some((f) => sameShape(shape.slice(1), f)) ? shape[0] : undefined
}

/** An array has the model's size, or any height and width, as images that are fitted to it. */
export type Taken = 'as they are' | 'of any size'

/** The shape of one sample of an array of any height and width, and how many there are; undefined where it is no image, or labels of one. */
const sizedIn = (
  shape: readonly number[],
  [c, h, w]: readonly [number, number, number],
  layout: Layout,
  labels: boolean,
): readonly [samples: number, c: number, h: number, w: number] | undefined => {
  // One label, or list of numbers, for the whole of an image.
  const whole = h * w === 1 ? samplesOf(shape, layout === 'NCHW' ? [c, h, w] : [h, w, c], labels) : undefined
  if (whole !== undefined) return [whole, c, h, w]
  if (h * w === 1 || shape.length < 2 || shape.length > 4) return undefined
  const isPlain = labels && c === 1 && (shape.length === 2 || (shape.length === 3 && shape[layout === 'NCHW' ? 0 : 2] !== 1))
  const [samples, ...sample] = shape.length === 4 || (isPlain && shape.length === 3) ? shape : [1, ...shape]
  if (isPlain) return [samples!, 1, sample[0]!, sample[1]!]
  if (sample.length !== 3) return undefined
  const [channels, height, width] = layout === 'NCHW' ? sample : [sample[2], sample[0], sample[1]]
  return channels === c ? [samples!, c, height!, width!] : undefined
}

const fitted = (
  array: StoredArray,
  value: Value,
  name: string,
  layout: Layout,
  taken: Taken,
): Either<SpillwayError, FileTensor> => {
  const labels = value.dtype === 'i32'
  const own = value.shape.slice(1) as [number, number, number]
  const [c, h, w] = own
  const sample = layout === 'NCHW' ? own : [h, w, c]
  const [samples, ...shape] =
    taken === 'as they are'
      ? ([samplesOf(array.shape, sample, labels), ...own] as const)
      : (sizedIn(array.shape, own, layout, labels) ?? ([undefined, ...own] as const))
  if (samples === undefined || shape.includes(0) || samples === 0)
    return refused(
      array.path,
      `${array.what} is ${shapeText(array.shape)}, but ${name} of the model is ${taken === 'as they are' ? '' : 'of any height and width, as '}[N,${sample.join(',')}] or ${shapeText(sample)}` +
        `${labels ? ', and dimensions of 1 may be omitted' : ''}` +
        (taken === 'as they are' && array.shape.length >= 3 && sizedIn(array.shape, own, layout, labels)
          ? "; to resize other heights and widths, set fit, e.g. fit: 'crop' (--fit crop)"
          : '') +
        (layout === 'NCHW' && samplesOf(array.shape, [h, w, c], false) !== undefined
          ? "; if its channels are last, set layout: 'NHWC' (--layout nhwc)"
          : ''),
    )
  if (labels && array.type.startsWith('f'))
    return refused(array.path, `${array.what} has type ${array.type}; class labels must be u8, i32 or i64`)
  if (value.dtype === 'u8' && array.type !== 'u8')
    return refused(array.path, `${array.what} has type ${array.type}; the model begins with fromBytes and takes bytes (u8)`)
  return E.right({ path: resolve(array.path), offset: array.offset, type: array.type, samples, shape, layout })
}

/** The fed values of a training graph: inputs, then targets. */
export const fedValues = (graph: Graph): readonly Value[] => {
  const fed = graph.values.filter(isFed)
  if (fed.length === 0) throw new Error('a training graph is fed something')
  return [...fed.filter((v) => v.role === 'input'), ...fed.filter((v) => v.role === 'target')]
}

/** The names of fed values in files: 'input' and 'target' if there is one of each, else their own. */
export const fileNames = (fed: readonly Value[]): readonly string[] =>
  fed.map((v) => (fed.filter((o) => o.role === 'input').length === 1 && fed.length === 2 ? v.role : v.name))

const sameSides = (a: readonly number[], b: readonly number[]): boolean => sameShape(a.slice(-2), b.slice(-2))
const sidesText = ({ shape: [, h, w] }: FileTensor): string => `${h} x ${w}`

/** The contents of one file, or of one sample's files, for each fed value: equal numbers of samples. */
const alike = (
  stored: Stored,
  fed: readonly Value[],
  names: readonly string[],
  layout: Layout,
  taken: Taken,
): Either<SpillwayError, readonly FileTensor[]> =>
  pipe(
    stored,
    E.traverseReadonlyArrayWithIndex((i, array) =>
      pipe(
        fitted(array, fed[i]!, names[i]!, layout, taken),
        E.mapLeft((e) => (fed[i]!.role === 'target' ? aboutTargets(e) : e)),
      ),
    ),
    E.tap((tensors) => {
      const odd = tensors.findIndex((t) => t.samples !== tensors[0]!.samples)
      if (odd >= 0)
        return refused(
          stored[odd]!.path,
          `it has ${tensors[odd]!.samples} samples, but its ${names[0]} has ${tensors[0]!.samples}`,
        )
      // A value with something for each pixel of the input has its height and width.
      const other = tensors.findIndex((t, i) => sameSides(fed[i]!.shape, fed[0]!.shape) && !sameSides(t.shape, tensors[0]!.shape))
      return taken === 'of any size' && other >= 0
        ? refused(
            stored[other]!.path,
            `${stored[other]!.what} has ${sidesText(tensors[other]!)}, but its ${names[0]} has ${sidesText(tensors[0]!)}`,
          )
        : E.right(tensors)
    }),
  )

/** Height and width of the first image, where a model is to take the size that its images have. */
export const imageSize = (
  path: string,
  layout: Layout = 'NCHW',
): Either<SpillwayError, readonly [height: number, width: number]> =>
  pipe(
    onFile('data', path)(() => listSamples(path, ['input'])),
    E.flatMap(([first]) => first!()),
    E.flatMap(([array]) => {
      const [h, w] = layout === 'NCHW' ? array!.shape.slice(-2) : array!.shape.slice(-3)
      return array!.shape.length >= 3
        ? E.right([h!, w!] as const)
        : refused(
            array!.path,
            `${array!.what} is ${shapeText(array!.shape)}; allowed: [${layout.slice(1).split('').join(',')}], or [${layout.split('').join(',')}] for several images`,
          )
    }),
  )

export const openData = (
  path: string,
  graph: Graph,
  layout: Layout = 'NCHW',
  taken: Taken = 'as they are',
): Either<SpillwayError, DataFiles> => {
  const fed = fedValues(graph)
  const names = fileNames(fed)
  return pipe(
    onFile('data', path)(() => listSamples(path, names)),
    E.flatMap(
      E.traverseArray((open) =>
        pipe(
          open(),
          E.flatMap((stored) => alike(stored, fed, names, layout, taken)),
        ),
      ),
    ),
    E.map((samples) => new Map(fed.map((v, i) => [v.name, samples.map((tensors) => tensors[i]!)]))),
  )
}
