// Every error of dsl and staging: one tagged union that holds data, and the one function that puts it into words. Invariant: each message names the
// layer (or file place) and the legal values. Passes add variants here.
import { showBytes } from './bytes'
import { optionRefused } from './options'
import { heapToPlan } from './planningmemory'

/**
 * An error about a model: an unknown option, a wrong shape, a duplicate name. Plain data with a `tag`.
 *
 * @example const isShape = (e: GraphError) => e.tag === 'ShapeInvalid'
 */
export type GraphError =
  | { readonly tag: 'UnknownOp'; readonly layer: string; readonly kind: string; readonly legal: readonly string[] }
  | { readonly tag: 'AttrsInvalid'; readonly layer: string; readonly kind: string; readonly got: unknown; readonly legal: string }
  | { readonly tag: 'OperandCount'; readonly layer: string; readonly kind: string; readonly got: number; readonly legal: string }
  | {
      readonly tag: 'OperandInvalid'
      readonly layer: string
      readonly kind: string
      readonly operand: string
      readonly got: string
      readonly legal: string
    }
  | { readonly tag: 'ShapeInvalid'; readonly layer: string; readonly kind: string; readonly reason: string }
  | { readonly tag: 'ValueInvalid'; readonly name: string; readonly reason: string; readonly legal: string }
  | { readonly tag: 'DuplicateName'; readonly name: string; readonly role: string }
  | { readonly tag: 'NotAnOutput'; readonly got: string; readonly legal: string }
  | { readonly tag: 'UnknownLoss'; readonly got: string; readonly legal: readonly string[] }
  | { readonly tag: 'NothingToTrain'; readonly layer: string }
  | { readonly tag: 'NotDifferentiable'; readonly layer: string; readonly kind: string; readonly legal: readonly string[] }
  | { readonly tag: 'ObjectiveInvalid'; readonly objective: string; readonly reason: string; readonly legal: string }
  | { readonly tag: 'OptimizerInvalid'; readonly field: string; readonly got: string; readonly legal: string }
  | { readonly tag: 'PatternUnmatched'; readonly pattern: string; readonly nearest: string | undefined }
  | { readonly tag: 'GroupInvalid'; readonly group: number; readonly reason: string; readonly legal: string }
  | { readonly tag: 'GraphFormat'; readonly at: string; readonly reason: string }
  | { readonly tag: 'ModelInvalid'; readonly at: string; readonly reason: string }
  | { readonly tag: 'OptionInvalid'; readonly option: string; readonly got: string; readonly legal: string }
  | { readonly tag: 'OptionUnknown'; readonly option: string; readonly of: string; readonly legal: readonly string[] }

export interface TooManyCalls {
  readonly calls: number
  readonly most: number
}

/** Errors of planning, and of reading and checking plans. */
export type PlanError =
  | {
      readonly tag: 'BudgetInfeasible'
      readonly strategy: string
      readonly budgetBytes: number
      readonly smallestBytes: number
      /** Finer tiles would take less memory, but more calls than the planner has memory for. */
      readonly tooMany?: TooManyCalls
      /** The plan could swap nothing: with a lower tier, a smaller budget may work. */
      readonly withoutTier?: true
      /** The reason why no budget can work, if it is known without a search. */
      readonly reason?: string
      /** The call that needs the most memory in the plan for the smallest budget. */
      readonly call?: { readonly layer: string; readonly kind: string }
      /** The largest values on the device during that call, largest first. */
      readonly inTheWay: readonly { readonly label: string; readonly bytes: number }[]
      /** Changes of the size that fit, as flags. */
      readonly sizes?: readonly string[]
      /** The command that finds the largest batch and image that fit. */
      readonly sizesBy?: string
    }
  | {
      readonly tag: 'TierInfeasible'
      readonly strategy: string
      readonly budgetBytes: number
      /** The resource that is too small for any plan that fits the budget. */
      readonly of: 'host memory' | 'the disk' | 'writes'
      readonly hasBytes: number
      /** The least need of all plans that were tried. */
      readonly needsBytes: number
    }
  | { readonly tag: 'PlanByHandInvalid'; readonly at: string; readonly reason: string }
  | { readonly tag: 'UnknownStrategy'; readonly got: string; readonly legal: readonly string[] }
  | {
      readonly tag: 'TilingIllegal'
      readonly strategy: string
      readonly layer: string
      readonly dim: string
      readonly why: string
    }
  | {
      readonly tag: 'VerifyFailed'
      /** The rule that the plan breaks: one short name per check of verify/. */
      readonly rule: string
      readonly reason: string
      readonly segment?: number
      readonly call?: number
      readonly tile?: number
      readonly value?: string
    }
  | { readonly tag: 'PlanFormat'; readonly at: string; readonly reason: string }

/**
 * An error of planning: an error about the model, or no plan that fits. Plain data with a `tag`.
 *
 * @example const tagOf = (e: StageError) => e.tag
 */
export type StageError = GraphError | PlanError

const list = (names: readonly string[]): string => names.join(', ')
const at = (layer: string, kind: string): string => `layer '${layer}' (${kind})`

const verifyPlace = (e: Extract<PlanError, { tag: 'VerifyFailed' }>): string =>
  [
    e.segment === undefined ? '' : `segment ${e.segment}`,
    e.tile === undefined ? '' : `tile ${e.tile}`,
    e.call === undefined ? '' : `call ${e.call}`,
    e.value === undefined ? '' : `value '${e.value}'`,
  ]
    .filter((s) => s !== '')
    .join(', ')

/** The remedies, by the resource that is too small. */
const TIER_CURES: Readonly<Record<Extract<PlanError, { tag: 'TierInfeasible' }>['of'], string>> = {
  'host memory': 'raise --host-memory, add --spill DIR for a disk, or raise --budget',
  'the disk': 'use a folder on a larger disk, raise --host-memory, or raise --budget',
  writes: 'raise --spill-writes-per-step, --host-memory or --budget',
}

const tierText = (e: Extract<PlanError, { tag: 'TierInfeasible' }>): string => {
  const has = e.of === 'writes' ? `${showBytes(e.hasBytes)} of disk writes per step` : `${showBytes(e.hasBytes)} of ${e.of}`
  return (
    `no plan of strategy '${e.strategy}' in ${showBytes(e.budgetBytes)} fits ${has}: the best one needs ` +
    `${showBytes(e.needsBytes)} (${e.needsBytes} bytes); ${TIER_CURES[e.of]}`
  )
}

const moreHeap = ({ calls, most }: TooManyCalls): string =>
  `; finer tiles need ${calls} calls per step, but the heap has room to plan ${most}: ` +
  `NODE_OPTIONS=--max-old-space-size=${Math.ceil(heapToPlan(calls) / 2 ** 20)} is enough`

type BudgetRefusal = Extract<PlanError, { tag: 'BudgetInfeasible' }>

const atThePeak = ({ call, inTheWay }: BudgetRefusal): string => {
  if (inTheWay.length === 0) return ''
  const sizes = list(inTheWay.map((w) => `${w.label} ${showBytes(w.bytes)}`))
  return call ? `; then ${at(call.layer, call.kind)} needs most: ${sizes}` : `; largest at the peak: ${sizes}`
}

const sizesText = ({ sizes = [], sizesBy }: BudgetRefusal): string =>
  (sizes.length === 0 ? '' : `; ${sizes.join(' or ')} fits`) +
  (sizesBy === undefined ? '' : `; '${sizesBy}' finds the largest batch and image that fit`)

const ADD_A_TIER = '; raise --budget, or swap: add --spill DIR for a disk, or --host-memory SIZE for more RAM beside the budget'

/** Fewer bytes are probably a number of MiB without its unit. */
const LEAST_BUDGET = 2 ** 16
const unitText = (bytes: number): string =>
  bytes > 0 && bytes < LEAST_BUDGET ? `; a size without a unit is in bytes: write ${bytes}MiB for ${bytes} MiB` : ''

const renderPlanError = (e: PlanError): string => {
  switch (e.tag) {
    case 'PlanByHandInvalid':
      return e.reason
    case 'BudgetInfeasible': {
      if (e.reason !== undefined) return e.reason
      return (
        `no plan of strategy '${e.strategy}' fits ${showBytes(e.budgetBytes)}: the smallest budget that works is ` +
        `${showBytes(e.smallestBytes)} (${e.smallestBytes} bytes)` +
        atThePeak(e) +
        (e.tooMany ? moreHeap(e.tooMany) : '') +
        (e.withoutTier ? ADD_A_TIER : '') +
        sizesText(e) +
        unitText(e.budgetBytes)
      )
    }
    case 'TierInfeasible':
      return tierText(e)
    case 'UnknownStrategy':
      return `there is no strategy '${e.got}'; allowed: ${list(e.legal)}`
    case 'TilingIllegal':
      return `strategy '${e.strategy}' cannot tile layer '${e.layer}' along '${e.dim}': ${e.why}`
    case 'VerifyFailed': {
      const place = verifyPlace(e)
      return `the plan breaks rule '${e.rule}'${place === '' ? '' : ` at ${place}`}: ${e.reason}`
    }
    case 'PlanFormat':
      return `not a plan file: ${e.at}: ${e.reason}`
  }
}

export const renderError = (e: StageError): string => {
  switch (e.tag) {
    case 'UnknownOp':
      return `layer '${e.layer}': there is no operator '${e.kind}'; allowed: ${list(e.legal)}`
    case 'AttrsInvalid':
      return `${at(e.layer, e.kind)}: attributes ${JSON.stringify(e.got)} are wrong; allowed: ${e.legal}`
    case 'OperandCount':
      return `${at(e.layer, e.kind)}: it has ${e.got} inputs; allowed: ${e.legal}`
    case 'OperandInvalid':
      return `${at(e.layer, e.kind)}: operand ${e.operand} is ${e.got}; allowed: ${e.legal}`
    case 'ShapeInvalid':
      return `${at(e.layer, e.kind)}: ${e.reason}`
    case 'ValueInvalid':
      return `'${e.name}': ${e.reason}; allowed: ${e.legal}`
    case 'DuplicateName':
      return `two values are named '${e.name}'; give each ${e.role} its own name`
    case 'NotAnOutput':
      return `${e.got} cannot have a loss; allowed: ${e.legal}`
    case 'UnknownLoss':
      return `there is no loss '${e.got}'; allowed: ${list(e.legal)}`
    case 'NothingToTrain':
      return `the output of layer '${e.layer}' depends on no trained parameter; unfreeze at least one before it`
    case 'NotDifferentiable':
      return (
        `${at(e.layer, e.kind)} has no backward rule, so a network with parameters before it cannot train; ` +
        `allowed: ${list(e.legal)}`
      )
    case 'ObjectiveInvalid':
      return `objective '${e.objective}': ${e.reason}; allowed: ${e.legal}`
    case 'OptimizerInvalid':
      return `optimizer: ${e.field} is ${e.got}; allowed: ${e.legal}`
    case 'PatternUnmatched':
      return `no trained parameter matches '${e.pattern}'${e.nearest === undefined ? '' : `; did you mean '${e.nearest}'?`}`
    case 'GroupInvalid':
      return `groups[${e.group}]: ${e.reason}; allowed: ${e.legal}`
    case 'GraphFormat':
      return `not a graph: ${e.at}: ${e.reason}`
    case 'OptionInvalid':
      return `${e.option} is ${e.got}; allowed: ${e.legal}`
    case 'OptionUnknown':
      return optionRefused(e.option, { of: e.of, keys: e.legal })
    case 'ModelInvalid':
      return `not a model: ${e.at}: ${e.reason}`
    default:
      return renderPlanError(e)
  }
}
