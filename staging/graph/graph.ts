// The graph: values and ops in SSA form, in execution order. A forward graph has only ops of phase 'forward'. The training graph (grad/) adds loss,
// backward and update. Graphs are immutable; ids are indices into `values` and `ops`.
import { mapped } from '../core/mapped'
import type { AnyAttrs } from '../ops/op'
import type { TrainedBy } from '../ops/updates'

export type ValueId = number
export type OpId = number

/**
 * param   trained weights                      state   optimizer moments, running statistics: kept between steps
 * input   fed values (images)                  target  fed values that the loss compares with
 * loss    the result of training: a number     output  the result of prediction: copied to the caller as it is made, band by band
 * activation / gradient / stat: computed within the step (stat: small per-channel statistics)
 */
export const PERSISTENT_ROLES = ['param', 'state'] as const
export const FED_ROLES = ['input', 'target'] as const
export const RESULT_ROLES = ['loss', 'output'] as const
/** The roles with names at run time, in the order of their numbers on the tape. */
export const BOUND_ROLES = [...PERSISTENT_ROLES, ...FED_ROLES, ...RESULT_ROLES] as const
export const ROLES = [...BOUND_ROLES, 'activation', 'gradient', 'stat'] as const
export type ValueRole = (typeof ROLES)[number]
/** The computing type of a graph. Parameters, statistics, sums and losses are stored in it, and so are activations unless they are halves. */
export const FLOATS = ['f32', 'f64'] as const
export type Float = (typeof FLOATS)[number]
/** The element types, in the order of their numbers on the tape. */
export const DTYPES = [...FLOATS, 'i32', 'bf16', 'u8', 'f16'] as const
export type DType = (typeof DTYPES)[number]
export const dtypeBytes: Readonly<Record<DType, number>> = { f32: 4, f64: 8, i32: 4, bf16: 2, u8: 1, f16: 2 }

/** The initial values of a parameter or state: uniform in [-a, a], normal with deviation a, or the constant a. */
export const DISTRIBUTIONS = ['uniform', 'normal', 'constant'] as const
export interface Init {
  readonly dist: (typeof DISTRIBUTIONS)[number]
  readonly a: number
}

export interface Value {
  readonly id: ValueId
  /** Parameters and state: PyTorch's name ('features.0.weight'). Others: the layer's name, for people. */
  readonly name: string
  readonly role: ValueRole
  /** Activations and their gradients: [B,C,H,W] (stored channels-last); parameters: PyTorch's shape, stored dense. */
  readonly shape: readonly number[]
  readonly dtype: DType
  readonly init?: Init
  /** For a gradient: the value that it belongs to. */
  readonly gradOf?: ValueId
  /** If ranks divide its rows: this rank's rows begin at `from` of the `of` rows of the whole (graph/bands.ts). */
  readonly rows?: { readonly from: number; readonly of: number }
  /** If each of several ranks has a part of it: the shape of the whole (graph/ranks.ts). */
  readonly part?: readonly number[]
  /** For rows of a parameter or state: the name of the whole, and the index of their first element in it (graph/weightparts.ts). */
  readonly cut?: { readonly of: string; readonly first: number }
}

export const PHASES = ['forward', 'loss', 'backward', 'update'] as const
export type Phase = (typeof PHASES)[number]

export interface Op {
  readonly id: OpId
  readonly kind: string
  /** The layer that the op belongs to. */
  readonly layer: string
  readonly phase: Phase
  readonly attrs: AnyAttrs
  readonly ins: readonly ValueId[]
  readonly outs: readonly ValueId[]
}

export interface Graph {
  readonly name: string
  readonly values: readonly Value[]
  readonly ops: readonly Op[]
  /** The optimizers of a model with more than one, because ops do not have the users' options. */
  readonly trainedBy?: TrainedBy
  /** The number of ranks that share the batch, if there are several. Shapes are those of one rank's share (graph/ranks.ts). */
  readonly ranks?: number
  /** Set if each rank computes batch norms over its share, not over the whole batch. */
  readonly norms?: 'local'
  /** The values that ranks divide when they update parameters in parts: the optimizer's state, or also the sums of gradients. */
  readonly shard?: 'optimizer' | 'gradients'
  /** The operators of one process in its order, if ranks run them in another order (grad/rewrite/ranks.ts). */
  readonly alone?: readonly OpId[]
  /** The number of bands of rows that images are cut into, one per rank, and the band of this rank. */
  readonly bands?: { readonly at: number; readonly of: number }
  /** For a step with weights in parts: the step with whole weights, and the number of parts of each weight (graph/weightparts.ts). */
  readonly inParts?: { readonly whole: Graph; readonly counts: Readonly<Record<string, number>> }
}

const identity = <T>(item: T): T => item

/**
 * Returns the same graph with few object shapes among its values, ops and attributes, and with lists of one kind. V8 gives a separate shape to each
 * object that is made by spreading and then grows, and code that reads objects of many shapes is slow.
 */
export const withFewObjectShapes = (g: Graph): Graph => ({
  ...g,
  values: mapped(g.values, ({ id, name, role, shape, dtype, ...more }) => ({
    id,
    name,
    role,
    shape: mapped(shape, identity),
    dtype,
    ...more,
  })),
  ops: mapped(g.ops, ({ id, kind, layer, phase, attrs, ins, outs }) => {
    const own: Record<string, number> = {}
    for (const name in attrs) own[name] = attrs[name]!
    return { id, kind, layer, phase, attrs: own, ins: mapped(ins, identity), outs: mapped(outs, identity) }
  }),
})

/** Returns the computing type of a graph: the first f32 or f64 among the types of its values. */
export const floatOf = (g: Graph): Float =>
  g.values.find((v): v is Value & { readonly dtype: Float } => v.dtype === 'f32' || v.dtype === 'f64')?.dtype ?? 'f32'

export const valueBytes = ({ shape, dtype }: Value): number => {
  let bytes = dtypeBytes[dtype]
  for (let d = 0; d < shape.length; d++) bytes *= shape[d]!
  return bytes
}
const hasRoleIn =
  (list: readonly string[]) =>
  (v: Value): boolean =>
    list.includes(v.role)
export const isPersistent = hasRoleIn(PERSISTENT_ROLES)
/** Returns true for a parameter, its state, or the gradient of a parameter or of a standardised weight. */
export const isOfWeight = (g: Graph, v: Value): boolean =>
  isPersistent(v) || (v.gradOf !== undefined && (isPersistent(g.values[v.gradOf]!) || isLaid(g.values[v.gradOf]!)))
/** Returns true for a laid-out or standardised weight of convolutions. It is no parameter (ops/layout.ts), and has the layout of activations. */
export const isLaid = (v: Value): boolean => v.role === 'stat' && v.shape.length === 4
/** Returns true for an op of the forward pass that reads parameters only. Such ops run before all layers. */
export const isOfParameters = (values: readonly Pick<Value, 'role'>[], { ins, phase }: Pick<Op, 'ins' | 'phase'>): boolean =>
  phase === 'forward' && ins.length > 0 && ins.every((v) => values[v]!.role === 'param')
/** Returns true for values that the data source fills at each step. Their bytes are never written back. */
export const isFed = hasRoleIn(FED_ROLES)
/** Returns true if a graph has inputs of bytes, which it converts to numbers itself. */
export const readsBytes = (g: Graph): boolean => g.values.some((v) => v.dtype === 'u8')
/** Returns true for a result of the step, which is needed without a reader. */
export const isResult = hasRoleIn(RESULT_ROLES)
/** Returns true if a graph trains. A graph that only predicts has only forward ops. */
export const trains = (g: Graph): boolean => g.ops.some((op) => op.phase === 'backward' || op.phase === 'update')
