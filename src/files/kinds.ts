// The kinds of files and folders that commands write. In: a kind, a path. Out: the legal endings of its name, and a test of existing content.
// Invariant: a file of one kind never replaces a file of another kind. An empty file is of every kind.
import { closeSync, openSync, readSync } from 'node:fs'
import { extname } from 'node:path'
import { attempt } from '../errors/exceptions'

export interface FileOf {
  /** The name of the kind in errors. */
  readonly what: string
  /** A file of this kind, with an article. */
  readonly one: string
  /** The first is proposed in errors. */
  readonly endings: readonly string[]
  /** True if the writer creates the folder of the file. */
  readonly creates?: true
  /** Returns true if a file with these first bytes is of this kind. */
  readonly holds: (head: Buffer) => boolean
}

export interface FolderOf {
  readonly what: string
  /** Paths of the files that the run writes in the folder. */
  readonly writes: RegExp
  /** For an option that takes files, too: the legal places, for errors. */
  readonly legal?: string
}

const begins =
  (pattern: RegExp) =>
  (head: Buffer): boolean =>
    pattern.test(head.toString('latin1'))
const isSafetensors = (head: Buffer): boolean => head.length > 8 && head.readBigUInt64LE(0) < 2n ** 27n && head[8] === 0x7b

/** Files. Their first bytes tell them apart; generated sources carry a line that says so. */
export const FILES = {
  weights: { what: 'weights file', one: 'a safetensors file', endings: ['.safetensors'], holds: isSafetensors },
  tensors: { what: 'output', one: 'a safetensors file', endings: ['.safetensors'], creates: true, holds: isSafetensors },
  array: { what: 'output', one: 'a NumPy array', endings: ['.npy'], creates: true, holds: begins(/^\x93NUMPY/) },
  plan: { what: 'plan', one: 'a plan file', endings: ['.json'], holds: begins(/^\{"format":"spillway-plan"/) },
  module: {
    what: 'plan module',
    one: 'a generated plan module',
    endings: ['.ts', '.mts', '.cts'],
    holds: begins(/^\/\/ Written by `spillway plan --emit`/),
  },
  model: {
    what: 'model file',
    one: 'a generated model file',
    endings: ['.ts'],
    holds: begins(/^\/\/ Written by spillway import /),
  },
  report: { what: 'report', one: 'an HTML page', endings: ['.html', '.htm'], holds: begins(/^\s*<(!doctype html|html)/i) },
  trace: { what: 'trace', one: 'a trace', endings: ['.json'], holds: begins(/^\{"displayTimeUnit"/) },
  result: { what: 'result', one: 'a result of evaluate', endings: ['.json', '.jsonl', '.csv'], holds: begins(/^\{\s*"model"/) },
  resultTable: {
    what: 'result',
    one: 'a table of evaluate',
    endings: ['.csv', '.json', '.jsonl'],
    holds: begins(/^metric,class,value\r?\n/),
  },
  rates: { what: 'output', one: 'a result of lr-find', endings: ['.json', '.csv'], holds: begins(/^\{\s*"(suggested|tried)"/) },
  rateTable: { what: 'output', one: 'a table of lr-find', endings: ['.csv', '.json'], holds: begins(/^step,lr,loss,smoothed/) },
  predictions: {
    what: 'output',
    one: 'a list of predictions',
    endings: ['.json', '.jsonl'],
    creates: true,
    holds: begins(/^(\[\s*)?\{"(name|file)":/),
  },
  predictionTable: {
    what: 'output',
    one: 'a table of predictions',
    endings: ['.csv'],
    creates: true,
    holds: begins(/^(name|file,(x,y,width,height,)?class,confidence),?/),
  },
  log: { what: 'log', one: 'a log of steps', endings: ['.csv'], holds: begins(/^step,loss,seconds,time/) },
  table: { what: 'table', one: 'a table of compare', endings: ['.csv'], holds: begins(/^strategy,allocator,/) },
  plot: { what: 'plot', one: 'an SVG picture', endings: ['.svg'], holds: begins(/^\s*(<\?xml[^>]*>\s*)?<svg/) },
  onnx: { what: 'ONNX file', one: 'an ONNX file', endings: ['.onnx'], holds: (head) => head[0] === 8 },
  onnxData: { what: 'ONNX weights', one: 'a part of an ONNX file', endings: ['.data'], holds: () => true },
} as const satisfies Readonly<Record<string, FileOf>>

/** Folders. Several kinds may share one folder: their files have different names. */
export const FOLDERS = {
  checkpoints: { what: 'checkpoint directory', writes: /(^|\/)(step-\d{9,15}\.(json|safetensors)|lock\.json)$/ },
  logs: { what: 'log directory', writes: /(^|\/)(steps\.jsonl|metrics\.csv)$/, legal: 'a .csv file, or a folder' },
  events: { what: 'TensorBoard directory', writes: /(^|\/)events\.out\.tfevents\.[^/]*$/ },
  arrays: { what: 'output', writes: /\.npy$/, legal: 'a .npy, .safetensors, .csv, .json or .jsonl file, or a folder' },
  pictures: { what: 'output', writes: /\.png$/, legal: 'a folder' },
  viewer: { what: 'viewer', writes: /(^|\/)(index\.html|openseadragon\.[^/]*)$/, legal: 'a folder' },
  slides: { what: 'output', writes: /(\.tif|-overview\.png)$/, legal: 'a folder' },
} as const satisfies Readonly<Record<string, FolderOf>>

/** Endings that name a format; any other ending is part of a free name. */
const FORMAT =
  /\.(safetensors|jsonl?|html?|[ct]sv|np[yz]|onnx|pth?|bin|ckpt|h5|hdf5|pkl|svg|png|jpe?g|gif|bmp|webp|tiff?|pdf|[cm]?[jt]sx?|py|md|txt|ya?ml|zip|gz|tar)$/i

/** The ending of a name, if it names a format other than those of `endings`. */
export const otherEnding = (path: string, endings: readonly string[]): string | undefined => {
  const ending = extname(path)
  return FORMAT.test(ending) && !endings.includes(ending.toLowerCase()) ? ending : undefined
}

const HEAD_BYTES = 512

const headOf = (path: string): Buffer | undefined =>
  attempt(() => {
    const fd = openSync(path, 'r')
    try {
      const head = Buffer.alloc(HEAD_BYTES)
      return head.subarray(0, readSync(fd, head, 0, HEAD_BYTES, 0))
    } finally {
      closeSync(fd)
    }
  })

/** Returns true if the file at this path may be replaced by one of this kind. A file that nobody can read counts as another kind. */
export const mayReplace = (path: string, { holds }: FileOf): boolean => {
  const head = headOf(path)
  return head !== undefined && (head.length === 0 || holds(head))
}
