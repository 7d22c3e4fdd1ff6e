// The state of rewriting a PyTorch program as ONNX nodes. In: the program, node by node. Out: the arguments of the current node, and the ONNX nodes
// so far. Invariant: values are rewritten for a batch of one image, as attention is read. A value that is changed in place has a new name from
// there on. A view of its old numbers is refused. Errors are exceptions that never leave this folder.
import { elementsOf } from '../../staging/core/box'
import { type Attributes, attribute, floats, int64s } from './nodes'
import type { NodeProto, TensorProto } from './onnx'
import { type AtenNode, namesIn, optionalsIn, type Program } from './pt2'
import type { Constants } from './read'
import { numbersIn, type Strided } from './strided'

/** The reason why a node of a program has no ONNX nodes. */
export class Fault extends Error {}
export const fault = (why: string): never => {
  throw new Fault(why)
}

/** `aten.relu_.default`: its operator without the overload and the mark of a change in place. */
export const operatorOf = ({ target }: AtenNode): { readonly name: string; readonly inPlace: boolean } => {
  const name = target.split('.')[1] ?? target
  const inPlace = /[^_]_$/.test(name)
  return { name: inPlace ? name.slice(0, -1) : name, inPlace }
}

/** Random numbers of one for each image, for stochastic depth. */
export interface Noise {
  /** Probability of 1, if the numbers are 0 and 1. */
  readonly keep?: number
  /** The factor of the ones. */
  readonly scale: number
  /** Uniform random numbers plus this number, before they are rounded. */
  readonly uniform?: number
}

/** The place of the batch in a value: a part of an axis, inside `outer` other places. */
interface Batch {
  readonly axis: number
  readonly outer: number
}

export class Lowering {
  readonly nodes: NodeProto[] = []
  readonly constants: TensorProto[] = []
  /** Modules that only act in training and have no layer. */
  readonly left = new Set<string>()
  /** The present ONNX value of each value of the program. */
  private readonly now = new Map<string, string>()
  /** For each value, the value whose memory it uses. */
  private readonly memory = new Map<string, string>()
  private readonly stale = new Set<string>()
  private readonly noises = new Map<string, Noise>()
  private readonly batches = new Map<string, Batch>()
  private readonly parts = new Map<string, { readonly of: string; readonly from: number; readonly to: number }>()
  /** The values that are computed from constants (atenarrays.ts). */
  readonly arrays = new Map<string, Strided>()
  /** The memory of arrays that were reshaped to a copy. */
  readonly copied = new Set<Float64Array>()
  /** The arrays that other nodes read, with their numbers at that time. */
  readonly read = new Map<string, Constants>()
  readonly batch: number
  private node!: AtenNode

  constructor(readonly program: Program) {
    const [input = ''] = program.inputs
    this.batch = program.values.get(input)?.sizes[0] ?? 1
    this.batches.set(input, { axis: 0, outer: 1 })
  }

  // -------------------------------------------------------------- the arguments of the node

  begin(node: AtenNode): void {
    this.node = node
  }
  get operator(): string {
    return operatorOf(this.node).name
  }
  get module(): string {
    return this.node.module
  }
  private raw(name: string): unknown {
    const [kind, value] = Object.entries(this.node.arguments.get(name) ?? {})[0] ?? []
    if (kind?.startsWith('as_sym')) fault(`its argument '${name}' is a size that is not fixed; export with fixed sizes`)
    return kind === 'as_none' ? undefined : value
  }
  /** Returns true if the argument is given and is not None. */
  has(name: string): boolean {
    return this.raw(name) !== undefined
  }
  number(name: string, usual: number): number {
    const u = this.raw(name) ?? usual
    // Numbers that JSON does not have are texts.
    const n = typeof u === 'string' && /^-?Infinity$/.test(u) ? Number(u) : typeof u === 'boolean' ? Number(u) : u
    return typeof n === 'number' ? n : fault(`its argument '${name}' is not a number`)
  }
  flag(name: string, usual: boolean): boolean {
    return Boolean(this.raw(name) ?? usual)
  }
  text(name: string, usual: string): string {
    const u = this.raw(name) ?? usual
    return typeof u === 'string' ? u : fault(`its argument '${name}' is not a text`)
  }
  /** A text, where a list of numbers is legal, too. */
  word(name: string): string | undefined {
    const u = this.raw(name)
    return typeof u === 'string' ? u : undefined
  }
  list(name: string): readonly number[] | undefined {
    const u = this.raw(name)
    if (u === undefined) return undefined
    const list = Array.isArray(u) ? u : [u]
    return list.every((n) => typeof n === 'number') ? list : fault(`its argument '${name}' is not a list of numbers`)
  }
  /** One number for each of `count` dimensions. */
  each(name: string, count: number, usual: number): readonly number[] {
    const list = this.list(name) ?? []
    return list.length === count ? list : Array<number>(count).fill(list[0] ?? usual)
  }
  names(name: string): readonly string[] {
    return namesIn(this.node.arguments.get(name) ?? {})
  }
  /** The number of places of a list before its first tensor. */
  placesBefore(name: string): number {
    return optionalsIn(this.node.arguments.get(name) ?? {}).findIndex((v) => v !== undefined)
  }
  /** The ONNX values of an argument. A tensor without elements has none. */
  values(name: string): readonly string[] {
    const held = this.names(name).filter((v) => !this.program.values.get(v)?.sizes.includes(0))
    return held.map((v) => {
      if (this.noises.has(v)) fault('it computes with random numbers; allowed: a product with an image, as in stochastic depth')
      const array = this.arrays.get(v)
      if (array !== undefined) return this.array(v, array)
      return this.stale.has(v)
        ? fault(`it reads '${v}', whose memory an earlier node changes in place; use the operator that is not in place`)
        : (this.now.get(v) ?? v)
    })
  }
  /** The ONNX value of an argument; undefined if it is absent or a number. */
  value(name: string): string | undefined {
    return this.values(name)[0]
  }
  given(name: string): string {
    return this.value(name) ?? fault(`its argument '${name}' is not a tensor`)
  }
  /** A tensor or a number. */
  operand(name: string): string {
    return this.value(name) ?? this.constant(this.number(name, 0))
  }
  /** Sizes of the tensor that is an argument. */
  sizes(name: string): readonly number[] {
    return this.sizesOf(this.names(name)[0] ?? fault(`its argument '${name}' is not a tensor`))
  }
  sizesOf(value: string): readonly number[] {
    return this.program.values.get(value)?.sizes ?? fault(`the sizes of '${value}' are not in the program`)
  }
  /** Sizes of a result. */
  result(i = 0): readonly number[] {
    return this.sizesOf(this.output(i))
  }
  get outputs(): readonly string[] {
    return this.node.outputs
  }
  output(i = 0): string {
    return this.node.outputs[i] ?? fault('it has no result')
  }
  /** The axis that an argument names. */
  axis(name: string, rank: number, usual: number): number {
    const a = this.number(name, usual)
    return a < 0 ? a + rank : a
  }

  // -------------------------------------------------------------- ONNX nodes

  constant(n: number): string {
    return this.stored(floats([n], []))
  }
  ints(...ns: readonly number[]): string {
    return this.stored(int64s(ns))
  }
  index(n: number): string {
    return this.stored({ ...int64s([n]), dims: [] })
  }
  /** The present numbers of an array. */
  private array(value: string, array: Strided): string {
    const name = `array:${this.read.size}`
    const real = this.program.values.get(value)?.type !== 'I64'
    this.read.set(name, { dims: array.sizes, numbers: numbersIn(array), real })
    return name
  }
  private stored(tensor: TensorProto): string {
    const name = `constant:${this.constants.length}`
    this.constants.push({ ...tensor, name })
    return name
  }
  /** Adds a node. Its result is a new value, or one of the program. */
  add(
    opType: string,
    input: readonly (string | undefined)[],
    attributes: Attributes = {},
    to: string | readonly string[] = `${this.node.name}:${this.nodes.length}`,
    domain = '',
  ): string {
    const output = typeof to === 'string' ? [to] : to
    this.nodes.push({
      ...this.called(),
      opType,
      domain,
      input: input.map((i) => i ?? ''),
      output,
      attribute: Object.entries(attributes).map(attribute),
    })
    return output[0]!
  }
  /** The node that computes the result. */
  make(opType: string, input: readonly (string | undefined)[], attributes: Attributes = {}, domain = ''): void {
    this.add(opType, input, attributes, this.output(), domain)
  }
  /** A result that is the same value as an argument. */
  same(name: string): void {
    this.now.set(this.output(), this.given(name))
  }
  /** The ONNX value of a result of the program. */
  nameOf(value: string): string {
    return this.now.get(value) ?? value
  }
  refuse(why: string): void {
    this.nodes.push({ ...this.called(), opType: '', output: this.node.outputs, fault: why })
  }
  private called(): Pick<NodeProto, 'name' | 'called'> {
    return { name: `/${this.node.module}/${this.node.name}`.replace('//', '/'), called: this.node.target }
  }

  // -------------------------------------------------------------- random numbers

  noise(name: string): Noise | undefined {
    return this.noises.get(this.names(name)[0] ?? '')
  }
  isNoise(noise: Noise): void {
    this.noises.set(this.output(), noise)
  }

  // -------------------------------------------------------------- memory

  /** Notes that the results use the memory of an argument. */
  shares(name: string): void {
    const [from = ''] = this.names(name)
    for (const output of this.node.outputs) this.memory.set(output, this.memory.get(from) ?? from)
  }
  /** Notes that the result replaces the value of an argument. */
  replaces(name: string): void {
    const [from = ''] = this.names(name)
    const held = this.program.tensors.get(from)
    if (held !== undefined) fault(`it changes '${held.name}', which is stored in the file; allowed: counters of norms`)
    const [memory, old, result] = [this.memory.get(from) ?? from, this.nameOf(from), this.nameOf(this.output())]
    const all = new Set([from, memory, ...[...this.memory].flatMap(([value, of]) => (of === memory ? [value] : []))])
    for (const value of all)
      if (this.nameOf(value) === old) this.now.set(value, result)
      else this.stale.add(value)
    this.stale.delete(this.output())
    this.memory.set(this.output(), memory)
  }

  /** Notes that the result is a part of a vector, which is changed in place. */
  isPart(name: string, from: number, to: number): void {
    this.parts.set(this.output(), { of: this.names(name)[0]!, from, to })
  }
  partOf(name: string): { readonly of: string; readonly from: number; readonly to: number } | undefined {
    return this.parts.get(this.names(name)[0] ?? '')
  }
  /** Gives a value of the program a new ONNX value. Its parts are stale. */
  renewed(value: string, to: string): void {
    this.now.set(value, to)
    for (const [part, { of }] of this.parts) if (of === value) this.stale.add(part)
  }

  // -------------------------------------------------------------- the batch

  /** The axis of the batch of an argument. */
  batchAxis(name: string): number | undefined {
    return this.batchOf(name)?.axis
  }
  private batchOf(name: string): Batch | undefined {
    return this.batches.get(this.names(name)[0] ?? '')
  }
  private batched(batch: Batch): void {
    for (const output of this.node.outputs) this.batches.set(output, batch)
  }
  /** Notes that the results have an image of the batch in each place of their first axis. */
  isOfBatch(): void {
    this.batched({ axis: 0, outer: 1 })
  }
  /** Notes the axis of the batch of the results, from that of an argument. */
  moves(name: string, to: (axis: number) => number): void {
    const batch = this.batchOf(name)
    if (batch !== undefined) this.batched({ ...batch, axis: to(batch.axis) })
  }
  /** The same axis as in the first argument of the same rank. */
  staysBatched(): void {
    for (const output of this.node.outputs) {
      if (this.batches.has(output)) continue
      const rank = this.program.values.get(output)?.sizes.length
      const from = [...this.node.arguments.values()]
        .flatMap(namesIn)
        .find((v) => this.batches.has(v) && this.program.values.get(v)?.sizes.length === rank)
      if (from !== undefined) this.batches.set(output, this.batches.get(from)!)
    }
  }
  /** The sizes of a reshaped argument for one image. */
  reshapedTo(name: string): readonly number[] {
    const to = this.result()
    const batch = this.batchOf(name)
    if (batch === undefined) return to
    const before = elementsOf(this.sizes(name).slice(0, batch.axis)) * batch.outer
    const outerIn = (i: number): number => before / elementsOf(to.slice(0, i))
    const axis = to.findIndex((d, i) => Number.isInteger(outerIn(i)) && d % (outerIn(i) * this.batch) === 0)
    if (axis < 0) return fault('it reshapes the batch into parts of other dimensions; export with one image')
    this.batched({ axis, outer: outerIn(axis) })
    return to.map((d, i) => (i === axis ? d / this.batch : d))
  }
}

/** Writes the ONNX nodes of the current node. */
export type Lower = (l: Lowering) => void
