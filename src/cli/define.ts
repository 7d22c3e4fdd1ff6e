// The type of a configuration file, and `defineConfig`. In: the option interfaces of the commands. Out: for each command, its flags in camelCase
// with the values that their texts allow. Invariant: test/types/config.test.ts compares the keys with the declared flags.
// Worked example: `budget?: number` of an interface is `budget?: number | string` in a file, because '4GiB' is a text for a number.
import type { CompareOptions } from './compare'
import type { EvaluateCommandOptions } from './evaluate'
import type { ExportCommandOptions, ImportCommandOptions } from './exchange'
import type { FitsOptions } from './fits'
import type { LrFindOptions } from './lrfind'
import type { NewOptions } from './new'
import type { PlanOptions } from './plan'
import type { PredictCommandOptions } from './predict'
import type { StagingOptions } from './stage'
import type { TrainCommandOptions } from './trainoptions'
import type { ViewCommandOptions } from './view'

/** A list, or one element. A size is one text, and losses with weights are one text. */
type ListText<V extends readonly unknown[]> = number extends V['length']
  ? V[number] extends readonly [number, infer Name extends string]
    ? Name | `${string}${'+' | '*'}${string}`
    : [Text<V[number]>] extends [never]
      ? never
      : readonly Text<V[number]>[] | Text<V[number]>
  : number | string

/** The values of a file for a parsed option; never if a flag cannot give it, such as a function. */
type Text<V> = V extends string | boolean
  ? V
  : V extends number
    ? number extends V
      ? number | string
      : V | `${V}`
    : V extends readonly unknown[]
      ? ListText<V>
      : V extends { readonly kind: infer Name extends string }
        ? Name | `${Name}:${string}`
        : never

/** Options that no command has as flags. */
type Internal = 'band' | 'resumes' | 'prefetch'
type Purpose = 'mode' | 'as'
type Sharing = 'ranks' | 'bands' | 'norms' | 'shard' | 'network'

/** The flags of a command: its options without internal ones and without `Others`. */
type Flags<Options, Others extends string = never> = {
  readonly [K in keyof Options as K extends Internal | Others ? never : [Text<Options[K]>] extends [never] ? never : K]?:
    | Text<Options[K]>
    | undefined
}

/** The first argument of most commands. */
interface WithModel {
  /** A zoo network or a model file, for a command line without one. */
  readonly model?: string | undefined
}

/**
 * Options of the commands, as `defineConfig` takes them: a key per command, and below it the flags in camelCase.
 *
 * @example const config: Config = { train: { batch: 8, budget: '4GiB' } }
 */
export interface Config {
  readonly new?: Flags<NewOptions>
  readonly plan?: Flags<PlanOptions, 'plan'> & WithModel
  readonly fits?: Flags<FitsOptions, 'plan' | 'measure' | 'allocator' | 'throttle' | Purpose | Sharing> & WithModel
  readonly train?: Flags<TrainCommandOptions, Purpose | 'evaluatesSets'> & WithModel
  readonly 'lr-find'?: Flags<LrFindOptions, Purpose | 'evaluatesSets' | 'trial' | 'overfit'> & WithModel
  /** Not CompareRunsOptions: the declarations of its module need io-ts. */
  readonly 'compare-runs'?: { readonly report?: string | undefined }
  readonly evaluate?: Flags<EvaluateCommandOptions> & WithModel
  readonly predict?: Flags<PredictCommandOptions, 'images'> & WithModel
  readonly view?: Flags<ViewCommandOptions>
  readonly check?: Flags<
    StagingOptions,
    'plan' | 'classes' | 'threads' | 'measure' | 'throttle' | 'precision' | 'effort' | 'allocator' | Purpose | Sharing
  >
  readonly compare?: Flags<
    CompareOptions,
    'plan' | 'threads' | 'throttle' | 'budget' | 'strategy' | 'effort' | 'allocator' | Purpose | Sharing
  > &
    WithModel
  readonly export?: Flags<ExportCommandOptions> & WithModel
  readonly import?: Flags<ImportCommandOptions>
  readonly setup?: { readonly dryRun?: boolean | undefined }
}

/**
 * Types the options of a configuration file: `spillway.config.ts` in the working folder. Commands use them unless
 * flags of the command line give others.
 *
 * @param config A key per command, and below it the flags in camelCase.
 * @example
 * export default defineConfig({
 *   train: { batch: 8, budget: '4GiB', metrics: ['accuracy'], shuffle: false },
 *   predict: { as: 'classes', format: 'png' },
 * })
 */
export const defineConfig = (config: Config): Config => config
