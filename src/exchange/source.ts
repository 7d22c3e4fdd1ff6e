// A model file in TypeScript. In: a net and its input. Out: the file's text, which makes exactly this net. Invariant: options that have their
// usual values are not written; layers whose names begin alike stand together under a name.
import type { Concat, Reads, Residual, Scaled, Seq, Value, Values } from '../../dsl'
import type { Net, Shape } from '../../dsl/net'
import { text } from '../stage/literal'

type Fields = Readonly<Record<string, unknown>>

const textOf = (u: unknown): string => {
  if (typeof u === 'string') return text(u)
  if (Array.isArray(u)) return `[${u.map(textOf).join(', ')}]`
  if (typeof u === 'object' && u !== null)
    return `{ ${Object.entries(u)
      .map(([k, v]) => `${k}: ${textOf(v)}`)
      .join(', ')} }`
  return String(u)
}

const same = (a: unknown, b: unknown): boolean => textOf(a) === textOf(b)
/** `, { … }` of unusual options. */
const options = (l: Fields, usual: Fields): string => {
  const own = Object.entries(usual).filter(([k, v]) => l[k] !== undefined && !same(l[k], v))
  return own.length === 0 ? '' : `, ${textOf(Object.fromEntries(own.map(([k]) => [k, l[k]])))}`
}
const named = ({ name }: Fields): string => (name === '' ? '' : `, ${textOf(name)}`)

const CONV = { stride: 1, pad: 'same', dilation: 1, groups: 1, standardize: null, bias: true, param: null }
const TRANSPOSED = { stride: 1, pad: 0, outputPad: 0, dilation: 1, groups: 1, bias: true }

const weightedText = (l: Fields, usual: Fields, ...sizes: readonly string[]): string =>
  `${l['kind']}(${[textOf(l['name']), ...sizes.map((s) => textOf(l[s]))].join(', ')}${options(l, usual)})`
const poolText = (l: Fields, usual: Fields): string =>
  `${l['kind']}(${textOf(l['kernel'])}${options(l, { stride: l['kernel'], pad: 0, ceil: false, ...usual })})`
const upsampleText = (l: Fields): string => {
  const mode = l['mode'] === 'nearest' ? {} : { mode: 'bilinear', ...(l['mode'] === 'bilinear' ? {} : { alignCorners: true }) }
  return `upsample(${textOf({ ...(l['to'] as object), ...mode })}${named(l)})`
}

/** One step for rows and columns, if they are equal. */
const withOneStep = (l: Fields): Fields => {
  const [rows, columns] = l['step'] as readonly [number, number]
  return rows === columns ? { ...l, step: rows } : l
}

/** How layers with something to say are written; others have no arguments. */
const LAYERS: Readonly<Record<string, (l: Fields) => string>> = {
  conv2d: (l) => weightedText(l, CONV, 'out', 'kernel'),
  convTranspose2d: (l) => weightedText(l, TRANSPOSED, 'out', 'kernel'),
  linear: (l) => weightedText(l, { bias: true, param: null }, 'out'),
  pixelLinear: (l) => weightedText(l, { bias: true, param: null }, 'out'),
  batchNorm: (l) => weightedText(l, { frozen: false, eps: 1e-5 }),
  layerNorm: (l) => weightedText(l, { eps: 1e-5, bias: true }),
  rmsNorm: (l) => weightedText(l, { eps: 1e-6 }),
  groupNorm: (l) => weightedText(l, { affine: true, eps: 1e-5 }, 'groups'),
  instanceNorm: (l) =>
    l['name'] === '' && options(l, { eps: 1e-5 }) === '' ? 'instanceNorm()' : weightedText(l, { affine: false, eps: 1e-5 }),
  layerScale: (l) =>
    weightedText(l, { shape: 'image', groups: 0 }, ...(l['shape'] === 'image' && l['groups'] === 0 ? [] : ['start'])),
  prelu: (l) => weightedText(l, { shared: false, start: 0.25 }),
  bias: (l) => weightedText(l, { shared: false, without: null }),
  position: (l) => weightedText(l, { shape: 'image' }),
  globalResponseNorm: (l) => weightedText(l, { eps: 1e-6 }),
  adaptiveAvgPool: (l) => weightedText(l, {}, 'size'),
  generalizedMeanPool: (l) => `generalizedMeanPool(${textOf(l['power'])}${l['eps'] === 1e-6 ? '' : `, ${textOf(l['eps'])}`})`,
  gatedAttentionPool: (l) => weightedText(l, {}, 'hidden'),
  attention: (l) =>
    weightedText(
      l,
      { window: 'image', grid: false, shift: 0, relative: false, headFirst: false, cosine: false, scale: null },
      'heads',
    ),
  maxPool: (l) => poolText(l, {}),
  avgPool: (l) => poolText(l, { countIncludePad: true }),
  fromBytes: (l) => `fromBytes(${options(l, { mean: 0, std: 1 }).slice(2)})`,
  affine: (l) => `affine(${[l['factor'], ...(l['shift'] === 0 ? [] : [l['shift']])].map(textOf).join(', ')})`,
  sliceChannels: (l) => `sliceChannels(${textOf(l['from'])}, ${textOf(l['count'])})`,
  channelShuffle: (l) => `channelShuffle(${textOf(l['groups'])})`,
  pixelShuffle: (l) => `pixelShuffle(${textOf(l['factor'])})`,
  pixelUnshuffle: (l) => `pixelUnshuffle(${textOf(l['factor'])})`,
  rotary: (l) =>
    `rotary(${textOf(l['head'])}${options(withOneStep(l), { skip: 0, columns: 0, step: 1, first: 0, base: 10000 })})`,
  elu: (l) => `elu(${l['alpha'] === 1 ? '' : textOf(l['alpha'])})`,
  clamp: (l) => `clamp(${textOf(l['low'])}, ${textOf(l['high'])})`,
  leakyRelu: (l) => `leakyRelu(${textOf(l['slope'])})`,
  localResponseNorm: (l) => `localResponseNorm(${textOf(l['size'])}${options(l, { alpha: 1e-4, beta: 0.75, k: 1 })})`,
  dropout: (l) => `dropout(${textOf(l['p'])}${named(l)})`,
  stochasticDepth: (l) => `stochasticDepth(${textOf(l['p'])}${named(l)})`,
  reflectionPad2d: (l) => `reflectionPad2d(${textOf(l['pad'])})`,
  upsample: upsampleText,
  identity: () => 'identity',
}

const WIDTH = 130

class Source {
  /** The imports of the file. */
  readonly used = new Set<string>(['model'])

  /** A call in one line where it fits, else an argument a line. */
  private call(name: string, parts: readonly Net[], indent: string, first: readonly string[] = []): string {
    this.used.add(name)
    const inner = [...first, ...parts.map((p) => this.net(p, `${indent}  `))]
    const line = `${name}(${inner.join(', ')})`
    if (!line.includes('\n') && indent.length + line.length <= WIDTH) return line
    return `${name}(\n${inner.map((text) => `${indent}  ${text},\n`).join('')}${indent})`
  }

  net(n: Net, indent: string): string {
    switch (n.kind) {
      case 'seq':
        return this.call('seq', (n as Seq<readonly Net[]>).layers, indent)
      case 'residual':
        return this.call('residual', [(n as Residual<Net, Net>).body, (n as Residual<Net, Net>).shortcut], indent)
      case 'concat':
        return this.call('concat', (n as Concat<readonly Net[]>).branches, indent)
      case 'values':
        return this.call('values', (n as Values<readonly Net[]>).layers, indent)
      case 'value': {
        const { name, reads, body } = n as Value<string, Reads, Seq<readonly Net[]>>
        return this.call('value', body.layers, indent, [textOf(name), textOf(reads)])
      }
      case 'scaled': {
        const { body } = n as Scaled<Net>
        return this.call('scaled', body.kind === 'seq' ? (body as Seq<readonly Net[]>).layers : [body], indent)
      }
      default: {
        this.used.add(n.kind)
        return LAYERS[n.kind]?.(n as unknown as Fields) ?? `${n.kind}()`
      }
    }
  }
}

// ---------------------------------------------------------------- parts of a file

const partsOf = (n: Net): readonly Net[] =>
  Object.values(n).flatMap((u): readonly Net[] =>
    Array.isArray(u)
      ? u.filter((x) => typeof x === 'object')
      : typeof u === 'object' && u !== null && 'kind' in u
        ? [u as Net]
        : [],
  )
const namesIn = (n: Net): readonly string[] => {
  const own = n.kind === 'value' ? '' : (n as unknown as Fields)['name']
  return [...(typeof own === 'string' && own !== '' ? [own] : []), ...partsOf(n).flatMap(namesIn)]
}

/** The common prefix of the names of a net's layers, if there is one. */
const stemOf = (n: Net): string | undefined => {
  const stems = new Set(namesIn(n).map((name) => (name.includes('.') ? name.slice(0, name.indexOf('.')) : '')))
  return stems.size === 1 ? [...stems][0] : undefined
}

interface Part {
  readonly stem: string
  readonly nets: Net[]
}

/** Types grow with the length of a sequence: none is longer than this. */
const LONGEST = 24

/** Consecutive layers that belong together; nameless ones belong to those before them. */
const grouped = (nets: readonly Net[]): readonly Part[] => {
  const parts: Part[] = []
  for (const n of nets) {
    const last = parts[parts.length - 1]
    const stem = namesIn(n).length === 0 ? last?.stem : stemOf(n)
    if (last && last.stem === (stem ?? '') && last.nets.length < LONGEST) last.nets.push(n)
    else parts.push({ stem: stem ?? '', nets: [n] })
  }
  return parts
}

/** A constant's name: a stem as a word of the language, and unlike all others. */
const wordsFor = (parts: readonly Part[], taken: ReadonlySet<string>): readonly string[] => {
  const words = new Set(taken)
  return parts.map(({ stem }) => {
    const base =
      stem.replace(/[^A-Za-z0-9]+(.)?/g, (_, c: string | undefined) => (c ?? '').toUpperCase()).replace(/^(?=\d)/, 'part') ||
      'part'
    let word = base
    for (let i = 2; words.has(word); i++) word = `${base}${/\d$/.test(base) ? '_' : ''}${i}`
    words.add(word)
    return word
  })
}

const RESERVED = [
  'net',
  'model',
  'default',
  'class',
  'new',
  'delete',
  'function',
  'in',
  'if',
  'do',
  'for',
  'let',
  'var',
  'case',
  'this',
  'export',
  'import',
  'return',
  'switch',
  'with',
  'void',
  'try',
  'else',
  'enum',
  'null',
  'true',
  'false',
  'super',
  'throw',
  'while',
  'yield',
  'const',
  'await',
  'break',
  'catch',
  'static',
  'typeof',
]

export interface SourceOf {
  readonly input: Shape
  readonly nets: readonly Net[]
  /** The lines at the top. */
  readonly head: readonly string[]
}

export const sourceText = ({ input, nets, head }: SourceOf): string => {
  const source = new Source()
  const parts = grouped(nets)
  const alone = parts.length <= 1
  const words = wordsFor(
    parts,
    new Set([
      ...RESERVED,
      ...Object.keys(LAYERS),
      'seq',
      'residual',
      'concat',
      'scaled',
      'value',
      'values',
      'relu',
      'tanh',
      'sigmoid',
      'silu',
      'gelu',
      'relu6',
      'hardSwish',
      'hardSigmoid',
      'globalAvgPool',
      'softmax',
      'flatten',
      'turnPixels',
    ]),
  )
  source.used.add('seq')
  const asSeq = (n: readonly Net[]): Net => ({ kind: 'seq', layers: n }) as Net
  // A line or two are written in place; a longer part has a name.
  const apart = parts.map((p) => !alone && p.nets.length > 2)
  const constants = parts.flatMap((p, i) => (apart[i] ? [`const ${words[i]} = ${source.net(asSeq(p.nets), '')}\n`] : []))
  const inner = parts.flatMap((p, i) => (apart[i] ? [words[i]!] : p.nets.map((n) => source.net(n, '  '))))
  const line = `seq(${inner.join(', ')})`
  const all = line.includes('\n') || line.length > WIDTH - 20 ? `seq(\n${inner.map((t) => `  ${t},\n`).join('')})` : line
  const imports = [...source.used].sort().join(', ')
  const importLine = `import { ${imports} } from 'spillway'`
  return [
    ...head.map((line) => `// ${line}`),
    importLine.length <= WIDTH
      ? importLine
      : `import {\n${[...source.used]
          .sort()
          .map((u) => `  ${u},\n`)
          .join('')}} from 'spillway'`,
    '',
    ...constants,
    `export const net = ${all}`,
    '',
    `export default model(${textOf(input)}, net)`,
    '',
  ].join('\n')
}
