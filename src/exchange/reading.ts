// The state of reading ONNX nodes one by one. In: a file, its input. Out: the facts and inputs of the current node, and the steps, names and
// parameters so far. Invariant: a step has passed the rules of its layer at its sizes; a layer has weights of its own. Errors are exceptions that
// never leave this folder.
import * as E from 'fp-ts/Either'
import { affine, flatten, fromBytes, identity, modelAt, pixelShuffle, sliceChannels, turnPixels } from '../../dsl'
import type { Net, Shape } from '../../dsl/net'
import { elementsOf } from '../../staging/core/box'
import { renderError } from '../../staging/core/errors'
import type { SpillwayError } from '../errors/errors'
import { numberOf } from '../files/protobuf'
import type { AttributeProto, NodeProto } from './onnx'
import { floatOf, intOf, intsOf, numbersOf, type OnnxFile, textOf } from './read'
import { channelAtoms, channelsOfAxis, renumbered } from './channels'
import { type Axis, type Meaning, nodeText, type View, type Weight } from './symbols'
import { axesOfForm, channelsIn, isTurnedImage, joined, meaningOf, rereadAs, sizeOf, turnedAxes } from './views'
import type { PairOptions, Step } from './ways'

/** PyTorch's names of weights have dots, those of its exporters' constants have none. */
export const isOfModule = ({ tensor }: Weight): boolean => /^[\w-]+(\.[\w-]+)+$/.test(tensor.name)
/** Returns true for one trained number, for all channels. */
export const isTrainedNumber = (w: Weight): boolean => elementsOf(w.dims) === 1 && isOfModule(w) && !w.tensor.isFixed

/** A parameter of the net, and the numbers that it has. */
export interface Parameter extends Weight {
  readonly name: string
  readonly shape: readonly number[]
}

/** The shortest number that is the same in single precision: files hold 0.00001 as 0.000009999999747378752. */
export const shortest = (n: number): number => {
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(n.toPrecision(digits))
    if (Math.fround(short) === Math.fround(n)) return short
  }
  return n
}

/** Meanings that no layer reads, in messages. */
const CALLED: Readonly<Partial<Record<Meaning['tag'], string>>> = {
  weight: 'a constant',
  view: 'a reshaped or sliced value',
  scores: 'scores of attention',
  response: 'a part of a global response norm',
  windows: 'the windows of a pool',
  array: 'a computed constant',
  power: 'a part of a generalised mean',
  standard: 'a part of a standardised weight',
  rotated: 'a part of rotary positions',
  length: 'the length of channels or pixels',
  network: 'a part of a network of distances',
  reversed: 'a table of relative positions',
  exponents: 'trained factors of cosines',
  blanked: 'a weight with zeros in places',
  squares: 'a part of a norm of channels',
  spread: 'repeated weights',
  weights: 'several weights',
  band: 'a part of the rows or columns',
  every: 'a part of the rows or columns',
}

/** Words about a node, out of the middle of reading it. */
export class Refused extends Error {}
export const refuse = (why: string): never => {
  throw new Refused(why)
}

export const near = (a: number, b: number): boolean => Math.abs(a - b) <= 1e-4 * Math.abs(b)
/** PyTorch names nodes by their modules, each with all of its path in the one around: '/block/body/body.0/Conv' is block.body.0. */
const scopeOf = ({ name, opType = 'layer' }: NodeProto): string => {
  const path = (name || opType).split('/').filter((p) => p !== '')
  const modules: string[] = []
  for (const part of path.length > 1 ? path.slice(0, -1) : path) {
    if (modules.length > 0 && part.startsWith(`${modules[modules.length - 1]}.`)) modules.pop()
    modules.push(part)
  }
  return modules.join('.')
}

/** Rows and columns that come last, before the others. */
export type Roll = readonly [rows: number, columns: number]
const NO_ROLL: Roll = [0, 0]
/** Layers whose result is rolled if their input is. Attention has an option for it. */
const ROLLED = [
  ...[
    'affine',
    'attention',
    'bias',
    'channelShuffle',
    'gelu',
    'hardSigmoid',
    'hardSwish',
    'layerNorm',
    'layerScale',
    'leakyRelu',
  ],
  ...['pixelLinear', 'relu', 'relu6', 'sigmoid', 'silu', 'sliceChannels', 'softmax', 'tanh', 'unitNorm'],
]

const WEIGHT = /^(.*)\.(weight|bias)$/
/** Layers whose parameters may have a prefix of their own. */
const PREFIXED = ['conv2d', 'linear', 'pixelLinear']

/** Steps are looked at with two images: a norm has more than one value a channel then. */
export const LOOKED_AT = 2

/** Layers of single elements: they do not see the arrangement of a value. */
const OF_ELEMENTS = [
  ...['affine', 'clamp', 'dropout', 'elu', 'gelu', 'geluTanh', 'hardSigmoid', 'hardSwish', 'leakyRelu', 'mish', 'reciprocal'],
  ...['relu', 'relu6', 'sigmoid', 'silu', 'softplus', 'tanh'],
]

export class Reading {
  readonly steps: Step[] = []
  readonly parameters: Parameter[] = []
  private readonly symbols = new Map<string, Meaning>()
  private readonly makers = new Map<string, NodeProto>()
  private readonly names = new Set<string>()
  /** The tensors that are parameters of a layer, and those that are parameters of several. */
  private readonly owned = new Set<string>()
  readonly copied = new Set<string>()
  /** The weights of the file that are constants of a layer, and so not trained. */
  readonly constants = new Set<string>()
  /** Buffers of a PyTorch program that are parameters of a layer. */
  readonly buffers = new Set<string>()
  /** Values of trained tokens, by the names of their weights. */
  readonly tokenSteps = new Map<string, number>()
  /** The views whose heads have channels of unit length in these steps. */
  readonly units = new Map<number, View>()
  private readonly joins = new Map<string, number>()
  private readonly shared = new Map<string, number>()
  /** The steps whose value is rolled in the file, and not in the net. */
  private readonly rolls = new Map<number, Roll>()
  /** Elements of the arrays that the file computes from constants. */
  computed = 0
  /** The layers that make numbers of bytes. */
  private readonly made = new Map<Meaning, number>()
  private attributes: ReadonlyMap<string, AttributeProto> = new Map()
  private node: NodeProto = {}

  constructor(
    readonly file: OnnxFile,
    input: string,
    shape: Shape,
    isBytes: boolean,
    readonly isOfOneImage = false,
  ) {
    this.steps.push({ kind: 'input', ins: [], shape: [LOOKED_AT, shape[1], shape[2], shape[3]], node: 'the input' })
    this.symbols.set(input, isBytes ? { tag: 'bytes', step: 0 } : { tag: 'data', step: 0, form: 'image' })
  }

  // -------------------------------------------------------------- what a node says

  begin(node: NodeProto): void {
    this.node = node
    this.attributes = new Map((node.attribute ?? []).map((a) => [a.name ?? '', a]))
    for (const output of node.output ?? []) this.makers.set(output, node)
  }
  int(name: string, usual: number): number {
    return intOf(this.attributes.get(name), usual)
  }
  float(name: string, usual: number): number {
    return shortest(floatOf(this.attributes.get(name), usual))
  }
  text(name: string, usual: string): string {
    return textOf(this.attributes.get(name), usual)
  }
  ints(name: string): readonly number[] | undefined {
    return intsOf(this.attributes.get(name))
  }
  attribute(name: string): AttributeProto | undefined {
    return this.attributes.get(name)
  }
  inputName(i: number): string {
    return this.node.input?.[i] ?? ''
  }
  has(i: number): boolean {
    return this.inputName(i) !== ''
  }
  get outputs(): number {
    return this.node.output?.length ?? 0
  }
  get inputs(): number {
    return this.node.input?.length ?? 0
  }
  maker(value: string): NodeProto | undefined {
    return this.makers.get(value)
  }

  // -------------------------------------------------------------- what its inputs are

  symbolOf(name: string): Meaning {
    return this.symbols.get(name) ?? refuse(`its input '${name}' is not the output of an earlier node`)
  }
  symbol(i: number): Meaning {
    return this.has(i) ? this.symbolOf(this.inputName(i)) : refuse(`its input ${i} is missing`)
  }
  data(i: number): Extract<Meaning, { tag: 'data' }> {
    const s = this.settled(i)
    if (s.tag === 'data') return s
    if (s.tag === 'pixels') return this.numbersOfBytes(s)
    if (s.tag === 'bytes') return refuse('its input is bytes; cast them to float first')
    if (s.tag === 'odd') throw new Odd(s.node, s.why)
    return refuse(
      `its input '${this.inputName(i)}' is ${CALLED[s.tag] ?? s.tag}; allowed: values computed by layers from the image`,
    )
  }
  /** An input. [B,C,H·W] has the pixels as channels, for layers over all pixels; a part of the channels of an image is a value of its own. */
  settled(i: number): Meaning {
    const s = this.symbol(i)
    if (s.tag === 'band') return this.tokens(s)
    if (s.tag !== 'view') return s
    const axes = turnedAxes(s.view, this.shape(s.view.step))
    if (axes === undefined) {
      const channels = channelsIn(s.view, this.shape(s.view.step))
      return channels === undefined
        ? (this.reread(s.view, s.view.axes.map(sizeOf)) ?? s)
        : { tag: 'data', step: channelsOfAxis(this, s.view.step, channels, s.view.from), form: 'image' }
    }
    const step = this.once('turned', s.view.step, () => this.layer(turnPixels(), s.view.step))
    return meaningOf({ step, axes, from: 0, factor: 1 }, this.shape(step))
  }
  /** All elements in order as another square image: MAnet reads its pixels' channels so. Undefined for other views. */
  reread(view: View, sizes: readonly number[]): Extract<Meaning, { tag: 'data' }> | undefined {
    const as = rereadAs(view, this.shape(view.step), sizes)
    if (as === undefined) return undefined
    const side = sizes[2]!
    const layers = [...(as.isLast ? [turnPixels()] : []), flatten(), pixelShuffle(side)]
    const step = this.once(`image of ${side}`, view.step, () => layers.reduce((at, l) => this.layer(l, at), view.step))
    return { tag: 'data', step, form: 'image' }
  }
  /** A part of pixels in one row is a value of its own: tokens without the class token. */
  private tokens(s: Extract<Meaning, { tag: 'band' }>): Meaning {
    const { step, from, count, form } = s
    if (this.shape(step)[2] !== 1 || s.dim !== 'W') return s
    const part = this.partOfRow(step, from, count)
    const axes = axesOfForm(form, this.shape(step)).map((a) =>
      a.map((atom) => (atom.dim === 'W' ? { ...atom, size: count } : atom)),
    )
    return meaningOf({ step: part, axes: axes.map(joined), from: 0, factor: 1 }, this.shape(part))
  }
  /** Neighbouring pixels of one row. */
  partOfRow(step: number, from: number, count: number): number {
    const layers = [turnPixels(), sliceChannels(from, count), turnPixels()]
    return this.once(`pixels ${from} to ${from + count}`, step, () => layers.reduce((at, l) => this.layer(l, at), step))
  }
  /** The layer `fromBytes` for all that reads these numbers. */
  numbersOfBytes(s: Extract<Meaning, { tag: 'pixels' }>): Extract<Meaning, { tag: 'data' }> {
    const one = (list: readonly number[]): number | readonly number[] => {
      const short = list.map(shortest)
      return short.every((n) => n === short[0]) ? short[0]! : short
    }
    const step = this.made.get(s) ?? this.layer(fromBytes({ mean: one(s.mean), std: one(s.std) }), s.step)
    this.made.set(s, step)
    return { tag: 'data', step, form: 'image' }
  }
  image(i: number): number {
    const { step, form } = this.data(i)
    if (form === 'image') return step
    if (isTurnedImage(form, this.shape(step))) {
      const image = this.layer(turnPixels(), step)
      // The same value for all later readers.
      this.symbols.set(this.inputName(i), { tag: 'data', step: image, form: 'image' })
      return image
    }
    return refuse(`its input is ${form === 'flat' ? '[B,C]' : 'with channels last'}; allowed: [B,C,H,W]`)
  }
  weight(i: number): Weight {
    const s = this.symbol(i)
    return s.tag === 'weight'
      ? s.weight
      : refuse(`its input '${this.inputName(i)}' is computed; allowed: weights stored in the file`)
  }
  /** Whole numbers that a node is given as an input. */
  numbers(i: number): readonly (number | 'batch')[] | undefined {
    if (!this.has(i)) return undefined
    const s = this.symbol(i)
    if (s.tag === 'sizes') return s.sizes
    return s.tag === 'weight' && elementsOf(s.weight.dims) <= 64 ? numbersOf(s.weight.tensor) : undefined
  }
  /** One real number, given as a constant. */
  scalar(i: number): number | undefined {
    return this.has(i) ? this.scalarNamed(this.inputName(i)) : undefined
  }
  scalarNamed(name: string): number | undefined {
    const s = this.symbols.get(name)
    if (s?.tag === 'sizes' && s.sizes.length === 1 && s.sizes[0] !== 'batch') return s.sizes[0]
    return s?.tag === 'weight' && elementsOf(s.weight.dims) === 1 ? numbersOf(s.weight.tensor)?.[0] : undefined
  }
  /** The same for a layer that has it as a constant. */
  constant(i: number): number {
    const s = this.symbol(i)
    if (s.tag === 'weight' && isOfModule(s.weight)) this.constants.add(s.weight.tensor.name)
    return this.scalar(i) ?? refuse('its constant is not a float')
  }
  shape(step: number): Shape {
    return this.steps[step]!.shape
  }

  // -------------------------------------------------------------- what it makes

  get outputName(): string {
    return this.node.output?.[0] ?? ''
  }
  is(symbol: Meaning, output = 0): void {
    const name = this.node.output?.[output] ?? ''
    if (this.symbols.has(name)) refuse(`its output '${name}' is computed twice`)
    this.symbols.set(name, symbol)
  }
  bind(name: string, symbol: Meaning): void {
    this.symbols.set(name, symbol)
  }
  /** Gives the results of a refused node their declared sizes, so that later nodes can be read. */
  standIn(why: string): void {
    const given = (this.node.input ?? []).map((name) => this.symbols.get(name))
    const forms = given.flatMap((s) => (s?.tag === 'data' ? [s.form] : []))
    for (const name of this.node.output ?? []) {
      const info = (this.file.graph.valueInfo ?? []).find((v) => v.name === name)
      const sizes = (info?.type?.tensorType?.shape?.dim ?? []).map((d) => numberOf(d.dimValue ?? 0))
      const [, a = 0, b = 0, c = 0] = sizes
      const known = (
        [
          ['image', 4, [LOOKED_AT, a, b, c]],
          ['last', 4, [LOOKED_AT, c, a, b]],
          ['flat', 2, [LOOKED_AT, a, 1, 1]],
        ] as const
      ).find(([form, rank, shape]) => forms.includes(form) && sizes.length === rank && shape.every((n) => n > 0))
      if (known === undefined) this.symbols.set(name, { tag: 'odd', node: this.node, why })
      else {
        const [form, , shape] = known
        this.steps.push({ kind: 'input', ins: [], shape, node: nodeText(this.node) })
        this.symbols.set(name, { tag: 'data', step: this.steps.length - 1, form })
      }
    }
  }
  odd(why: string): void {
    this.is({ tag: 'odd', node: this.node, why })
  }
  /** A layer behind a step, checked at the sizes that it gets there. */
  layer(layer: Net, from: number): number {
    const made = modelAt(this.shape(from), layer)
    if (E.isLeft(made)) return refuse(renderError(made.left))
    const roll = this.rollOf(from)
    if (roll !== NO_ROLL && !ROLLED.includes(layer.kind))
      return refuse(`it reads rolled rows or columns; allowed: layers of single pixels and attention in shifted windows`)
    return this.put({ kind: 'layer', layer, ins: [from], shape: made.right.output, node: nodeText(this.node) }, roll)
  }
  /** Two values that only named values read as one: the attention of the first to the second, or a product of both. */
  paired(kind: 'attended' | 'contracted', ins: readonly [number, number], options: PairOptions, shape: Shape): number {
    if (ins.some((i) => this.rollOf(i) !== NO_ROLL)) return refuse('it attends to other pixels in a rolled image')
    return this.put({ kind, options, ins, shape, node: nodeText(this.node) }, NO_ROLL)
  }
  meeting(kind: 'sum' | 'product' | 'join', ins: readonly number[], shape: Shape): number {
    const rolls = ins.map((i) => this.rollOf(i))
    if (rolls.some((r) => r.join() !== rolls[0]!.join())) return refuse('it joins values that are rolled differently')
    return this.put({ kind, ins, shape, node: nodeText(this.node) }, rolls[0] ?? NO_ROLL)
  }
  private put(step: Step, roll: Roll): number {
    this.steps.push(step)
    if (roll !== NO_ROLL) this.rolls.set(this.steps.length - 1, roll)
    return this.steps.length - 1
  }
  rollOf(step: number): Roll {
    return this.rolls.get(step) ?? NO_ROLL
  }
  /** The same value, rolled by some rows and columns more. Its layer is left out of the net. */
  rolled(step: number, by: Roll): number {
    const [, , h, w] = this.shape(step)
    const [rows, columns] = this.rollOf(step)
    const roll: Roll = [(((rows + by[0]) % h) + h) % h, (((columns + by[1]) % w) + w) % w]
    const shape = this.shape(step)
    return this.put(
      { kind: 'layer', layer: identity, ins: [step], shape, node: nodeText(this.node) },
      roll.every((n) => n === 0) ? NO_ROLL : roll,
    )
  }
  makes(layer: Net, i = 0): void {
    const s = OF_ELEMENTS.includes(layer.kind) ? this.settled(i) : undefined
    if (s?.tag === 'view') {
      const made = this.elementwise(s.view, layer)
      this.is(meaningOf(made, this.shape(made.step)))
    } else {
      const { step, form } = this.data(i)
      this.is({ tag: 'data', step: this.layer(layer, step), form })
    }
  }

  // -------------------------------------------------------------- views

  /** The value that has these channels of a view's value, in order, times the view's factor. */
  channelsOf({ step, from, factor }: View, order: Axis): number {
    const own = channelsOfAxis(this, step, joined(order), from)
    return factor === 1 ? own : this.once(`times ${factor}`, own, () => this.layer(affine(shortest(factor)), own))
  }
  /** The same elements, as a view of a value that has no others. Its channels keep their order. */
  compact(view: View): View {
    const order = channelAtoms(view.axes)
    return { step: this.channelsOf(view, order), axes: renumbered(view.axes, order).map(joined), from: 0, factor: 1 }
  }
  /** Applies a layer of single elements to a view. */
  elementwise(view: View, layer: Net): View {
    const own = this.compact(view)
    return { ...own, step: this.layer(layer, own.step) }
  }

  // -------------------------------------------------------------- names and parameters

  /** A layer's name: that of its weights, else its node's. */
  named(...weights: readonly (Weight | undefined)[]): string {
    const stems = weights.flatMap(
      (w) => /^([\w.-]+)(?:\.(?:weight|bias|gamma|beta|kernel)|_(?:weight|bias))$/.exec(w?.tensor.name ?? '')?.[1] ?? [],
    )
    return this.unused(stems[0] ?? (scopeOf(this.node).replace(/[^\w.-]+/g, '_') || 'layer'))
  }
  /** Returns true for a name of a layer or of its weights. A layer that is only a parameter has the name of the parameter. */
  private isUsed(name: string): boolean {
    return [name, `${name}.weight`, `${name}.bias`, name.replace(/\.(weight|bias)$/, '')].some((n) => this.names.has(n))
  }
  /** This name, with a number if a layer has it. */
  unused(base: string): string {
    let name = base
    for (let i = 2; this.isUsed(name); i++) name = `${base}_${i}`
    this.names.add(name)
    return name
  }
  /** The name of a parameter beside others of its layer, such as the bias of a layer that has none itself. */
  beside(name: string): string {
    if (this.names.has(name)) return this.unused(name)
    this.names.add(name)
    return name
  }
  parameter(name: string, weight: Weight, shape: readonly number[]): void {
    if (elementsOf(weight.dims) !== elementsOf(shape))
      refuse(`'${weight.tensor.name}' is [${weight.dims.join(',')}]; allowed: [${shape.join(',')}]`)
    if (!['F32', 'F16', 'F64', 'BF16'].includes(weight.tensor.type))
      refuse(`'${weight.tensor.name}' has type ${weight.tensor.type}; allowed: F32, F16, BF16, F64`)
    if (this.owned.has(weight.tensor.name)) this.copied.add(weight.tensor.name)
    this.owned.add(weight.tensor.name)
    if (weight.tensor.isFixed && !/\.running_(mean|var)$/.test(name)) this.buffers.add(name)
    this.parameters.push({ ...weight, name, shape })
  }
  /** Gives parameters back names such as `attn.in_proj_weight`: the layer is `attn.in_proj`, and its prefix ends with '_'. */
  underlined(): void {
    for (const [i, step] of this.steps.entries()) {
      const { name = '' } = (step.layer ?? {}) as { readonly name?: string }
      const own = this.parameters.flatMap((p, at) => (WEIGHT.exec(p.name)?.[1] === name && name !== '' ? [{ p, at }] : []))
      const isOf = own.length > 0 && own.every(({ p }) => p.tensor.name === `${name}_${WEIGHT.exec(p.name)![2]}`)
      if (!isOf || !PREFIXED.includes(step.layer!.kind)) continue
      for (const { p, at } of own) this.parameters[at] = { ...p, name: p.tensor.name }
      this.steps[i] = { ...step, layer: { ...step.layer!, param: `${name}_` } as Net }
    }
  }
  /** A parameter that was given to a layer, which becomes another one. */
  forget(layer: string): void {
    for (let i = this.parameters.length - 1; i >= 0; i--)
      if (this.parameters[i]!.name.startsWith(`${layer}.`) || this.parameters[i]!.name === layer) {
        this.owned.delete(this.parameters[i]!.tensor.name)
        this.parameters.splice(i, 1)
      }
    this.names.delete(layer)
  }
  /** A step that is made once for all nodes that want it of a value. */
  once(what: string, from: number, make: () => number): number {
    const key = `${what}:${from}`
    const step = this.shared.get(key) ?? make()
    this.shared.set(key, step)
    return step
  }
  replace(step: number, layer: Net, from: number): number {
    this.steps[step] = { ...this.steps[step]!, kind: 'input', ins: [] }
    return this.layer(layer, from)
  }

  // -------------------------------------------------------------- concatenations

  /** PyTorch's dense networks join all earlier values repeatedly: an earlier join is reused. */
  joined(ins: readonly number[], shapeOf: (ins: readonly number[]) => Shape): number {
    for (let n = ins.length - 1; n >= 2; n--) {
      const before = this.joins.get(ins.slice(0, n).join())
      if (before !== undefined) return this.joined([before, ...ins.slice(n)], shapeOf)
    }
    const key = ins.join()
    const known = this.joins.get(key)
    const step = known ?? this.meeting('join', ins, shapeOf(ins))
    this.joins.set(key, step)
    return step
  }
  alsoJoined(ins: readonly number[], step: number): void {
    this.joins.set(ins.join(), step)
  }
}

/** A node whose output was of use only to others that are not there. */
export class Odd extends Refused {
  constructor(
    readonly blamed: NodeProto,
    why: string,
  ) {
    super(why)
  }
}

/** A tensor that the file cannot hold as it says. */
export class FileFault extends Error {
  constructor(readonly error: SpillwayError) {
    super()
  }
}

export const axesOf = (r: Reading): readonly number[] | undefined =>
  r.ints('axes') ?? r.numbers(1)?.filter((n): n is number => typeof n === 'number')
export const positive = (axes: readonly number[], rank: number): readonly number[] =>
  axes.map((a) => (a < 0 ? a + rank : a)).sort((x, y) => x - y)
