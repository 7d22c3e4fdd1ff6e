// native/gen/ops.h: wire numbers, attribute structs and what the tape reader checks. In: the op table. Out: the header's text.
import { elementOf } from '../../staging/ops/elements'
import type { AnyAttrs, Limit, OpDef, OperandDef } from '../../staging/ops/op'
import { elementLossOps } from '../../staging/ops/loss'
import { scaledOps, steeredOps, updateOps } from '../../staging/ops/optimizer'
import { UNARY } from '../../staging/ops/unary'
import { snake } from '../generated'

const pascal = (kind: string): string => kind.replace(/(^|_)([a-z0-9])/g, (_, __, c: string) => c.toUpperCase())

// ---------------------------------------------------------------- attributes

const wrapped = (items: readonly string[]): string =>
  items.map((item, i) => (i === 0 ? item : i % 6 === 0 ? `,\n            ${item}` : `, ${item}`)).join('')

const attrStruct = (d: OpDef): string => {
  const fields = Object.entries(d.fields)
  const name = `${pascal(d.kind)}Attrs`
  const members = fields.map(([f, type]) => `  ${type === 'int' ? 'int64_t' : 'double'} ${snake(f)};`)
  const reads = fields.map(([, type], i) => (type === 'int' ? `int_attr(a[${i}])` : `a[${i}]`))
  const head =
    fields.length === 0 ? `static ${name} read(const double*) { return {}; }` : `static ${name} read(const double* a) {`
  const body = fields.length === 0 ? [] : [`    return {${wrapped(reads)}};`, '  }']
  return [`struct ${name} {`, ...members, `  ${head}`, ...body, '};'].join('\n')
}

/** One struct for each distinct attribute list; operators that share it (a forward op and its backward) are aliases. */
const attrStructs = (opDefs: readonly OpDef[]): string[] => {
  const owners = new Map<string, string>()
  return opDefs.map((d) => {
    const fields = JSON.stringify(d.fields)
    const owner = owners.get(fields)
    if (owner !== undefined && fields !== '{}') return `using ${pascal(d.kind)}Attrs = ${owner};`
    owners.set(fields, `${pascal(d.kind)}Attrs`)
    return attrStruct(d)
  })
}

// ---------------------------------------------------------------- the table

const VARIADIC = 0xffff
const kinds = (d: OpDef): string =>
  Object.values(d.fields)
    .map((f) => (f === 'int' ? 'i' : 'f'))
    .join('')
const required = (operands: readonly OperandDef[]): number => operands.filter((o) => !o.optional).length

const AXES = ['B', 'C', 'H', 'W'] as const
const RANGES: Readonly<Partial<Record<string, string>>> = { same: 's', all: 'a', reduce: '1', 'all,same': 'b' }

/** All that an operator's attributes may be, where they are a few whole numbers. */
const attributes = (d: OpDef): readonly AnyAttrs[] =>
  Object.entries(d.fields).reduce<readonly AnyAttrs[]>(
    (all, [name, field]) => {
      const { least = 0, most = -1 } = d.limits?.[name] ?? {}
      return field === 'int' && most < 8
        ? all.flatMap((a) => Array.from({ length: most - least + 1 }, (_, i) => ({ ...a, [name]: least + i })))
        : []
    },
    [{}],
  )

/** How an operand lies to the anchor (native/ops/check.cpp), where that follows from no shape, nor from more than a few whole numbers. */
const fits = (d: OpDef, o: OperandDef): string | undefined => {
  if (o.role !== 'data') return o.dims === 'as input 0' ? '=' : o.dims?.join('')
  const { access } = o
  if (access === undefined || access.length > 1) return undefined
  const maps = (access.length === 0 ? [{}] : attributes(d)).map((attrs) => access(attrs, { ins: [], outs: [] }))
  const ranges = AXES.map((axis) => RANGES[[...new Set(maps.map((m) => m[axis].tag))].sort().join()])
  return maps.length > 0 && ranges.every((r) => r !== undefined) ? ranges.join('') : undefined
}

const operand = (d: OpDef, o: OperandDef, written: boolean): string => {
  const how = fits(d, o)
  const when = o.when === undefined ? '' : `, ${Object.keys(d.fields).indexOf(o.when)}`
  return `{"${o.name}", Role::${o.role}, Element::${elementOf(d, o)}, ${written}, ${o.updates === true}, ${how === undefined ? 'nullptr' : `"${how}"`}${when}}`
}

const bound = (n: number | undefined, otherwise: string): string => (n === undefined ? otherwise : String(n))
const limitText = (attr: number, l: Limit): string =>
  `{${attr}, ${bound(l.least, '-UNBOUNDED')}, ${bound(l.most, 'UNBOUNDED')}, ${bound(l.above, '-UNBOUNDED')}, ${bound(l.below, 'UNBOUNDED')}}`
const limits = (d: OpDef): readonly string[] => [
  ...Object.entries(d.limits ?? {}).map(([name, l]) => limitText(Object.keys(d.fields).indexOf(name), l!)),
  ...Object.values(d.rest ?? {}).map((l, i) => limitText(Object.keys(d.fields).length + i, l)),
]
const limitsName = (d: OpDef): string => `${pascal(d.kind)}Limits`
const limitTables = (opDefs: readonly OpDef[]): string =>
  opDefs
    .filter((d) => limits(d).length > 0)
    .map((d) => `inline constexpr AttrLimit ${limitsName(d)}[] = {${limits(d).join(', ')}};`)
    .join('\n')

const tableRow = (d: OpDef): string => {
  const ins = d.ins.map((o, i) => operand(d, o, d.mutates?.includes(i) === true))
  const outs = d.outs.map((o) => operand(d, o, true))
  const counts = [
    required(d.ins),
    d.variadic ? VARIADIC : d.ins.length,
    required(d.outs),
    d.paired ? VARIADIC : d.outs.length,
  ].join(', ')
  return [
    `    {"${d.kind}", ${d.wire}, ${counts}, ${Object.keys(d.fields).length}, ${Object.keys(d.rest ?? {}).length}, "${kinds(d)}", ${d.random === true}, ${d.inPlace?.[0] ?? -1}, ${d.anchor === 'out' ? -1 : d.anchor}, ${limits(d).length > 0 ? limitsName(d) : 'nullptr'}, ${limits(d).length},`,
    `     {${ins.join(', ')}},`,
    `     {${outs.join(', ')}}},`,
  ].join('\n')
}

const widest = (opDefs: readonly OpDef[], pick: (d: OpDef) => readonly OperandDef[]): number =>
  Math.max(...opDefs.map((d) => pick(d).length))

// ---------------------------------------------------------------- the header

export const header = (
  opDefs: readonly OpDef[],
): string => `// Generated by scripts/gen-ops.ts from the op table (staging/ops). Do not edit.
#pragma once
#include <cstdint>

/// Every operator: X(kind, wire number).
#define SPILLWAY_OPS(X) \\
${opDefs.map((d) => `  X(${d.kind}, ${d.wire})`).join(' \\\n')}

/// Every activation of staging/ops/unary.ts: X(kind); its gradient is kind_bwd.
#define SPILLWAY_UNARY(X) \\
${UNARY.map((u) => `  X(${u.kind})`).join(' \\\n')}

/// Every loss per element of staging/ops/losses.ts: X(kind); its gradient is kind_bwd.
#define SPILLWAY_ELEMENT_LOSSES(X) \\
${elementLossOps
  .filter((d) => d.backward)
  .map((d) => `  X(${d.kind})`)
  .join(' \\\n')}

/// Every update of staging/ops/optimizer.ts: X(kind, its attributes).
#define SPILLWAY_UPDATES(X) \\
${updateOps.map((d) => `  X(${d.kind}, ${pascal(d.kind)}Attrs)`).join(' \\\n')}

/// The same, steered: X(kind, its attributes, the update's own kind).
#define SPILLWAY_STEERED_UPDATES(X) \\
${steeredOps.map((d, i) => `  X(${d.kind}, ${pascal(d.kind)}Attrs, ${updateOps[i]!.kind})`).join(' \\\n')}

/// The same, under a loss scale: X(kind, its attributes, the update's own kind).
#define SPILLWAY_SCALED_UPDATES(X) \\
${scaledOps.map((d, i) => `  X(${d.kind}, ${pascal(d.kind)}Attrs, ${updateOps[i]!.kind})`).join(' \\\n')}

namespace spillway {

enum class OpKind : uint16_t {
#define SPILLWAY_OP_ENUM(kind, wire) kind = wire,
  SPILLWAY_OPS(SPILLWAY_OP_ENUM)
#undef SPILLWAY_OP_ENUM
};

// ---------------------------------------------------------------- attributes, in wire order

/// The cast of an untrusted double outside the range of int64_t would be undefined. Calls with such a double, or with a divisor of 0, are
/// refused (ops/table.hpp and the operators' checks). So the value here is unused; it is not 0, which clang-tidy takes for a divisor.
constexpr int64_t int_attr(double v) { return v >= -0x1p53 && v <= 0x1p53 ? static_cast<int64_t>(v) : -1; }

${attrStructs(opDefs).join('\n\n')}

// ---------------------------------------------------------------- what the tape reader checks

/// data: rank 4, a box of an activation; whole: dense (but what is laid), origin 0, any rank; any: either.
enum class Role : uint8_t { data, whole, any };
/// real: the tape's float type; either: that or a 16-bit float, all such operands of a call alike; any: all such operands alike; u8: bytes;
/// laid: as either, but whole, channels innermost; weight: real, dense, or laid.
enum class Element : uint8_t { real, i32, any, either, bf16, f16, u8, weight, laid };

struct OperandInfo {
  const char* name = nullptr;
  Role role = Role::any;
  Element element = Element::real;
  bool written = false;  // outputs, and inputs that the op overwrites
  bool updated = false;  // an output that is read too
  const char* fits = nullptr;  // how it lies to the anchor (ops/check.cpp); null where the operator's own check says
  int when = -1;               // the attribute with which it comes, and which is 0 where it is left out
};

constexpr double UNBOUNDED = __builtin_inf();
/// Limits of an attribute, by its place: at least, at most, above and below; places after the last are those of lists that follow.
struct AttrLimit {
  int attr;
  double least, most, above, below;
};

constexpr uint16_t VARIADIC = ${VARIADIC};
constexpr int MAX_DECLARED_INS = ${widest(opDefs, (d) => d.ins)};
constexpr int MAX_DECLARED_OUTS = ${widest(opDefs, (d) => d.outs)};

struct OpInfo {
  const char* kind;
  uint16_t wire;
  uint16_t min_ins, max_ins;  // VARIADIC: the last declared input repeats
  uint16_t min_outs, max_outs;  // VARIADIC: as many as inputs, the last declared one repeats
  uint16_t attrs;
  uint16_t rest;           // so many lists of floats follow, the first of each, the second of each, ...
  const char* attr_kinds;  // one letter each: i = an integer of at most 2^53, f = any finite number
  bool random;
  int in_place;  // the input whose bytes output 0 may be, or -1
  int anchor;    // the input whose box is the iteration space; -1: output 0's
  const AttrLimit* limits;
  int n_limits;
  OperandInfo ins[MAX_DECLARED_INS];
  OperandInfo outs[MAX_DECLARED_OUTS];

  constexpr const OperandInfo& in(uint32_t i) const {
    const uint32_t declared = max_ins == VARIADIC ? min_ins : max_ins;
    return ins[i < declared ? i : declared - 1];
  }
  constexpr const OperandInfo& out(uint32_t i) const {
    const uint32_t declared = max_outs == VARIADIC ? min_outs : max_outs;
    return outs[i < declared ? i : declared - 1];
  }
};

${limitTables(opDefs)}

inline constexpr OpInfo OP_TABLE[] = {
${opDefs.map(tableRow).join('\n')}
};

/// Null when no operator has this wire number.
constexpr const OpInfo* op_info(uint32_t wire) {
  for (const OpInfo& op : OP_TABLE)
    if (op.wire == wire) return &op;
  return nullptr;
}

}  // namespace spillway
`
