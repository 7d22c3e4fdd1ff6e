// Random networks as program text, legal and illegal alike: small sizes, so that windows and sums often do not fit.
// In: a seed. Out: expressions of the DSL. Invariant: the same seed gives the same text.

import { layerKinds, ruleOf } from '../../dsl/layers/registry'

/** The examples of those kinds of layers that have one. */
const examples = layerKinds.flatMap((kind) => ruleOf(kind)?.example ?? [])

export type Random = () => number

/** mulberry32 */
export const randomFrom =
  (seed: number): Random =>
  () => {
    seed = (seed + 0x6d2b79f5) | 0
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }

const pick = <T>(r: Random, xs: readonly T[]): T => xs[Math.floor(r() * xs.length)]!

/** Layers get names of their own, except one in forty. */
class Writer {
  private count = 0
  constructor(private readonly r: Random) {}

  private name(): string {
    return this.r() < 0.025 ? "'same'" : `'n${this.count++}'`
  }
  private extent(xs: readonly number[]): string {
    return this.r() < 0.2 ? `[${pick(this.r, xs)}, ${pick(this.r, xs)}]` : `${pick(this.r, xs)}`
  }
  private option(name: string, xs: readonly number[]): string {
    return this.r() < 0.3 ? `${name}: ${this.extent(xs)}, ` : ''
  }

  private conv(): string {
    const groups = this.r() < 0.15 ? `groups: ${pick(this.r, [1, 2, 3])}, ` : ''
    const pad = this.r() < 0.1 ? 'pad: { top: 0, left: 1, bottom: 2, right: 1 }, ' : this.option('pad', [0, 1, 2])
    const standard = this.r() < 0.1 ? 'standardize: 1e-6, ' : ''
    const options = this.option('stride', [1, 2, 3]) + pad + this.option('dilation', [1, 2]) + groups + standard
    return `conv2d(${this.name()}, ${pick(this.r, [2, 4, 6])}, ${this.extent([1, 2, 3, 4, 5])}, { ${options}})`
  }

  private transposed(): string {
    const options =
      this.option('stride', [1, 2, 3]) +
      this.option('pad', [0, 1, 2]) +
      this.option('outputPad', [0, 1]) +
      this.option('dilation', [1, 2]) +
      (this.r() < 0.15 ? 'groups: 2, ' : '')
    return `convTranspose2d(${this.name()}, ${pick(this.r, [2, 4, 6])}, ${this.extent([1, 2, 3, 4])}, { ${options}})`
  }

  private upsample(): string {
    const to = this.r() < 0.6 ? `scale: ${this.extent([1, 2, 3])}` : `size: ${this.extent([1, 4, 7, 100])}`
    return `upsample({ ${to}${pick(this.r, ['', ", mode: 'bilinear'", ", mode: 'bilinear', alignCorners: true"])} })`
  }

  private pool(): string {
    const name = this.r() < 0.5 ? `${this.name()}, ` : ''
    const ceil = this.r() < 0.4 ? 'ceil: true, ' : ''
    const pad = this.r() < 0.2 ? 'pad: { top: 0, left: 1, bottom: 1, right: 0 }, ' : this.option('pad', [0, 1])
    return `${pick(this.r, ['maxPool', 'avgPool'])}(${name}${this.extent([2, 3])}, { ${this.option('stride', [1, 2, 3])}${pad}${ceil}})`
  }

  private layer(): string {
    const kinds: readonly (() => string)[] = [
      () => this.conv(),
      () => this.conv(),
      () => this.conv(),
      () => this.pool(),
      () => this.transposed(),
      () => this.upsample(),
      () => 'relu()',
      () => pick(this.r, examples).replace("'n'", () => this.name()),
      () => pick(this.r, examples).replace("'n'", () => this.name()),
      () => pick(this.r, ['softmax()', 'localResponseNorm(3)', 'localResponseNorm(5, { k: 0 })', 'sliceChannels(1, 3)']),
      () =>
        `attention(${this.name()}, ${pick(this.r, [1, 2])}, { ${pick(this.r, ['', 'relative: true', "relative: 'mirrored', window: [1, 2]", "relative: 'reversed', cosine: 4", 'relative: { hidden: 3, bias: true }', 'cosine: 2, headFirst: true', 'window: [2, 1], shift: [1, 0]', 'window: 2, grid: true'])} })`,
      () => pick(this.r, ['pixelShuffle(2)', 'pixelUnshuffle(2)', 'pixelShuffle(1)']),
      () => `reflectionPad2d(${pick(this.r, ['1', '[2, 3]', '{ top: 0, left: 3, bottom: 2, right: 1 }'])})`,
      () => 'leakyRelu(0.1)',
      () => `batchNorm(${this.name()})`,
      () => `groupNorm(${this.name()}, ${pick(this.r, [1, 2, 3])}, { affine: ${this.r() < 0.5} })`,
      () => (this.r() < 0.5 ? 'instanceNorm()' : `instanceNorm(${this.name()}, { affine: true })`),
      () => `batchNorm(${this.name()}, { frozen: true })`,
      () => `pixelLinear(${this.name()}, ${pick(this.r, [3, 6])})`,
      () => 'dropout(0.5)',
      () => `adaptiveAvgPool(${this.name()}, ${pick(this.r, [1, 2, 3])})`,
      () => 'identity',
    ]
    return pick(this.r, kinds)()
  }

  private list(depth: number): string {
    return Array.from({ length: 1 + Math.floor(this.r() * 3) }, () => this.net(depth - 1)).join(', ')
  }

  /** Named values that read some of those before them; one in many reads an unknown name, or has a name twice. */
  private values(depth: number): string {
    const names = ['input']
    const one = (): string => (this.r() < 0.02 ? 'none' : pick(this.r, names))
    const several = (): string => `['${one()}', '${one()}'${this.r() < 0.3 ? `, '${one()}'` : ''}]`
    const vs = Array.from({ length: 1 + Math.floor(this.r() * 4) }, (_, i) => {
      const reads = pick(this.r, [
        () => `'${one()}'`,
        () => `'${one()}'`,
        () => `{ added: ${several()} }`,
        () => `{ joined: ${several()} }`,
        () => `{ multiplied: ['${one()}', '${one()}'] }`,
        () => `{ attended: ['${one()}', '${one()}'], heads: ${pick(this.r, [0, 1, 2])} }`,
        () =>
          `{ contracted: ['${one()}', '${one()}'], over: '${pick(this.r, ['channels', 'pixels', 'mixed'])}', groups: ${pick(this.r, [0, 1, 2])} }`,
      ])()
      const name = this.r() < 0.03 ? 'v0' : `v${i}`
      const made = `value('${name}', ${reads}${pick(this.r, ['', `, ${this.net(depth - 1)}`])})`
      names.push(name)
      return made
    })
    const all = this.r() < 0.1 ? [] : [`value('all', { joined: [${names.map((n) => `'${n}'`).join(', ')}] })`]
    return `values(${[...vs, ...all].join(', ')})`
  }

  net(depth: number): string {
    if (depth === 0 || this.r() < 0.55) return this.layer()
    const kinds: readonly (() => string)[] = [
      () => `seq(${this.list(depth)})`,
      () => `block(${this.name()}, ${this.list(depth)})`,
      () => `blocks(${this.name()}, ${this.list(depth)})`,
      () => `blocks(${this.name()}, repeat(${pick(this.r, [1, 2, 3])}, ${this.net(depth - 1)}), ${this.list(depth)})`,
      () => `residual(${this.net(depth - 1)}, ${pick(this.r, ['identity', 'identity', this.net(depth - 1)])})`,
      () => `concat(${this.list(depth)})`,
      () =>
        `counted('m', ${pick(this.r, [0, 1, 9])}, repeat(${pick(this.r, [1, 2])}, ${this.net(depth - 1)}), ${this.list(depth)})`,
      () => `skip(${this.list(depth)})`,
      () => `atInputSize(${this.list(depth)})`,
      () => this.values(depth),
      () => `scaled(${this.list(depth)}${pick(this.r, ['', ', globalAvgPool()', `, conv2d(${this.name()}, 1, 1)`])})`,
    ]
    return pick(this.r, kinds)()
  }

  whole(): string {
    const tail = pick(this.r, [
      '',
      '',
      ', globalAvgPool()',
      `, flatten(), linear(${this.name()}, 5)`,
      `, linear(${this.name()}, 5)`,
    ])
    return `seq(${this.net(3)}, ${this.net(3)}${tail})`
  }
}

export interface Generated {
  readonly net: string
  readonly input: readonly [number, number, number, number]
}

export const generate = (seed: number): Generated => {
  const r = randomFrom(seed)
  const input = [pick(r, [1, 2]), pick(r, [2, 3, 4]), pick(r, [5, 8, 13, 1021]), pick(r, [7, 8, 12, 50021])] as const
  return { net: new Writer(r).whole(), input }
}
