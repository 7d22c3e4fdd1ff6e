// Option texts of the command line as values. In: what was typed. Out: sizes, counts, shapes, names; or a Usage error.
// Invariant: every refusal quotes what was typed and says what would be legal.
import { isLeft } from 'fp-ts/Either'
import type { InputOverride, Optimizer } from '../../dsl'
import { adam, adamw, sgd } from '../../dsl'
import { parseBytes } from '../../staging/core/bytes'
import type { Precision } from '../../staging/devices'
import type { Algorithms } from '../../staging/plan/plan'
import { SpillwayException, unknownName, usage } from '../errors/errors'
import { DEFAULT_LEARNING_RATE } from '../stage/stage'

const wrong = (message: string): never => {
  throw new SpillwayException(usage(message))
}

export const sizeOption =
  (flag: string) =>
  (text: string): number => {
    const bytes = parseBytes(text)
    return isLeft(bytes) ? wrong(`${flag}: ${bytes.left}`) : bytes.right
  }

export const countOption =
  (flag: string, least = 1) =>
  (text: string): number =>
    /^\d{1,15}$/.test(text) && Number(text) >= least
      ? Number(text)
      : wrong(`${flag}: '${text}' is not a whole number of at least ${least}`)

export const numberOption =
  (flag: string) =>
  (text: string): number => {
    const n = Number(text)
    return text.trim() !== '' && Number.isFinite(n) && n >= 0 ? n : wrong(`${flag}: '${text}' is not a number of at least 0`)
  }

/** `512`, or `509x389`: height by width. */
export const imageOption = (text: string): readonly [height: number, width: number] => {
  const m = /^([1-9]\d{0,6})(?:x([1-9]\d{0,6}))?$/.exec(text)
  return m
    ? [Number(m[1]), Number(m[2] ?? m[1])]
    : wrong(`--image: '${text}' is not a size in pixels: write 512, or 509x389 for height x width`)
}

export const choiceOption =
  <C extends string>(flag: string, legal: readonly C[]) =>
  (text: string): C => {
    if ((legal as readonly string[]).includes(text)) return text as C
    throw new SpillwayException(unknownName(flag, text, legal))
  }

export const listOption =
  <A>(one: (text: string) => A) =>
  (text: string): readonly A[] =>
    text.split(',').map((t) => one(t.trim()))

// ---------------------------------------------------------------- what several commands take

export const ALGORITHMS: readonly Algorithms[] = ['fixed', 'measured', 'fastest']
export const PRECISIONS: readonly Precision[] = ['fp32', 'tf32', 'bf16']
export const OPTIMIZERS = ['sgd', 'adam', 'adamw'] as const

export interface OptimizerOptions {
  readonly optimizer?: (typeof OPTIMIZERS)[number]
  readonly lr?: number
  readonly momentum?: number
  readonly weightDecay?: number
}

export const optimizerOf = (o: OptimizerOptions): Optimizer => {
  const lr = o.lr ?? DEFAULT_LEARNING_RATE
  const decay = o.weightDecay === undefined ? {} : { weightDecay: o.weightDecay }
  if (o.momentum !== undefined && o.optimizer !== undefined && o.optimizer !== 'sgd')
    wrong('--momentum belongs to --optimizer sgd')
  switch (o.optimizer ?? 'sgd') {
    case 'sgd':
      return sgd({ lr, momentum: o.momentum ?? 0.9, ...decay })
    case 'adam':
      return adam({ lr, ...decay })
    case 'adamw':
      return adamw({ lr, ...decay })
  }
}

export interface InputOptions {
  readonly image?: readonly [height: number, width: number]
  readonly batch?: number
}

export const overrideOf = (o: InputOptions): InputOverride => ({
  ...(o.batch === undefined ? {} : { batch: o.batch }),
  ...(o.image === undefined ? {} : { height: o.image[0], width: o.image[1] }),
})
