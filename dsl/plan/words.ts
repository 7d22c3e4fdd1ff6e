// Errors of plans, in words: as in dsl/messages.ts, each message is one function and its type the same text. In: names, dimensions and sizes as text.
// Out: the whole words: nothing is put before or after them.

export const rangeBackwards = <F extends string, T extends string>(from: F, to: T) =>
  `layer '${to}' is before layer '${from}'; a tile range runs from the earlier layer to the later one` as const
export type RangeBackwards<F extends string, T extends string> = ReturnType<typeof rangeBackwards<F, T>>

export const rangesOverlap = <F extends string, T extends string>(from: F, previousTo: T) =>
  `layer '${from}' is not after layer '${previousTo}', the end of the previous range; tile ranges must not overlap` as const
export type RangesOverlap<F extends string, T extends string> = ReturnType<typeof rangesOverlap<F, T>>

export const cannotTile = <At extends string, K extends string, D extends string, Legal extends string>(
  at: At,
  kind: K,
  dim: D,
  legal: Legal,
) => `layer '${at}' (${kind}) cannot be tiled along '${dim}'; allowed: ${legal}` as const
export type CannotTile<At extends string, K extends string, D extends string, Legal extends string> = ReturnType<
  typeof cannotTile<At, K, D, Legal>
>

export const sumsInside = <At extends string, K extends string, D extends string>(at: At, kind: K, dim: D) =>
  `layer '${at}' (${kind}) sums over '${dim}'; end the range before it, and begin the next range with it` as const
export type SumsInside<At extends string, K extends string, D extends string> = ReturnType<typeof sumsInside<At, K, D>>

export const tooFine = <At extends string, K extends string, N extends string, D extends string, E extends string>(
  at: At,
  kind: K,
  tiles: N,
  dim: D,
  extent: E,
) => `${tiles} tiles along '${dim}' exceed the size of layer '${at}' (${kind}), which is ${extent}` as const
export type TooFine<At extends string, K extends string, N extends string, D extends string, E extends string> = ReturnType<
  typeof tooFine<At, K, N, D, E>
>

export const budgetTooSmall = <B extends string, L extends string>(budget: B, least: L) =>
  `a budget of ${budget} bytes is too small: the parameters and gradients of the largest layer alone need ${least} bytes` as const
export type BudgetTooSmall<B extends string, L extends string> = ReturnType<typeof budgetTooSmall<B, L>>

export const strategyAndPlan = () => 'a strategy cannot be used with tiles or checkpoints, which are a plan by hand' as const
export type StrategyAndPlan = ReturnType<typeof strategyAndPlan>

export const stepsOwn = <Given extends string>(given: Given) =>
  `${given} cannot be set for a step: it has its own losses and optimizers` as const
export type StepsOwn<Given extends string> = ReturnType<typeof stepsOwn<Given>>

// ---------------------------------------------------------------- a plan and a model, or a device, that do not fit

export const staleInput = <At extends string, Then extends string, Now extends string>(at: At, then: Then, now: Now) =>
  `stale plan: '${at}' was ${then} in the plan and is ${now} now; stage again` as const
export type StaleInput<At extends string, Then extends string, Now extends string> = ReturnType<typeof staleInput<At, Then, Now>>

export const staleChanged = <At extends string, K extends string>(at: At, kind: K) =>
  `stale plan: '${at}' (${kind}) has changed since it was staged; stage again` as const
export type StaleChanged<At extends string, K extends string> = ReturnType<typeof staleChanged<At, K>>

export const staleReplaced = <At extends string, K extends string, NowAt extends string, NowK extends string>(
  at: At,
  kind: K,
  nowAt: NowAt,
  nowKind: NowK,
) => `stale plan: it has '${at}' (${kind}) where the model has '${nowAt}' (${nowKind}); stage again` as const
export type StaleReplaced<At extends string, K extends string, NowAt extends string, NowK extends string> = ReturnType<
  typeof staleReplaced<At, K, NowAt, NowK>
>

export const staleGone = <At extends string, K extends string>(at: At, kind: K) =>
  `stale plan: '${at}' (${kind}) is no longer in the model; stage again` as const
export type StaleGone<At extends string, K extends string> = ReturnType<typeof staleGone<At, K>>

export const staleNew = <At extends string, K extends string>(at: At, kind: K) =>
  `stale plan: '${at}' (${kind}) is new in the model; stage again` as const
export type StaleNew<At extends string, K extends string> = ReturnType<typeof staleNew<At, K>>

export const peakOverBudget = <P extends string, B extends string>(peak: P, budget: B) =>
  `the plan needs ${peak} bytes at its peak, more than its budget of ${budget}; stage again` as const
export type PeakOverBudget<P extends string, B extends string> = ReturnType<typeof peakOverBudget<P, B>>

export const overDevice = <P extends string, N extends string, B extends string>(peak: P, name: N, memory: B) =>
  `the plan needs ${peak} bytes at its peak, more than the ${memory} of device '${name}'; stage for a smaller budget` as const
export type OverDevice<P extends string, N extends string, B extends string> = ReturnType<typeof overDevice<P, N, B>>

export const otherMode = <K extends string, Wanted extends string>(mode: K, wanted: Wanted) =>
  `this plan has mode '${mode}', but the call needs mode '${wanted}': stage with mode: '${wanted}'` as const
export type OtherMode<K extends string, Wanted extends string> = ReturnType<typeof otherMode<K, Wanted>>
