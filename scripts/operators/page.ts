// The table of docs/operators.md. In: the op table and the page as it is. Out: the page with the table anew.
import { inputDef, type OpDef, type OperandDef } from '../../staging/ops/op'

const TABLE = /^\| wire \|(?:.*\n)+?(?=\n)/m

const operandNames = (operands: readonly OperandDef[]): string =>
  operands.map((o) => (o.optional ? `${o.name}?` : o.name)).join(', ')

const operandsText = (d: OpDef): string => {
  const mutated = d.mutates && `(mutates ${d.mutates.map((i) => d.ins[i]!.name).join(', ')})`
  return `${operandNames(d.ins)}${d.variadic ? ', …' : ''} → ${mutated ?? operandNames(d.outs)}`.trim()
}

/** A long list that begins like that of an earlier operator names it. */
const attributesText = (d: OpDef, earlier: readonly OpDef[]): string => {
  const names = Object.keys(d.fields)
  const begins = (e: OpDef): boolean => Object.keys(e.fields).every((f, i) => f === names[i])
  const like = earlier
    .filter((e) => Object.keys(e.fields).length > 2 && begins(e))
    .reduce<OpDef | undefined>((a, b) => (a && Object.keys(a.fields).length >= Object.keys(b.fields).length ? a : b), undefined)
  if (!like) return names.join(', ')
  const rest = names.slice(Object.keys(like.fields).length).join(', ')
  return `as ${like.kind}${rest === '' ? '' : `, then ${rest}`}`
}

const pageRow = (d: OpDef, i: number, opDefs: readonly OpDef[]): string => {
  const anchor = d.anchor === 'out' ? 'out' : inputDef(d, d.anchor).name
  return ['', d.wire, `\`${d.kind}\``, operandsText(d), attributesText(d, opDefs.slice(0, i)), anchor, d.what, '']
    .join(' | ')
    .replaceAll('|  |', '| |')
    .trim()
}

export const page = (opDefs: readonly OpDef[], committed: string): string => {
  const head = ['| wire | kind | ins → outs | attributes | anchor | what |', '| --- | --- | --- | --- | --- | --- |']
  return committed.replace(TABLE, () => `${[...head, ...opDefs.map(pageRow)].join('\n')}\n`)
}
