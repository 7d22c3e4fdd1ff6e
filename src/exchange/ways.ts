// From a graph of layers to a net. In: layers and where values meet (sums, products, concatenations), in order. Out: the net, as nested
// sequences and branches; or the place where the ways do not meet again. Invariant: every layer stands in the net once.
// Worked example: where a sum is met, the last value that both of its terms come from is looked for: from there on are its branches.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { concat, identity, residual, scaled, seq } from '../../dsl'
import { factorOver } from '../../dsl/combined'
import type { Net, Shape } from '../../dsl/net'

/** A value: a layer's result from another one, or a join of others. Value 0 is the input. */
export interface Step {
  readonly kind: 'input' | 'layer' | 'sum' | 'product' | 'join'
  readonly layer?: Net
  readonly ins: readonly number[]
  readonly shape: Shape
  /** The ONNX node that it comes from, for people. */
  readonly node: string
}

const MEETING = 'allowed: sums and concatenations of branches of one value, and a value times a function of itself'

/** The last value on all ways to both. */
const commonOf =
  (gate: readonly number[]) =>
  (a: number, b: number): number => {
    let [x, y] = [a, b]
    while (x !== y)
      if (x > y) x = gate[x]!
      else y = gate[y]!
    return x
  }

/** For each value, the last one on all ways to it: it comes before it, and values are in order. */
const gates = (steps: readonly Step[]): readonly number[] => {
  const gate: number[] = [0]
  const common = commonOf(gate)
  for (const { ins } of steps.slice(1)) gate.push(ins.length === 0 ? 0 : ins.reduce(common))
  return gate
}

const whole = (nets: readonly Net[]): Net => (nets.length === 0 ? identity : nets.length === 1 ? nets[0]! : seq(...nets))

class Ways {
  private readonly gate: readonly number[]
  private readonly passed = new Set<number>()

  constructor(private readonly steps: readonly Step[]) {
    this.gate = gates(steps)
  }

  /** The layers from value `from` to value `to`. Throws the words for a way that is used twice. */
  between(from: number, to: number): readonly Net[] {
    const nets: Net[] = []
    for (let at = to; at !== from; ) {
      const step = this.steps[at]!
      if (this.passed.has(at))
        throw new Error(`the output of ${step.node} feeds branches that do not join in one place; ${MEETING}`)
      if (step.kind === 'input') throw new Error(`the output of ${step.node} is used before its layer is complete; ${MEETING}`)
      this.passed.add(at)
      const next = step.kind === 'layer' ? step.ins[0]! : this.gate[at]!
      nets.push(step.kind === 'layer' ? step.layer! : this.meeting(step, next))
      at = next
    }
    return nets.reverse()
  }

  /** A join of values. Those in a row that come from a later value than the others are joined there. */
  private join(ins: readonly number[], from: number): Net {
    const common = commonOf(this.gate)
    const runs: { readonly of: number[]; at: number }[] = []
    for (const i of ins) {
      const last = runs[runs.length - 1]
      const at = last ? common(last.at, i) : from
      if (last && at !== from) {
        last.of.push(i)
        last.at = at
      } else runs.push({ of: [i], at: i })
    }
    return concat(
      ...runs.map(({ of, at }) =>
        whole(of.length === 1 ? this.between(from, of[0]!) : [...this.between(from, at), this.join(of, at)]),
      ),
    )
  }

  private meeting(step: Step, from: number): Net {
    if (step.kind === 'join') return this.join(step.ins, from)
    const ways = step.ins.map((i) => this.between(from, i))
    const [a, b] = ways as [readonly Net[], readonly Net[]]
    if (step.kind === 'sum') return a.length === 0 ? residual(whole(b), identity) : residual(whole(a), whole(b))
    const [value, factor] = a.length === 0 ? [step.ins[0]!, step.ins[1]!] : [step.ins[1]!, step.ins[0]!]
    const fits = factorOver(this.steps[value]!.shape, this.steps[factor]!.shape) !== undefined
    if (value !== from || !fits) throw new Error(`${step.node} is a product of two branches; ${MEETING}`)
    return scaled(...(a.length === 0 ? b : a))
  }
}

/** The layers from the input to `output`, one after the other; others are left out. */
export const netsOf = (steps: readonly Step[], output: number): Either<string, readonly Net[]> =>
  E.tryCatch(
    () => new Ways(steps).between(0, output),
    (e) => E.toError(e).message,
  )
