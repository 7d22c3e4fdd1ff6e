// dsl/training.ts: losses and optimizers for users. In: their tables in staging/ops. Out: the file's text: for each a constructor, and a type that
// keeps those options as literals that decide an optimizer's states.
import { type Choice, type Choices, isFlag, isLoose } from '../../staging/ops/choices'
import { type LossEntry, LOSSES } from '../../staging/ops/losses'
import { limitText } from '../../staging/ops/op'
import { OPTIMIZERS, type OptimizerEntry } from '../../staging/ops/optimizer'
import { camel, capital, upper } from '../generated'

const typeOf = (c: Choice): string => (isFlag(c) ? 'boolean' : c.list ? 'readonly number[]' : 'number')

/** A value that the option may have, other than its default where it has one. */
const someValue = (c: Choice): string => {
  if (isFlag(c)) return 'true'
  if (c.list) return '[1, 0.5, 2]'
  return c.whole ? '-100' : c.default === undefined || isLoose(c) ? '0.1' : '0.5'
}

/** Its options with a value: those that are due, or the first. */
const givenText = (options: Choices): string => {
  const due = Object.entries(options).filter(([, c]) => c.default === undefined)
  const given = due.length > 0 ? due : Object.entries(options).slice(0, 1)
  return `{ ${given.map(([name, c]) => `${name}: ${someValue(c)}`).join(', ')} }`
}

const exampleOf = (kind: string, options: Choices, name: string): string => {
  const given = Object.entries(options).filter(([other, c]) => other === name || c.default === undefined)
  return `${camel(kind)}({ ${given.map(([other, c]) => `${other}: ${someValue(c)}`).join(', ')} })`
}

/** The meaning of each option, or of that of one entry; an option without a text here fails the generator. */
const MEANINGS: Readonly<Record<string, string>> = {
  lr: 'Learning rate',
  momentum: 'Share of the previous update that is kept',
  weightDecay: 'Decay of the weights per update, times the learning rate',
  nesterov: "If true, uses Nesterov's momentum",
  beta1: 'Decay of the mean of the gradients',
  beta2: 'Decay of the mean of the squared gradients',
  alpha: 'Decay of the mean of the squared gradients',
  eps: 'Number added to the divisor, for numerical stability',
  momentumDecay: 'Speed at which the momentum rises to beta1',
  decoupled: 'If true, decays the weights themselves, as AdamW does',
  'lion.beta1': 'Share of the mean of the gradients in the direction of an update',
  'lion.beta2': 'Decay of the mean of the gradients',
  centered: 'If true, divides by the variance of the gradients instead of the mean of their squares',
  delta: 'Error at which the loss becomes linear',
  balance: 'Weight of positive elements; negative elements have 1 minus it',
  gamma: 'Exponent that lowers the weight of elements that are already right',
  ignoreIndex: 'Label that does not count',
  weights: 'Weights of the classes, one per class; 0 leaves a class out',
  labelSmoothing: 'Share of the target that is spread evenly over all classes',
  smooth: 'Number added to both sides of the quotient, for numerical stability',
}

const optionText =
  (kind: string, options: Choices) =>
  ([name, c]: readonly [string, Choice]): string => {
    const meaning = MEANINGS[`${kind}.${name}`] ?? MEANINGS[name]
    if (meaning === undefined)
      throw new Error(`option ${name} of ${kind} has no text: add one to MEANINGS in scripts/operators/training.ts`)
    const legal = isFlag(c) ? '' : `; ${limitText(c)}`
    const usual = c.default === undefined ? '' : ` Default${c.default === 'none' ? ': none' : ` ${c.default}`}.`
    const about = `${meaning}${legal}.${usual} @example ${exampleOf(kind, options, name)}`
    const must = c.default === undefined
    return `  /** ${about} */\n  readonly ${name}${must ? '' : '?'}: ${typeOf(c)}${must ? '' : ' | undefined'}`
  }
const keysName = (kind: string): string => upper(camel(kind))
const keysText = (kind: string, options: Choices): string => {
  const keys = Object.keys(options).map((name) => `, '${name}'`)
  return `const ${keysName(kind)} = optionsFor<${capital(camel(kind))}Options>()('${camel(kind)}'${keys.join('')})`
}
/** The arguments of a constructor. */
const argumentText = (kind: string): string =>
  `<const O extends ${capital(camel(kind))}Options>(o: Known<O, typeof ${keysName(kind)}>)`
const optionsText = (kind: string, options: Choices): string =>
  `/** Options of \`${camel(kind)}\`. @example const options: ${capital(camel(kind))}Options = ${givenText(options)} */\nexport interface ${capital(camel(kind))}Options {\n${Object.entries(options).map(optionText(kind, options)).join('\n')}\n}\n${keysText(kind, options)}`
const madeText = (kind: string, type: string, options: Choices): string =>
  `/** The value that \`${camel(kind)}\` creates. Plain data. @example const value: ${type} = ${camel(kind)}(${givenText(options)}) */`

/** Two signatures: of a parameter that may be missing, TypeScript would infer one member of a union of options. */
const makerText = (maker: string, kind: string, type: string, about: string): string => {
  const [keys, Options] = [keysName(maker), `${capital(maker)}Options`]
  return `/** ${about} */
export function ${maker}(): ${type}
/** ${about} */
export function ${maker}<const O extends (${Options} & object) | undefined>(o: Known<O, typeof ${keys}>): ${type}
export function ${maker}(o: ${Options} = {}): ${type} {
  return lossMade('${kind}', known(${keys}, o))
}`
}

/** A loss without options is its name; where all may be left out, it has another for those that give them. */
const lossText = ([kind, { about, options }]: readonly [string, LossEntry]): string => {
  const name = camel(kind)
  const type = capital(name)
  const loose = Object.values(options).every(isLoose)
  const plain = `/** ${about} @example stage(net, { loss: ${name} }) */\nexport const ${name} = '${kind}' satisfies Loss`
  if (Object.keys(options).length === 0) return plain
  const maker = loose ? `${name}With` : name
  const text = `${optionsText(maker, options)}
${madeText(maker, type, options)}
export interface ${type} extends LossOf<'${kind}'> {}
${makerText(maker, kind, type, loose ? `Creates the loss \`${name}\` with options. @example ${exampleOf(maker, options, Object.keys(options)[0]!)}` : about)}`
  return loose ? `${plain}\n${text}` : text
}

const optimizerText = ([kind, { about, options, states }]: readonly [string, OptimizerEntry]): string => {
  const type = capital(camel(kind))
  const deciding = [...new Set(states.flatMap((s) => s.when ?? []))].map((name) => ({ name, of: typeOf(options[name]!) }))
  const listed = (text: (d: (typeof deciding)[number]) => string): string =>
    deciding.length === 0 ? '' : `<${deciding.map(text).join(', ')}>`
  const members = deciding.map(({ name }) => `\n  readonly ${name}: ${capital(name)}`).join('')
  const made = `${type}${listed(({ name, of }) => `Said<O, '${name}', ${of}, ${options[name]!.default}>`)}`
  return `${optionsText(kind, options)}
${madeText(kind, type, options)}
export interface ${type}${listed(({ name, of }) => `${capital(name)} extends ${of} = ${of}`)} extends OptimizerOf<'${kind}'> {${members && `${members}\n`}}
/** ${about} */
export const ${camel(kind)} = ${argumentText(kind)}: ${made} => optimizerWith('${kind}', known(${keysName(kind)}, o as O))`
}

export const training = (): string => {
  const losses = Object.entries<LossEntry>(LOSSES).map(lossText)
  const used = losses.some((text) => text.includes('lossMade')) ? 'type Loss, lossMade, type LossOf' : 'type Loss'
  return `// Generated by scripts/gen-ops.ts from the tables in staging/ops/losses.ts and optimizer.ts. Do not edit.
// Losses and optimizers, as users write them: plain data with PyTorch's defaults.
import { known } from '../staging/core/known'
import { type Known, optionsFor } from '../staging/core/options'
import { ${used} } from '../staging/ops/losses'
import { type OptimizerOf, optimizerWith } from '../staging/ops/optimizer'

export type { Loss } from '../staging/ops/losses'
export type { Optimizer } from '../staging/ops/optimizer'

${losses.join('\n')}

/** An option as it is given, or its default. */
type Said<O, K extends string, Of, Default extends Of> = K extends keyof O ? Extract<O[K], Of> | (undefined extends O[K] ? Default : never) : Default

${Object.entries<OptimizerEntry>(OPTIMIZERS).map(optimizerText).join('\n\n')}
`
}
