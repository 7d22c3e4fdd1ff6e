// The op table, looked up by kind; table.ts lists the entries.
// Invariant, checked when the module loads: kinds and wire numbers are unique, and optional operands trail.
import type { OpDef, OperandDef } from './op'
import { opDefs } from './table'

export { opDefs }

const trailing = (operands: readonly OperandDef[]): boolean =>
  operands.every((o, i) => !o.optional || operands.slice(i).every((p) => p.optional))

/** Returns an error in the table, if there is one. */
export const tableFault = (defs: readonly OpDef[]): string | undefined => {
  const wires = new Map<number, string>()
  const kinds = new Set<string>()
  for (const d of defs) {
    if (wires.has(d.wire)) return `${d.kind} and ${wires.get(d.wire)} share wire number ${d.wire}`
    if (kinds.has(d.kind)) return `${d.kind} is listed twice`
    if (!Number.isInteger(d.wire) || d.wire < 1 || d.wire > 0xffff)
      return `${d.kind} has wire number ${d.wire}; allowed: 1 to 65535`
    if (!trailing(d.ins) || !trailing(d.outs)) return `${d.kind} has an optional operand before a required one`
    const bare = [...d.ins, ...d.outs].find((o) => o.role === 'data' && !o.access)
    if (bare) return `${d.kind} does not say how ${bare.name} is indexed`
    wires.set(d.wire, d.kind)
    kinds.add(d.kind)
  }
  return undefined
}

const fault = tableFault(opDefs)
if (fault !== undefined) throw new Error(`op table: ${fault}`)

const byKind = new Map(opDefs.map((d) => [d.kind, d]))

export const findOp = (kind: string): OpDef | undefined => byKind.get(kind)

/** Returns the entry of a kind. Throws if there is none: callers have checked the kind. */
export const opDef = (kind: string): OpDef => {
  const d = byKind.get(kind)
  if (!d) throw new Error(`the op table has no operator '${kind}'`)
  return d
}
