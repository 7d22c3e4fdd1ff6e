// `spillway export MODEL` and `spillway import FILE.onnx`: networks to other programs and from them. In: a model and its weights, or an ONNX file.
// Out: the one or the other. Invariant: refusals come before any output.
import { existsSync } from 'node:fs'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { type SpillwayError, usage } from '../errors/errors'
import { placesOf, tryExportOnnx } from '../exchange/export'
import { importing, unsupportedIn } from '../exchange/import'
import { showCount, showShape, showSize } from '../report/format'
import { CODE_FILES, looksLikeFile } from './load'
import { live } from './live'
import { readingModel } from './modelreads'
import { flagOf, type InputOptions, overrideOf } from './options'
import { type Done, note, type Output } from './output'
import { readModel } from './phases'
import { sizeIn, withRecipe } from './recipe'

export interface ExportCommandOptions extends InputOptions {
  readonly weights?: string
  readonly out?: string
  readonly net?: string
  readonly externalData?: boolean
}

/** A flag that has to be given. */
const given = (value: string | undefined, flag: string, what: string): Either<SpillwayError, string> =>
  value === undefined ? E.left(usage(`${flag} is missing: ${what}`)) : E.right(value)

export const exportModel = (model: string | undefined, o: ExportCommandOptions, out: Output): Done =>
  pipe(
    given(o.weights, '--weights', 'the weights to export (safetensors); train writes them'),
    E.bindTo('weights'),
    E.bind('file', () => given(o.out, '--out', 'the ONNX file to write')),
    E.bind('completed', () => withRecipe('export', model, o)),
    E.tap(({ weights, file, completed }) => placesOf({ ...o, weights, out: file }, flagOf, readingModel(completed.model))),
    E.bind('named', ({ completed: { model, options, recipe } }) =>
      readModel(model, overrideOf({ ...(recipe ? sizeIn(recipe) : {}), ...options })),
    ),
    E.bind('made', ({ named, weights, file }) =>
      tryExportOnnx(named.model, { weights, out: file, net: o.net, externalData: o.externalData }),
    ),
    E.map(({ named, made }) => {
      if (made.unused.length > 0) note(`left out, because the model does not have them: ${made.unused.slice(0, 12).join(', ')}`)
      return out.answer(
        { model: named.name, ...made },
        `${named.name} as ONNX (opset ${made.opset}): ${made.nodes} nodes, ${showCount(made.parameters)} parameters, ` +
          `${showShape(made.input)} to ${showShape(made.output)}, any batch\n${made.out}  ${showSize(made.bytes)}` +
          `${made.data === undefined ? '' : `\n${made.data} contains the weights: keep both files together`}`,
      )
    }),
  )

export interface ImportCommandOptions extends Omit<InputOptions, 'classes'> {
  readonly out?: string
  readonly save?: string
  readonly output?: string
  readonly listUnsupported?: boolean
}

const listed = (file: string, o: ImportCommandOptions, out: Output): Done =>
  pipe(
    unsupportedIn(file, { image: o.image, batch: o.batch, output: o.output }),
    E.map((found) => {
      const lines = [...found].map(([node, why]) => `${node}: ${why}`)
      return out.answer(
        { file, unsupported: lines },
        lines.length === 0
          ? `${file}: every node is supported`
          : `${file}: ${lines.length} unsupported nodes\n${lines.join('\n')}`,
      )
    }),
  )

const newModelFile = (path: string): Either<SpillwayError, string> =>
  looksLikeFile(path) && path.endsWith('.ts')
    ? E.right(path)
    : E.left(usage(`--out: '${path}' is not a TypeScript file; its name must end with .ts`, undefined))

export const importModel = (file: string, o: ImportCommandOptions, out: Output): Done =>
  o.listUnsupported ? listed(file, o, out) : imported(file, o, out)

const imported = (file: string, o: ImportCommandOptions, out: Output): Done =>
  pipe(
    given(o.out, '--out', 'the model file to write, e.g. my-net.ts'),
    E.flatMap(newModelFile),
    E.filterOrElse(
      () => !CODE_FILES.some((end) => file.endsWith(end)) || !existsSync(file),
      () => usage(`import takes an ONNX file or a .pt2 file of torch.export.save, but '${file}' is a model file`),
    ),
    E.tap(() => E.right(live.show(`reading ${file}`))),
    E.flatMap((to) => importing(file, { out: to, save: o.save, image: o.image, batch: o.batch, output: o.output }, flagOf)),
    E.map((made) => {
      if (made.copied.length > 0)
        note(`several layers share these weights; each gets its own copy: ${made.copied.slice(0, 12).join(', ')}`)
      if (made.constants.length > 0)
        note(
          `these weights are one number for all channels and become constants, which are not trained: ${made.constants.slice(0, 12).join(', ')}`,
        )
      if (made.buffers.length > 0)
        note(
          `these buffers of the program become weights and are trained, unless you freeze them: ${made.buffers.slice(0, 12).join(', ')}`,
        )
      if (made.left.length > 0)
        note(
          `these modules drop whole channels in training; they have no layer and are left out: ${made.left.slice(0, 12).join(', ')}`,
        )
      return out.answer(
        made,
        `wrote ${made.out}: ${made.layers} layers, ${showCount(made.parameters)} parameters, ${showShape(made.input)} to ` +
          `${showShape(made.output)}\n${made.save}  the weights, ${showSize(made.bytes)}\n` +
          `to train it further: spillway train ${made.out} --weights ${made.save}`,
      )
    }),
  )
