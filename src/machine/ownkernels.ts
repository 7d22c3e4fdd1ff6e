// Products that run on a GPU's own kernels, because cuDNN or cuBLAS has no engine for them: right, and perhaps a hundred times slower. In: a plan and
// its machine. Out: their number among all calls of a step. Invariant: it asks the same questions as the preparation of calls.
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import * as O from 'fp-ts/Option'
import { HALF_IN } from '../../staging/devices'
import type { Machine } from '../../staging/graph/machine'
import { type Plan, precisionOf } from '../../staging/plan/plan'
import { callShapes } from '../../staging/plan/callcosts'
import type { CallShapes } from '../../staging/ops/op'
import { hasOnGpu } from './gpurates'
import { PRECISIONS } from './localmachine'
import { type Native, type NativeWay, tryLoadNative } from '../device/native'
import { onDevice } from '../errors/exceptions'
import { nativeCall } from './operands'
import { waysOf } from './ways'

interface Planned {
  readonly plan: Plan
  readonly machine: Pick<Machine, 'device'>
}

/** The convolutions and matrix products of a step that run on the device's own kernels. */
export interface OwnKernels {
  readonly calls: number
  readonly of: number
}

const PRODUCT = /^(conv2d|conv_transpose2d|linear)(_|$)/
const isOwn = (ways: readonly NativeWay[]): boolean => ways[0]?.name === 'own'

/** After a run: a device that no longer answers does not change the result. */
export const ownKernelsIn = (staged: Planned): OwnKernels | undefined =>
  staged.machine.device.isCard
    ? pipe(
        tryLoadNative(),
        E.flatMap((native) => onDevice(() => ownKernelsOf(native, staged))),
        O.fromEither,
        O.toUndefined,
      )
    : undefined

const ownKernelsOf = (native: Native, { plan, machine }: Planned): OwnKernels => {
  const ways = waysOf(native, machine.device.name, { precision: precisionOf(plan) === 'tf32' ? 'tf32' : 'fp32' }, 1)
  const products = plan.calls.filter((c) => PRODUCT.test(c.kind))
  const own = products.filter((c) => !c.way && isOwn(ways(c.kind, c.attrs, callShapes(plan.graph, c.ins, c.outs))))
  return { calls: own.length, of: products.length }
}

// ---------------------------------------------------------------- what a doctor asks

const PLAIN = {
  strideH: 1,
  strideW: 1,
  padTop: 1,
  padLeft: 1,
  padBottom: 1,
  padRight: 1,
  dilationH: 1,
  dilationW: 1,
  groups: 1,
} as const
const [IMAGE, WEIGHT] = [
  [8, 64, 56, 56],
  [64, 64, 3, 3],
] as const
/** A convolution of 3×3 in each direction. */
const DIRECTIONS: Readonly<Record<string, CallShapes>> = {
  conv2d: { ins: [IMAGE, WEIGHT], outs: [IMAGE] },
  conv2d_bwd_data: { ins: [IMAGE, WEIGHT], outs: [IMAGE] },
  conv2d_bwd_weights: { ins: [IMAGE, IMAGE], outs: [WEIGHT] },
}

/** The engines of the GPU's libraries for the plainest convolutions in its precisions, and the directions and precisions without one. */
export const enginesOf = (native: Native): { readonly asked: number; readonly own: readonly string[] } => {
  const facts = native.deviceFacts('cuda')
  const asked = PRECISIONS.filter((precision) => hasOnGpu(facts, precision)).flatMap((precision) =>
    Object.entries(DIRECTIONS).map(([kind, shapes]) => {
      const half = HALF_IN[precision]
      const s = half ? { ...shapes, half } : shapes
      const call = {
        device: 'cuda',
        ...nativeCall(kind, PLAIN, s, 'f32'),
        precision: precision === 'tf32' ? 'tf32' : 'fp32',
      } as const
      return { name: `${kind} in ${precision}`, own: isOwn(native.ways(call, 1)) }
    }),
  )
  return { asked: asked.length, own: asked.filter((a) => a.own).map((a) => a.name) }
}
