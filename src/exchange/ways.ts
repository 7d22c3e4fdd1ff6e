// From a graph of layers to a net. In: layers and where values meet (sums, products, concatenations), in order. Out: the net, as nested
// sequences and branches; a region whose branches cross is a net of named values. Invariant: every layer stands in the net once.
// Worked example: where a sum is met, the last value that both of its terms come from is looked for: from there on are its branches.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { type Attended, concat, type Contracted, identity, type Reads, residual, scaled, seq, value, values } from '../../dsl'
import { type Combining, factorOver } from '../../dsl/combined'
import type { Net, Shape } from '../../dsl/net'

/** Options of values that are read as one, and that only named values have. */
export type PairOptions = Omit<Attended, 'attended'> | Omit<Contracted, 'contracted'>

/** A value: a layer's result from another one, or a join of others. Value 0 is the input. */
export interface Step {
  readonly kind: 'input' | 'layer' | 'sum' | 'product' | 'join' | 'attended' | 'contracted'
  readonly layer?: Net
  /** The options of an attention of the first value to the second, or of a product of both as matrices. */
  readonly options?: PairOptions
  readonly ins: readonly number[]
  readonly shape: Shape
  /** The ONNX node that it comes from, for people. */
  readonly node: string
}

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

/** A step that changes nothing has no layer. */
const layersOf = ({ layer }: Step): readonly Net[] => (layer === undefined || layer.kind === 'identity' ? [] : [layer])
const whole = (nets: readonly Net[]): Net => (nets.length === 0 ? identity : nets.length === 1 ? nets[0]! : seq(...nets))

/** Branches that are no tree, or a join without a shorthand: their values get names. */
class Crossing extends Error {}

/** A value of an open region: the values that it reads, and its layers. */
interface Reduced {
  readonly by?: Combining | 'attended' | 'contracted'
  readonly options?: PairOptions | undefined
  readonly of: readonly number[]
  readonly nets: readonly Net[]
}

class Ways {
  private readonly gate: readonly number[]
  /** For each value that the output needs, the values that read it. */
  private readonly readers: ReadonlyMap<number, ReadonlySet<number>>
  private readonly met = new Map<number, Net>()
  private passed = new Set<number>()

  constructor(
    private readonly steps: readonly Step[],
    output: number,
  ) {
    this.gate = gates(steps)
    this.readers = readersOf(steps, output)
  }

  /** The layers from value `from` to value `to`. Throws a Crossing for a way that is used twice. */
  between(from: number, to: number): readonly Net[] {
    const nets: Net[] = []
    for (let at = to; at !== from; ) {
      const step = this.steps[at]!
      if (this.passed.has(at)) throw new Crossing()
      if (step.kind === 'input') throw new Error(`the output of ${step.node} is used before its layer is complete`)
      this.passed.add(at)
      nets.push(...(step.kind === 'layer' ? layersOf(step) : [this.meeting(at)]))
      at = step.kind === 'layer' ? step.ins[0]! : this.gate[at]!
    }
    return nets.reverse()
  }

  // -------------------------------------------------------------- where ways meet

  /** The values between a meeting and the last value on all ways to it. */
  private region(at: number): ReadonlySet<number> {
    const inside = new Set<number>()
    const open = [...this.steps[at]!.ins]
    for (let i = open.pop(); i !== undefined; i = open.pop()) {
      if (i === this.gate[at] || inside.has(i)) continue
      inside.add(i)
      open.push(...this.steps[i]!.ins)
    }
    return inside
  }

  /** Returns true if nothing outside reads the values inside. */
  private isContained(at: number, inside: ReadonlySet<number>): boolean {
    return [...inside].every((i) => [...this.readers.get(i)!].every((r) => r === at || inside.has(r)))
  }

  private meeting(at: number): Net {
    const known = this.met.get(at)
    if (known) return known
    const inside = this.region(at)
    if (!this.isContained(at, inside)) throw new Crossing()
    const before = this.passed
    const net = this.apart(() => this.tree(at)) ?? this.apart(() => this.open(at))
    this.passed = new Set([...before, ...inside])
    this.met.set(at, net)
    return net
  }

  /** The result for a region whose values nothing has passed yet. */
  private apart<A>(make: () => A): A {
    this.passed = new Set()
    return make()
  }

  /** Branches within each other; undefined if they cross. */
  private tree(at: number): Net | undefined {
    try {
      return this.closed(this.steps[at]!, this.gate[at]!)
    } catch (e) {
      if (e instanceof Crossing) return undefined
      throw e
    }
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

  private closed(step: Step, from: number): Net {
    if (step.kind === 'join') return this.join(step.ins, from)
    if (step.kind === 'attended' || step.kind === 'contracted') throw new Crossing()
    const ways = step.ins.map((i) => this.between(from, i))
    const [a, b] = ways as [readonly Net[], readonly Net[]]
    if (step.kind === 'sum') return a.length === 0 ? residual(whole(b), identity) : residual(whole(a), whole(b))
    const [value, factor] = a.length === 0 ? [step.ins[0]!, step.ins[1]!] : [step.ins[1]!, step.ins[0]!]
    if (value !== from || factorOver(this.steps[value]!.shape, this.steps[factor]!.shape) === undefined) throw new Crossing()
    const gate = a.length === 0 ? b : a
    return scaled(...(gate.length === 0 ? [identity] : gate))
  }

  // -------------------------------------------------------------- named values

  /** A net of named values for a meeting whose branches cross. */
  private open(at: number): Net {
    const from = this.gate[at]!
    const made = new Map<number, Reduced>()
    const open = [at]
    for (let i = open.pop(); i !== undefined; i = open.pop()) {
      if (i === from || made.has(i)) continue
      const reduced = this.reduced(i, i === at)
      made.set(i, reduced)
      open.push(...reduced.of)
    }
    return values(...namedValues(made, from, at))
  }

  /** One layer, a net for all of a contained region, or a combination of values. */
  private reduced(i: number, isLast: boolean): Reduced {
    const step = this.steps[i]!
    if (step.kind === 'input') throw new Error(`the output of ${step.node} is used before its layer is complete`)
    if (step.kind === 'layer') return { of: step.ins, nets: layersOf(step) }
    if (!isLast && this.isContained(i, this.region(i))) return { of: [this.gate[i]!], nets: [this.meeting(i)] }
    if (step.kind === 'attended' || step.kind === 'contracted')
      return { by: step.kind, options: step.options, of: step.ins, nets: [] }
    if (step.kind === 'product') return { by: 'multiplied', of: this.factors(step), nets: [] }
    return { by: step.kind === 'sum' ? 'added' : 'joined', of: step.ins, nets: [] }
  }

  /** A product's value, then its factor. */
  private factors({ ins, node }: Step): readonly number[] {
    const shapes = ins.map((i) => this.steps[i]!.shape) as [Shape, Shape]
    if (factorOver(shapes[0], shapes[1]) !== undefined) return ins
    if (factorOver(shapes[1], shapes[0]) !== undefined) return [ins[1]!, ins[0]!]
    throw new Error(
      `${node} multiplies [${shapes[0].slice(1).join(',')}] by [${shapes[1].slice(1).join(',')}]; ` +
        'allowed: equal sizes, one value per channel or one per pixel',
    )
  }
}

/** The values that need each value, on the ways to the output. */
const readersOf = (steps: readonly Step[], output: number): ReadonlyMap<number, ReadonlySet<number>> => {
  const readers = new Map<number, Set<number>>([[output, new Set()]])
  for (let i = output; i > 0; i--)
    if (readers.has(i)) for (const v of steps[i]!.ins) readers.set(v, (readers.get(v) ?? new Set()).add(i))
  return readers
}

/** Values in order: those that several read, those that are combined, and the last. Others are layers of their reader's. */
const namedValues = (made: ReadonlyMap<number, Reduced>, from: number, last: number): readonly Net[] => {
  const reads = new Map<number, number>()
  for (const { by, of } of made.values()) for (const i of of) reads.set(i, (reads.get(i) ?? 0) + (by ? 2 : 1))
  const isNamed = (i: number): boolean => i === last || reads.get(i)! > 1
  const named = [...made.keys()].filter(isNamed).sort((a, b) => a - b)
  const nameOf = (i: number): string => (i === from ? 'input' : `v${named.indexOf(i) + 1}`)
  /** The reads of a value and its layers, those of nameless values before it included. */
  const line = (last: number): { readonly reads: Reads; readonly nets: readonly Net[] } => {
    const nets: (readonly Net[])[] = []
    for (let i = last; ; ) {
      const { by, options, of, nets: own } = made.get(i)!
      nets.push(own)
      const [before] = of as [number]
      const reads = by ? ({ [by]: of.map(nameOf), ...options } as unknown as Reads) : nameOf(before)
      if (by || before === from || isNamed(before)) return { reads, nets: nets.reverse().flat() }
      i = before
    }
  }
  return named.map((i) => {
    const { reads, nets } = line(i)
    return value(nameOf(i), reads, ...nets)
  })
}

/** The layers from the input to `output`, one after the other; others are left out. */
export const netsOf = (steps: readonly Step[], output: number): Either<string, readonly Net[]> =>
  E.tryCatch(
    () => new Ways(steps, output).between(0, output),
    (e) => E.toError(e).message,
  )
