// Option texts of the command line as values. In: the typed text. Out: sizes, counts, shapes, names; or a Usage error. Invariant: every refusal
// quotes the typed text and names the legal ones.
import { cpus } from 'node:os'
import type { Command, Option } from 'commander'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { flow, pipe } from 'fp-ts/function'
import { parseBytes } from '../../staging/core/bytes'
import { ALLOCATORS, allocatorNamed } from '../../staging/memory/allocators/replay'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { orThrow } from '../errors/exceptions'
import { type Schedule, scheduleNamed } from '../train/schedules'
import type { ModelAsked } from './model'

/** How arrays lie in files, as flags say it. */
export const LAYOUTS = ['nchw', 'nhwc'] as const

/** Commander hears of a text that is not legal by an exception. */
export const option =
  <A>(parse: (text: string) => Either<SpillwayError, A>) =>
  (text: string): A =>
    orThrow(parse(text))

export const sizeOption = (flag: string, least = 0): ((text: string) => number) =>
  option(
    flow(
      parseBytes,
      E.filterOrElse(
        (bytes) => bytes >= least,
        (bytes) => `${bytes} is too small; allowed: at least ${least}`,
      ),
      E.mapLeft((reason) => usage(`${flag}: ${reason}`)),
    ),
  )

const numberWhere = (legal: (text: string) => boolean, wrong: (text: string) => string): ((text: string) => number) =>
  option(
    flow(
      E.fromPredicate(legal, (text) => usage(wrong(text))),
      E.map(Number),
    ),
  )

export const countOption = (flag: string, least = 1): ((text: string) => number) =>
  numberWhere(
    (text) => /^\d{1,15}$/.test(text) && Number(text) >= least,
    (text) => `${flag}: '${text}' is not a whole number of at least ${least}`,
  )

export const numberOption = (flag: string): ((text: string) => number) =>
  numberWhere(
    (text) => text.trim() !== '' && Number.isFinite(Number(text)) && Number(text) >= 0,
    (text) => `${flag}: '${text}' is not a number of at least 0`,
  )

/** A number of either sign. */
export const realOption = (flag: string): ((text: string) => number) =>
  numberWhere(
    (text) => text.trim() !== '' && Number.isFinite(Number(text)),
    (text) => `${flag}: '${text}' is not a number`,
  )

export const positiveOption = (flag: string): ((text: string) => number) =>
  numberWhere(
    (text) => text.trim() !== '' && Number.isFinite(Number(text)) && Number(text) > 0,
    (text) => `${flag}: '${text}' is not a number above 0`,
  )

/** More than these for each processor would stand in each other's way alone. */
const MOST_THREADS_EACH = 8

export const threadsOption = option((text) => {
  const most = MOST_THREADS_EACH * cpus().length
  return /^\d{1,15}$/.test(text) && Number(text) >= 1 && Number(text) <= most
    ? E.right(Number(text))
    : E.left(usage(`--threads: '${text}' is not a whole number from 1 to ${most} (${MOST_THREADS_EACH} per processor)`))
})

/** A number of either sign. */
export const integerOption = (flag: string): ((text: string) => number) =>
  numberWhere(
    (text) => /^-?\d{1,15}$/.test(text),
    (text) => `${flag}: '${text}' is not a whole number`,
  )

/** `90s`, `45m`, `3h`, `1h30m`: in seconds. */
export const durationOption = (flag: string): ((text: string) => number) =>
  option((text) => {
    const m = /^(?=\d)(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6}(?:\.\d{1,3})?)s)?$/.exec(text)
    const [hours, minutes, seconds] = (m ?? []).slice(1).map((n) => Number(n ?? 0))
    return m
      ? E.right((hours! * 60 + minutes!) * 60 + seconds!)
      : E.left(usage(`${flag}: '${text}' is not a time; examples: 3h, 45m, 90s, 1h30m`))
  })

/** `512`, or `509x389`: height by width. */
export const pixelsOption = (flag: string): ((text: string) => readonly [height: number, width: number]) =>
  option((text) => {
    const m = /^([1-9]\d{0,6})(?:x([1-9]\d{0,6}))?$/.exec(text)
    return m
      ? E.right([Number(m[1]), Number(m[2] ?? m[1])])
      : E.left(usage(`${flag}: '${text}' is not a size in pixels; examples: 512, or 509x389 (height x width)`))
  })

/** A canvas as its size, or the smallest for all slides of the data. */
export const AUTO = 'auto'
export type CanvasAsked = readonly [height: number, width: number] | typeof AUTO
export const canvasOption = (text: string): CanvasAsked => (text === AUTO ? AUTO : pixelsOption('--canvas')(text))

export const choiceOption = <C extends string>(flag: string, legal: readonly C[]): ((text: string) => C) =>
  option(
    E.fromPredicate(
      (text): text is C => (legal as readonly string[]).includes(text),
      (text) => unknownName(flag, text, legal),
    ),
  )

/** The parts of `spillway setup`. */
export const PARTS = ['cuda'] as const

export const DEPTHS = ['8', '16'] as const
export const depthOption = (text: string): 8 | 16 => (choiceOption('--depth', DEPTHS)(text) === '16' ? 16 : 8)

export const listOption =
  <A>(one: (text: string) => A) =>
  (text: string): readonly A[] =>
    text.split(',').map((t) => one(t.trim()))

/** A repeatable option. */
export const repeated = (text: string, before: unknown = []): readonly string[] => [...(before as readonly string[]), text]

/** A count; with a unit or a comma, sizes. */
export const budgetsOption = (text: string): number | readonly number[] =>
  /^[^a-z,]*$/i.test(text) ? countOption('--budgets')(text) : listOption(sizeOption('--budgets', 1))(text)

/** `cosine`, or `cosine:floor=0.01`. */
export const scheduleOption: (text: string) => Schedule = option(
  flow(
    scheduleNamed,
    E.mapLeft((e) => (e.tag === 'Usage' ? { ...e, message: `--schedule: ${e.message.replace(/^schedule '/, "'")}` } : e)),
  ),
)

const REPEATABLE = new WeakSet<Option>()
/** Returns true for an option that may be given several times. */
export const isRepeatable = (o: Option): boolean => REPEATABLE.has(o)

/** Refuses a value that begins with `--`: the value is missing, and commander takes the next option for it. */
export const needingValues = (c: Command): Command => {
  for (const o of c.options) {
    const { long, parseArg: parse } = o
    if (!o.required) continue
    if (parse === repeated) REPEATABLE.add(o)
    o.argParser((text: string, before: unknown) => {
      if (!text.startsWith('--')) return parse ? parse(text, before) : text
      return orThrow(
        E.left(usage(`${long} needs a value, but found '${text}'${parse ? '' : `; a file of that name is './${text}'`}`)),
      )
    })
  }
  return c
}

// ---------------------------------------------------------------- what several commands take

/** `weightDecay` is typed as --weight-decay. */
export const flagOf = (name: string): string => `--${name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`

export const knownAllocator = (name: string): Either<SpillwayError, string> =>
  pipe(
    allocatorNamed(name),
    E.bimap(
      () => unknownName('allocator', name, ALLOCATORS),
      () => name,
    ),
  )

export interface InputOptions {
  readonly image?: readonly [height: number, width: number]
  readonly batch?: number
  readonly classes?: number
}

export const overrideOf = (o: InputOptions): ModelAsked => ({
  ...(o.classes === undefined ? {} : { classes: o.classes }),
  ...(o.batch === undefined ? {} : { batch: o.batch }),
  ...(o.image === undefined ? {} : { height: o.image[0], width: o.image[1] }),
})
