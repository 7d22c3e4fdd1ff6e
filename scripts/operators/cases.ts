// Random cases of the kernels' tests, for operators whose entries have samples. In: the op table. Out: a header with each sample as a forward
// call and the ops of its backward rule, with sizes in terms of a random image. Worked example: relu's sample on an image gives relu(v0) -> v1,
// relu_bwd(v1, v2) -> v3, and says that v3 is the gradient of v1 by v0 along v2.
import { isLeft } from 'fp-ts/Either'
import type { Dim } from '../../staging/core/box'
import {
  type AnyAttrs,
  attrNames,
  type CallShapes,
  type GradContext,
  inputDef,
  inputsWith,
  type OpDef,
  type OperandDef,
  type Ref,
} from '../../staging/ops/op'

/** Sizes of the image for samples: prime factors show their use. */
const MARKERS = [1009, 2003, 3001, 4001] as const

/** `2*d[1]`, for a size of two times the image's channels. */
const sized = (n: number): string => {
  const factors: string[] = []
  let rest = n
  for (const [i, m] of MARKERS.entries()) for (; rest !== 0 && rest % m === 0; rest /= m) factors.push(`d[${i}]`)
  return factors.length === 0 ? String(rest) : [...(rest === 1 ? [] : [String(rest)]), ...factors].join(' * ')
}

type Shape = readonly number[]
const dimsText = (s: Shape): string => `{${[0, 1, 2, 3].map((i) => sized(s[i] ?? 1)).join(', ')}}`

class Drawing {
  private readonly values: string[] = []
  private readonly shapes: Shape[] = []
  private readonly calls: string[] = []
  private readonly gradients: string[] = []

  constructor(private readonly find: (kind: string) => OpDef) {}

  text(def: OpDef, { attrs, ins }: { readonly attrs: AnyAttrs; readonly ins: readonly Shape[] }): string {
    const due = inputsWith(def, attrs)
    const read = ins.map((s, i) => this.value(s, due[i] ?? inputDef(def, i)))
    const outs = this.call(def.kind, attrs, read, [])
    def.backward?.(this.context(def, attrs, read, outs))
    return `{{${this.values.join(', ')}},\n     {${this.calls.join(',\n      ')}},\n     {${this.gradients.join(', ')}}}`
  }

  private value(shape: Shape, o: OperandDef): Ref {
    const filled = o.drawn === undefined ? '' : `, Fill::${o.drawn}`
    this.values.push(`{${dimsText(shape)}, ${shape.length}, ${o.role === 'data'}${filled}}`)
    return (this.shapes.push(shape) - 1) as Ref
  }

  private call(kind: string, attrs: AnyAttrs, ins: readonly Ref[], given: readonly Shape[]): readonly Ref[] {
    const def = this.find(kind)
    const shapesIn = ins.map((v) => this.shapes[v]!)
    const made = def.shape(attrs, shapesIn, given)
    if (isLeft(made)) throw new Error(`a sample of ${kind}: ${made.left}`)
    const outs = made.right.map((s, i) => this.value(s, def.outs[i]!))
    const shapes: CallShapes = { ins: shapesIn, outs: made.right }
    const operands = (list: readonly Ref[], defs: (i: number) => OperandDef): string =>
      `{${list.map((v, i) => `{${v}, Reach::${reach(def, defs(i), attrs, shapes)}}`).join(', ')}}`
    const numbers = attrNames(def, attrs).map((f) => sized(attrs[f]!))
    const anchor = def.anchor === 'out' ? ins.length : def.anchor
    const mutated = def.mutates ? `, {${def.mutates.filter((i) => i < ins.length).join(', ')}}` : ''
    this.calls.push(
      `{OpKind::${kind}, {${numbers.map((n) => `double(${n})`).join(', ')}}, ${operands(ins, (i) => inputDef(def, i))}, ` +
        `${operands(outs, (i) => def.outs[i]!)}, ${anchor}, ${def.dense === true}, ${def.inPlace?.[0] ?? -1}${mutated}}`,
    )
    return outs
  }

  private context(def: OpDef, attrs: AnyAttrs, ins: readonly Ref[], outs: readonly Ref[]): GradContext {
    const seed = this.value(this.shapes[outs[0]!]!, def.outs[0]!)
    const refuse = (): never => {
      throw new Error(`${def.kind}: joined gradients have no samples`)
    }
    return {
      attrs,
      ins,
      outs,
      outputGradient: () => seed,
      needsGradient: (i) => i < ins.length,
      shape: (r) => this.shapes[r]!,
      emit: (kind, a, operands, given) => this.call(kind, a, operands, given),
      addGradient: (i, gradient) => {
        this.gradients.push(`{${i}, ${seed}, ${gradient}}`)
      },
      addJoinedGradient: refuse,
      earlierJoinedGradient: refuse,
    }
  }
}

/** How rows and columns of an operand follow from those of the anchor. */
const reach = (def: OpDef, o: OperandDef, attrs: AnyAttrs, s: CallShapes): 'same' | 'all' => {
  const tags = (['H', 'W'] as readonly Dim[]).map((d) => o.access?.(attrs as never, s)[d].tag ?? 'all')
  if (tags.every((t) => t === 'same')) return 'same'
  if (tags.every((t) => t === 'all' || t === 'reduce')) return 'all'
  throw new Error(`${def.kind}: an operand of access ${tags.join(', ')} has no samples`)
}

const CASES_OF_A_SAMPLE = 10

const family = (def: OpDef, find: (kind: string) => OpDef): string => {
  const samples = def.samples!(MARKERS as unknown as readonly [number, number, number, number]).map((s) =>
    new Drawing(find).text(def, s),
  )
  return `Family ${def.kind}_drawn(Random& r) {
  [[maybe_unused]] const Dims d = image(r);
  return family_of(r, {
    ${samples.join(',\n    ')}});
}
const Listed ${def.kind}_drawn_listed{"${def.kind}", ${def.kind}_drawn, ${CASES_OF_A_SAMPLE * samples.length}};`
}

export const cases = (opDefs: readonly OpDef[]): string => {
  const byKind = new Map(opDefs.map((d) => [d.kind, d]))
  return `// Generated by scripts/gen-ops.ts from the samples of the op table. Do not edit.
#include "test/native/kernels/drawn.hpp"

namespace spillway::test {
namespace {

${opDefs
  .filter((d) => d.samples)
  .map((d) => family(d, (kind) => byKind.get(kind)!))
  .join('\n\n')}

}  // namespace
}  // namespace spillway::test
`
}
