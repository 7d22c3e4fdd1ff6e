// Errors of networks, in words: each message is one function, and its type is the same text. In: names and shapes. Out: the words; `TheType<...>` of
// a message is derived from the function, so both always agree. ASCII only: the type checker prints other characters as escapes.
import type { Shape } from './net'

export type ShapeText<S extends Shape> = `[${S[0]},${S[1]},${S[2]},${S[3]}]`
export const shapeText = <S extends Shape>(s: S): ShapeText<S> => `[${s[0]},${s[1]},${s[2]},${s[3]}]`

/** Where, and what. The run-time twin is the graph error 'ShapeInvalid', whose words these are. */
export const atLayer = <At extends string, Kind extends string, Reason extends string>(at: At, kind: Kind, reason: Reason) =>
  `layer '${at}' (${kind}): ${reason}` as const
export type AtLayer<At extends string, Kind extends string, Reason extends string> = ReturnType<typeof atLayer<At, Kind, Reason>>

export const notASize = <What extends string, Least extends string, N extends string>(what: What, least: Least, n: N) =>
  `its ${what} must be a whole number of at least ${least}, not ${n}` as const
export type NotASize<What extends string, Least extends string, N extends string> = ReturnType<typeof notASize<What, Least, N>>

export const windowTooLarge = <K extends string, S extends string>(window: K, shape: S) =>
  `a window of ${window} does not fit its input ${shape}` as const
export type WindowTooLarge<K extends string, S extends string> = ReturnType<typeof windowTooLarge<K, S>>

export const padTooLarge = <P extends string, K extends string>(pad: P, window: K) =>
  `a padding of ${pad} is more than half its window of ${window}` as const
export type PadTooLarge<P extends string, K extends string> = ReturnType<typeof padTooLarge<P, K>>

export const padBeyondWindow = <P extends string, K extends string>(pad: P, window: K) =>
  `with a padding of ${pad} a window of ${window} would see only padding` as const
export type PadBeyondWindow<P extends string, K extends string> = ReturnType<typeof padBeyondWindow<P, K>>

export const outputPadTooLarge = <Q extends string, S extends string, D extends string>(pad: Q, stride: S, dilation: D) =>
  `an output padding of ${pad} must be less than its stride of ${stride} or its dilation of ${dilation}` as const
export type OutputPadTooLarge<Q extends string, S extends string, D extends string> = ReturnType<
  typeof outputPadTooLarge<Q, S, D>
>

export const paddedAway = <P extends string>(pad: P) => `a padding of ${pad} removes all of its output` as const
export type PaddedAway<P extends string> = ReturnType<typeof paddedAway<P>>

export const noReflection = <P extends string, S extends string>(pad: P, shape: S) =>
  `a padding of ${pad} reflects more than its input ${shape} has; allowed: less than its height and width` as const
export type NoReflection<P extends string, S extends string> = ReturnType<typeof noReflection<P, S>>

export const notPositive = <What extends string, N extends string>(what: What, n: N) =>
  `its ${what} must be more than 0, not ${n}` as const
export type NotPositive<What extends string, N extends string> = ReturnType<typeof notPositive<What, N>>

export const notFinite = <What extends string>(what: What) => `its ${what} must be finite numbers` as const

export const channelsMisfit = <What extends string, N extends string, S extends string>(what: What, numbers: N, shape: S) =>
  `its ${what} has ${numbers} numbers for an input of ${shape}; allowed: one per channel, or one for all` as const
export type ChannelsMisfit<What extends string, N extends string, S extends string> = ReturnType<
  typeof channelsMisfit<What, N, S>
>

export const bytesNotFirst = () => 'it reads the bytes of the input, so it must be the first layer of the model' as const
export type BytesNotFirst = ReturnType<typeof bytesNotFirst>

export const maskedTwice = () => 'it is in a net that is masked already; allowed: one masked(...) around all layers' as const
export const allPixels = () =>
  'all pixels of an image count for it, those outside of the mask, too; allowed in masked nets: batchNorm, layerNorm, convolutions, poolings' as const

export const bytesNotFed = () =>
  'a net that begins with fromBytes reads the bytes of an input; apply it to the result of fed(...)' as const
export type BytesNotFed = ReturnType<typeof bytesNotFed>

export const groupsDoNotDivide = <Side extends string, C extends string, G extends string>(side: Side, channels: C, groups: G) =>
  `${channels} ${side} channels do not divide into ${groups} groups` as const
export type GroupsDoNotDivide<Side extends string, C extends string, G extends string> = ReturnType<
  typeof groupsDoNotDivide<Side, C, G>
>

export const channelsBeyond = <Last extends string, S extends string>(last: Last, shape: S) =>
  `its slice ends at channel ${last}, beyond its input of ${shape}` as const
export type ChannelsBeyond<Last extends string, S extends string> = ReturnType<typeof channelsBeyond<Last, S>>

export const headsDoNotFit = <C extends string, H extends string>(channels: C, heads: H) =>
  `${channels} channels are not queries, keys and values of ${heads} heads; allowed: multiples of 3 times the heads` as const
export type HeadsDoNotFit<C extends string, H extends string> = ReturnType<typeof headsDoNotFit<C, H>>

export const headTooWide = <C extends string>(channels: C) => `a head has ${channels} channels; allowed: 1 to 256` as const
export type HeadTooWide<C extends string> = ReturnType<typeof headTooWide<C>>

export const keysDoNotFit = <K extends string, H extends string, Q extends string>(keys: K, heads: H, queries: Q) =>
  `${keys} are not the keys and values of ${heads} heads for queries of ${queries}; allowed: the same batch and twice the channels, in whole heads` as const
export type KeysDoNotFit<K extends string, H extends string, Q extends string> = ReturnType<typeof keysDoNotFit<K, H, Q>>

export const matricesDoNotFit = <A extends string, B extends string, G extends string, O extends string>(
  first: A,
  second: B,
  groups: G,
  over: O,
) =>
  `${first} and ${second} are no matrices to contract over '${over}' with ${groups} groups of channels; allowed: the same batch, whole groups and equal sizes of the summed axes` as const
export type MatricesDoNotFit<A extends string, B extends string, G extends string, O extends string> = ReturnType<
  typeof matricesDoNotFit<A, B, G, O>
>

export const windowDoesNotDivide = <W extends string, S extends string>(window: W, shape: S) =>
  `windows of ${window} do not divide its input of ${shape}` as const
export type WindowDoesNotDivide<W extends string, S extends string> = ReturnType<typeof windowDoesNotDivide<W, S>>

export const shiftBeyondWindow = <Sh extends string, W extends string>(shift: Sh, window: W) =>
  `its shift of ${shift} is not less than its window of ${window}` as const
export type ShiftBeyondWindow<Sh extends string, W extends string> = ReturnType<typeof shiftBeyondWindow<Sh, W>>

export const tokenDoesNotFit = <P extends string, W extends string>(pixels: P, window: W) =>
  `has distances of ${pixels} pixels behind a class token, but windows of ${window}; allowed: one row of the token and all pixels, unshifted` as const
export type TokenDoesNotFit<P extends string, W extends string> = ReturnType<typeof tokenDoesNotFit<P, W>>

export const gridNotShifted = () => 'a grid has no shift; leave out `shift` or `grid`' as const
export type GridNotShifted = ReturnType<typeof gridNotShifted>

export const notFlat = <S extends string>(shape: S) =>
  `needs an input of [B,C,1,1] but gets ${shape}; put flatten() or globalAvgPool() before it` as const
export type NotFlat<S extends string> = ReturnType<typeof notFlat<S>>

export const oneValueAChannel = <S extends string>(shape: S) =>
  `needs more than one value per channel for a variance but gets ${shape}; allowed: two images or more, or frozen: true` as const
export type OneValueAChannel<S extends string> = ReturnType<typeof oneValueAChannel<S>>

export const oneValueAGroup = <S extends string>(shape: S) =>
  `needs more than one value per group for a variance but gets ${shape}; allowed: inputs with more pixels, or fewer groups` as const
export type OneValueAGroup<S extends string> = ReturnType<typeof oneValueAGroup<S>>

export const notAProbability = <P extends string>(p: P) => `its probability must be at least 0 and below 1, not ${p}` as const
export type NotAProbability<P extends string> = ReturnType<typeof notAProbability<P>>

export const sumsDiffer = <A extends string, B extends string>(body: A, shortcut: B) =>
  `the body gives ${body} but the shortcut gives ${shortcut}` as const
export type SumsDiffer<A extends string, B extends string> = ReturnType<typeof sumsDiffer<A, B>>

export const noFactor = <B extends string, S extends string>(body: B, input: S) =>
  `its layers give ${body} for an input of ${input}; allowed: that shape, or one value per channel or per pixel` as const
export type NoFactor<B extends string, S extends string> = ReturnType<typeof noFactor<B, S>>

export const termsDiffer = <A extends string, B extends string>(a: A, b: B) =>
  `a tensor of ${b} cannot be added to one of ${a}` as const
export type TermsDiffer<A extends string, B extends string> = ReturnType<typeof termsDiffer<A, B>>

export const factorMisfits = <F extends string, S extends string>(factor: F, shape: S) =>
  `a factor of ${factor} does not fit a tensor of ${shape}; allowed: that shape, or one value per channel or per pixel` as const
export type FactorMisfits<F extends string, S extends string> = ReturnType<typeof factorMisfits<F, S>>

export const targetMisfits = <T extends string, S extends string, Legal extends string>(target: T, output: S, legal: Legal) =>
  `a target of ${target} cannot be compared with an output of ${output}; allowed: ${legal}` as const
export type TargetMisfits<T extends string, S extends string, Legal extends string> = ReturnType<
  typeof targetMisfits<T, S, Legal>
>

/** The run-time twin is the graph error 'ObjectiveInvalid'. */
export const netUnapplied = <K extends string>(kind: K) => `it trains a net of kind '${kind}' that no loss depends on` as const
export const LEGAL_NETS = 'nets that the step applies'
export type NetUnapplied<
  Objective extends string,
  K extends string,
> = `objective '${Objective}': ${ReturnType<typeof netUnapplied<K>>}; allowed: ${typeof LEGAL_NETS}`

export const branchesDiffer = <A extends string, N extends string, B extends string>(first: A, branch: N, other: B) =>
  `the first branch gives ${first} but branch ${branch} gives ${other}; only the channels may differ` as const
export type BranchesDiffer<A extends string, N extends string, B extends string> = ReturnType<typeof branchesDiffer<A, N, B>>

export const noBranches = () => 'needs at least one branch' as const
export type NoBranches = ReturnType<typeof noBranches>

export const noValues = () => 'needs at least one value' as const
export type NoValues = ReturnType<typeof noValues>

export const valueUnknown = <N extends string>(name: N) =>
  `it reads '${name}', but no earlier value has this name; 'input' is the input` as const
export type ValueUnknown<N extends string> = ReturnType<typeof valueUnknown<N>>

export const valueTwice = () => 'an earlier value has its name, or it is the input; give each value its own name' as const
export type ValueTwice = ReturnType<typeof valueTwice>

export const valueUnread = () => 'no later value reads it; leave it out, or read it' as const
export type ValueUnread = ReturnType<typeof valueUnread>

export const notValues = () => 'its arguments must be values: value(name, reads, ...layers)' as const
export type NotValues = ReturnType<typeof notValues>

export const valueAlone = () => 'a value stands in the arguments of values(...)' as const
export type ValueAlone = ReturnType<typeof valueAlone>

/** The run-time twin is the graph error 'DuplicateName'. */
export const duplicateName = <N extends string>(name: N) =>
  `two values are named '${name}'; give each layer its own name` as const
export type DuplicateNameText<N extends string> = ReturnType<typeof duplicateName<N>>

/** The run-time twin is the graph error 'ValueInvalid'. */
export const LEGAL_SHAPE = 'four whole numbers [B,C,H,W] of at least 1'
export const badShape = <S extends string>(shape: S) => `its shape is ${shape}` as const
export type BadInput<S extends string> = `'input': ${ReturnType<typeof badShape<S>>}; allowed: ${typeof LEGAL_SHAPE}`

// ---------------------------------------------------------------- only while typing: at run time every size is known

export type NeedsStrict =
  'Spillway checks models while you type only with `strict` (or `strictNullChecks`) set to true in tsconfig.json; without it, use modelAt(input, net)'
export type FedNeedsStrict =
  'Spillway checks sizes while you type only with `strict` (or `strictNullChecks`) set to true in tsconfig.json; without it, give the shape the type Shape'
export type NotLiteral = 'its sizes are not number literals; if sizes are known only at run time, use modelAt(input, net)'
export type NamesUnknown<N extends string> =
  `two layers are named '${N}' for the type checker: declare their name as <N extends string>(name: N), not (name: string)`
/** The type checker follows no longer list. */
export type MostInARow = 900
export type TooManyInARow =
  'the type checker follows at most 900 layers or copies in a row; group them in smaller blocks, or use modelAt(input, net)'
/** Nor a deeper nest. */
export type MostLevels = 25
export type TooDeepANest = 'the type checker follows at most 25 nested layers; put them in a row, or use modelAt(input, net)'
export type InputNotLiteral =
  "'input': its sizes are unknown to the type checker; write them in the call, model([1, 3, 224, 224], net), or add `as const` to the array"
export type NotATuple =
  'the list of its layers is unknown to the type checker; use repeat(n, layer) instead of a loop, or modelAt(input, net)'
