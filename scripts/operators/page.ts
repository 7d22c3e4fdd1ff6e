// The tables of docs/internals/operators.md: operators, losses, optimizers. In: their entries and the page as it is. Out: the page with them anew.
import { type Choices, isFlag } from '../../staging/ops/choices'
import { type LossEntry, LOSSES } from '../../staging/ops/losses'
import { inputDef, limitText, type OpDef, type OperandDef } from '../../staging/ops/op'
import { OPTIMIZERS, type OptimizerEntry } from '../../staging/ops/optimizer'

/** The table whose first column is called so. */
const table = (first: string): RegExp => new RegExp(`^\\| ${first} \\|(?:.*\\n)+?(?=\\n)`, 'm')

const operandNames = (operands: readonly OperandDef[]): string =>
  operands.map((o) => (o.optional ? `${o.name}?` : o.name)).join(', ')

const operandsText = (d: OpDef): string => {
  const mutated = d.mutates && `(mutates ${d.mutates.map((i) => d.ins[i]!.name).join(', ')})`
  return `${operandNames(d.ins)}${d.variadic ? ', …' : ''} → ${mutated ?? operandNames(d.outs)}${d.paired ? ', …' : ''}`.trim()
}

const attributeNames = (d: OpDef): readonly string[] => {
  const listed = Object.keys(d.rest ?? {})
  const follow = listed.length > 0 ? [...[0, 1].flatMap((i) => listed.map((n) => `${n}${i}`)), '…'] : []
  return [...Object.keys(d.fields), ...follow]
}

/** A long list that begins like that of an earlier operator names it. */
const attributesText = (d: OpDef, earlier: readonly OpDef[]): string => {
  const names = attributeNames(d)
  const begins = (e: OpDef): boolean => Object.keys(e.fields).every((f, i) => f === names[i])
  const like = earlier
    .filter((e) => Object.keys(e.fields).length > 2 && begins(e))
    .reduce<OpDef | undefined>((a, b) => (a && Object.keys(a.fields).length >= Object.keys(b.fields).length ? a : b), undefined)
  if (!like) return names.join(', ')
  const rest = names.slice(Object.keys(like.fields).length).join(', ')
  return `as ${like.kind}${rest === '' || names.join() === attributeNames(like).join() ? '' : `, then ${rest}`}`
}

const pageRow = (d: OpDef, i: number, opDefs: readonly OpDef[]): string => {
  const anchor = d.anchor === 'out' ? 'out' : inputDef(d, d.anchor).name
  return [
    '',
    d.wire,
    `\`${d.kind}\``,
    operandsText(d),
    attributesText(d, opDefs.slice(0, i)),
    anchor,
    d.what.replaceAll('|', '\\|'),
    '',
  ]
    .join(' | ')
    .replaceAll('|  |', '| |')
    .trim()
}

const optionsText = (options: Choices): string =>
  Object.entries(options)
    .map(([name, c]) => {
      const legal = isFlag(c) ? '' : `, ${c.about ? `${c.about}, ` : ''}${limitText(c)}`
      return `${name}${c.default === undefined ? '' : ` (${c.default}${legal})`}`
    })
    .join(', ')
const stateText = ({ name, when }: OptimizerEntry['states'][number]): string => (when ? `${name} with ${when}` : name)

const withTable = (text: string, head: readonly string[], rows: readonly string[]): string =>
  text.replace(table(head[0]!), () =>
    [`| ${head.join(' | ')} |`, `|${' --- |'.repeat(head.length)}`, ...rows, ''].join('\n').replaceAll('|  |', '| |'),
  )

export const page = (opDefs: readonly OpDef[], committed: string): string => {
  const operators = withTable(committed, ['wire', 'kind', 'ins → outs', 'attributes', 'anchor', 'result'], opDefs.map(pageRow))
  const losses = Object.entries<LossEntry>(LOSSES).map(
    ([name, e]) => `| \`${name}\` | \`${e.op}\` | ${optionsText(e.options)} | ${e.labels ? 'labels' : 'like the output'} |`,
  )
  const optimizers = Object.entries<OptimizerEntry>(OPTIMIZERS).map(
    ([name, e]) => `| \`${name}\` | \`${e.update}\` | ${optionsText(e.options)} | ${e.states.map(stateText).join(', ')} |`,
  )
  const both = withTable(operators, ['loss', 'operator', 'options (default, legal)', 'target'], losses)
  return withTable(both, ['optimizer', 'operator', 'options (default, legal)', 'state per parameter'], optimizers)
}
