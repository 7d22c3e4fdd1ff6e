// Small forward graphs in few words, for tests of graph, grad and their users. Throws on an error, so that a test with an illegal graph fails loudly.
import { chain, type Either, isLeft, isRight, map, right } from 'fp-ts/Either'
import { type GraphError, renderError } from '../../staging/core/errors'
import { type ElaboratedStep, type Loss, type Optimizer, training, type TrainingOptions } from '../../staging/grad/grad'
import { lossEntry, targetOf } from '../../staging/ops/losscalls'
import { GraphBuilder } from '../../staging/graph/builder'
import type { Graph, ValueId } from '../../staging/graph/graph'
import type { AnyAttrs, Ref } from '../../staging/ops/op'

export const must = <T>(e: Either<GraphError, T>): T => {
  if (isLeft(e)) throw new Error(renderError(e.left))
  return e.right
}

export const mustFail = <T>(e: Either<GraphError, T>): GraphError => {
  if (!isLeft(e)) throw new Error('an error was expected')
  return e.left
}

export const convAttrs = (over: AnyAttrs = {}): AnyAttrs => ({
  strideH: 1,
  strideW: 1,
  padTop: 0,
  padLeft: 0,
  padBottom: 0,
  padRight: 0,
  dilationH: 1,
  dilationW: 1,
  groups: 1,
  ...over,
})
export const samePad = (kernel: number): AnyAttrs => {
  const pad = (kernel - 1) / 2
  return { padTop: pad, padLeft: pad, padBottom: pad, padRight: pad }
}

export class Sketch {
  readonly b: GraphBuilder
  readonly image: Ref
  constructor(shape: readonly number[], name = 'sketch') {
    this.b = new GraphBuilder(name)
    this.image = this.b.input('image', shape)
  }

  op(kind: string, attrs: AnyAttrs, ins: readonly Ref[], layer: string): Ref {
    return must(this.b.op(kind, attrs, ins, layer))[0]!
  }
  weight(name: string, shape: readonly number[]): Ref {
    return this.b.param(name, shape, { dist: 'uniform', a: 0.1 })
  }

  conv(x: Ref, layer: string, out: number, kernel = 3, over: AnyAttrs = samePad(kernel), bias = true): Ref {
    const channels = this.b.shape(x)[1]! / (over.groups ?? 1)
    const w = this.weight(`${layer}.weight`, [out, channels, kernel, kernel])
    const b = bias ? [this.weight(`${layer}.bias`, [out])] : []
    return this.op('conv2d', convAttrs(over), [x, w, ...b], layer)
  }

  linear(x: Ref, layer: string, out: number): Ref {
    return this.op(
      'linear',
      {},
      [x, this.weight(`${layer}.weight`, [out, this.b.shape(x)[1]!]), this.weight(`${layer}.bias`, [out])],
      layer,
    )
  }

  norm(x: Ref, layer: string): Ref {
    const [batch, c, h, w] = this.b.shape(x) as readonly [number, number, number, number]
    const one = { dist: 'constant', a: 1 } as const
    const zero = { dist: 'constant', a: 0 } as const
    const stats = this.op('bn_stats', {}, [x], layer)
    this.b.state(`${layer}.running_mean`, [c], zero)
    this.b.state(`${layer}.running_var`, [c], one)
    const affine = [this.b.param(`${layer}.weight`, [c], one), this.b.param(`${layer}.bias`, [c], zero)]
    return this.op('bn_apply', { eps: 1e-5, count: batch * h * w }, [x, stats, ...affine], layer)
  }

  groupNorm(x: Ref, layer: string, groups: number, affine: boolean): Ref {
    const [, c, h, w] = this.b.shape(x) as readonly [number, number, number, number]
    const stats = this.op('group_norm_stats', { groups }, [x], layer)
    const weights = affine ? [this.weight(`${layer}.weight`, [c]), this.weight(`${layer}.bias`, [c])] : []
    return this.op('group_norm_apply', { groups, eps: 1e-5, count: (c / groups) * h * w }, [x, stats, ...weights], layer)
  }

  frozen(x: Ref, layer: string): Ref {
    const c = this.b.shape(x)[1]!
    const one = { dist: 'constant', a: 1 } as const
    const ins = [
      this.b.state(`${layer}.running_mean`, [c], one),
      this.b.state(`${layer}.running_var`, [c], one),
      this.b.param(`${layer}.weight`, [c], one),
      this.b.param(`${layer}.bias`, [c], one),
    ]
    return this.op('bn_frozen', { eps: 1e-5 }, [x, ...ins], layer)
  }

  relu(x: Ref, layer: string): Ref {
    return this.op('relu', { slope: 0 }, [x], layer)
  }
  maxPool(x: Ref, layer: string, kernel: number, over: AnyAttrs = {}): Ref {
    const attrs = { kernelH: kernel, kernelW: kernel, strideH: kernel, strideW: kernel, padTop: 0, padLeft: 0, ceil: 0, ...over }
    return this.op('max_pool', attrs, [x], layer)
  }
  avgPool(x: Ref, layer: string, kernel: number, over: AnyAttrs = {}): Ref {
    const attrs = {
      kernelH: kernel,
      kernelW: kernel,
      strideH: kernel,
      strideW: kernel,
      padTop: 0,
      padLeft: 0,
      ceil: 0,
      countIncludePad: 1,
      padBottom: 0,
      padRight: 0,
      ...over,
    }
    return this.op('avg_pool', attrs, [x], layer)
  }
  globalPool(x: Ref, layer: string): Ref {
    const [, , h, w] = this.b.shape(x)
    return this.op('global_avg_pool', { count: h! * w! }, [x], layer)
  }
  shape(r: Ref): readonly number[] {
    return this.b.shape(r)
  }
}

/** A forward graph with one loss of one output to a fed target, over all its parameters. */
export const minimising = (
  forward: Graph,
  output: ValueId,
  loss: Loss,
  optimizer: Optimizer,
): Either<GraphError, ElaboratedStep> => {
  const b = GraphBuilder.extending(forward, 'f32')
  const entry = lossEntry(loss)
  const shape = forward.values[output]?.shape
  const params = new Map(forward.values.flatMap((v) => (v.role === 'param' ? [[v.id, optimizer] as const] : [])))
  const to = (
    target: { readonly value: ValueId; readonly detached: boolean } | { readonly constant: number },
  ): ElaboratedStep => ({
    graph: b.build(forward.ops.map((_, i) => i)),
    objectives: [
      { name: 'loss', optimizer, updates: {}, params, terms: [{ name: 'loss', loss, of: output, to: target, weight: 1 }] },
    ],
    detached: [],
  })
  return isRight(entry) && shape?.length === 4
    ? map((value: Ref) => to({ value, detached: false }))(
        b.checked(b.target('target', targetOf(entry.right, shape), entry.right.labels ? 'i32' : b.dtype)),
      )
    : right(to({ constant: 0 }))
}

export interface OneObjective extends TrainingOptions {
  readonly loss: Loss
  readonly optimizer: Optimizer
}

/** The training graph of such a step, nothing of it fused. */
export const trainingFrom = (
  forward: Graph,
  output: ValueId,
  { loss, optimizer, ...o }: OneObjective,
): Either<GraphError, Graph> => chain((s: ElaboratedStep) => training(s, o))(minimising(forward, output, loss, optimizer))
