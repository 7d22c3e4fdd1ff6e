// The op table as a whole: the page that lists it agrees with it, its faults are found, the generated header is current.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { attrsCodec, inputDef, type OpDef } from '../../staging/ops/op'
import { findOp, findOpByWire, opDef, opDefs, tableFault } from '../../staging/ops/registry'

const root = join(__dirname, '..', '..')

const operandNames = (d: OpDef): string => {
  const ins = d.ins.map((o) => (o.optional ? `${o.name}?` : o.name)).join(', ') + (d.variadic ? ', …' : '')
  const mutated = d.mutates?.map((i) => d.ins[i]!.name).join(', ')
  const outs = mutated === undefined ? d.outs.map((o) => (o.optional ? `${o.name}?` : o.name)).join(', ') : `(mutates ${mutated})`
  return `${ins} → ${outs}`.trim()
}

/** Wire, kind, operands, anchor of each row of docs/operators.md. */
const documented = (): string[][] =>
  readFileSync(join(root, 'docs', 'operators.md'), 'utf8').split('\n').filter((l) => /^\| \d+ \|/.test(l))
    .map((l) => l.split('|').map((c) => c.trim()))
    .map((c) => [c[1]!, c[2]!.replaceAll('`', ''), c[3]!, c[5]!])

test('docs/operators.md lists each operator with its operands and anchor', () => {
  const table = opDefs.map((d) => {
    const anchor = d.anchor === 'out' ? 'out' : inputDef(d, d.anchor).name
    return [String(d.wire), d.kind, operandNames(d), d.mutates ? String(d.anchor) : anchor]
  })
  assert.equal(table, documented())
})

test('docs/operators.md lists the attributes in wire order', () => {
  const rows = readFileSync(join(root, 'docs', 'operators.md'), 'utf8').split('\n').filter((l) => /^\| \d+ \|/.test(l))
  const fields = (kind: string): string[] => Object.keys(opDef(kind).fields)
  for (const cells of rows.map((l) => l.split('|').map((c) => c.trim()))) {
    const words = cells[4]!.split(/, (?:then )?/).filter((w) => w !== '')
    const listed = words.flatMap((w) => (w.startsWith('as ') ? fields(w.slice(3)) : [w]))
    assert.equal(fields(cells[2]!.replaceAll('`', '')), listed, cells[2])
  }
})

test('lookups', () => {
  assert.is(opDef('relu').wire, 15)
  assert.is(findOpByWire(15)?.kind, 'relu')
  assert.is(findOp('no_such'), undefined)
  assert.is(findOpByWire(59), undefined)
  assert.throws(() => opDef('no_such'), /no operator 'no_such'/)
})

test('a table with a wire number used twice, or an indexless operand, is refused', () => {
  assert.is(tableFault(opDefs), undefined)
  const relu = opDef('relu')
  assert.is(tableFault([...opDefs, { ...relu, kind: 'relu6' }]), 'relu6 and relu share wire number 15')
  assert.is(tableFault([...opDefs, { ...relu, wire: 100 }]), 'relu is listed twice')
  assert.is(tableFault([{ ...relu, ins: [{ name: 'x', role: 'data' }] }]), 'relu does not say how x is indexed')
  assert.is(tableFault([{ ...relu, ins: [{ name: 'b', role: 'whole', optional: true }, ...relu.ins] }]), 'relu has an optional operand before a required one')
})

test('attributes are exactly the listed numbers, whole where they must be', () => {
  const codec = attrsCodec(opDef('bn_apply').fields)
  assert.ok(codec.is({ eps: 1e-5, count: 40 }))
  for (const bad of [{ eps: 1e-5 }, { eps: 1e-5, count: 40.5 }, { eps: Number.NaN, count: 1 }, { eps: 1, count: 1, more: 1 }, { eps: 1, cound: 1 }, null, [1, 2]])
    assert.not.ok(codec.is(bad), JSON.stringify(bad))
})

const generate = (dir: string, ...args: string[]) =>
  spawnSync(process.execPath, ['-r', 'ts-node/register/transpile-only', join(dir, 'scripts', 'gen-ops.ts'), ...args], { cwd: dir, encoding: 'utf8' })

test('native/gen/ops.h is what the table generates', () => {
  const check = generate(root, '--check')
  assert.is(check.status, 0, check.stderr)
})

test('a header that drifted is noticed', () => {
  const dir = mkdtempSync(join(tmpdir(), 'gen-ops-'))
  try {
    for (const part of ['scripts/gen-ops.ts', 'staging/ops', 'staging/core', 'tsconfig.json', 'native/gen/ops.h'])
      cpSync(join(root, part), join(dir, part), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(dir, 'node_modules'))
    assert.is(generate(dir, '--check').status, 0)
    const relu = join(dir, 'staging', 'ops', 'relu.ts')
    writeFileSync(relu, readFileSync(relu, 'utf8').replace('wire: 15', 'wire: 70'))
    const drifted = generate(dir, '--check')
    assert.is(drifted.status, 1)
    assert.match(drifted.stderr, /differs from the op table/)
    assert.is(generate(dir).status, 0)
    assert.match(readFileSync(join(dir, 'native', 'gen', 'ops.h'), 'utf8'), /X\(relu, 70\)/)
  } finally {
    rmSync(dir, { recursive: true })
  }
})

test('the header compiles, and its table reads attributes and operands', () => {
  const dir = mkdtempSync(join(tmpdir(), 'gen-ops-'))
  const program = `#include "ops.h"
    using namespace spillway;
    static_assert(op_info(25)->in(7).role == Role::data && op_info(25)->max_ins == VARIADIC);
    static_assert(op_info(35)->in(2).written && !op_info(35)->in(1).written && op_info(35)->min_ins == 2);
    static_assert(op_info(31)->in(1).element == Element::i32 && op_info(62)->out(0).updated);
    static_assert(op_info(59) == nullptr && int_attr(1e300) == 0);
    int main() {
      const double a[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
      const auto c = Conv2dBwdDataAttrs::read(a);
      return c.stride_h == 1 && c.pad_right == 6 && c.groups == 9 ? 0 : 1;
    }`
  try {
    writeFileSync(join(dir, 'main.cpp'), program)
    execFileSync('g++', ['-std=c++20', '-Wall', '-Wextra', '-Werror', `-I${join(root, 'native', 'gen')}`, 'main.cpp', '-o', 'main'], { cwd: dir })
    execFileSync(join(dir, 'main'))
  } finally {
    rmSync(dir, { recursive: true })
  }
})

test.run()
