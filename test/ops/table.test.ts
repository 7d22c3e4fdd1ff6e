// The op table as a whole: its faults are found, and generated files are current.
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { attrsCodec } from '../../staging/ops/op'
import { findOp, opDef, opDefs, tableFault } from '../../staging/ops/registry'
import { gateTest } from '../full'

const root = join(__dirname, '..', '..')

test('lookups', () => {
  assert.is(opDef('relu').wire, 15)
  assert.is(findOp('no_such'), undefined)
  assert.throws(() => opDef('no_such'), /no operator 'no_such'/)
})

test('a table with a wire number used twice, or an indexless operand, is refused', () => {
  assert.is(tableFault(opDefs), undefined)
  const relu = opDef('relu')
  assert.is(tableFault([...opDefs, { ...relu, kind: 'relu7' }]), 'relu7 and relu share wire number 15')
  assert.is(tableFault([...opDefs, { ...relu, wire: 6000 }]), 'relu is listed twice')
  assert.is(tableFault([{ ...relu, ins: [{ name: 'x', role: 'data' }] }]), 'relu does not say how x is indexed')
  assert.is(
    tableFault([{ ...relu, ins: [{ name: 'b', role: 'whole', optional: true }, ...relu.ins] }]),
    'relu has an optional operand before a required one',
  )
})

test('attributes are exactly the listed numbers, whole where they must be', () => {
  const codec = attrsCodec(opDef('bn_apply'))
  assert.ok(codec.is({ eps: 1e-5, count: 40 }))
  for (const bad of [
    { eps: 1e-5 },
    { eps: 1e-5, count: 40.5 },
    { eps: Number.NaN, count: 1 },
    { eps: 1, count: 1, more: 1 },
    { eps: 1, cound: 1 },
    null,
    [1, 2],
  ])
    assert.not.ok(codec.is(bad), JSON.stringify(bad))
})

const generate = (dir: string, ...args: string[]) =>
  spawnSync(
    process.execPath,
    ['-r', require.resolve('../../scripts/testing/typescript'), join(dir, 'scripts', 'gen-ops.ts'), ...args],
    {
      cwd: dir,
      encoding: 'utf8',
    },
  )

test('native/gen/ops.h and docs/internals/operators.md equal the output of the op table', () => {
  const check = generate(root, '--check')
  assert.is(check.status, 0, check.stderr)
})

gateTest('a header that drifted is noticed', () => {
  const dir = mkdtempSync(join(tmpdir(), 'gen-ops-'))
  try {
    for (const part of [
      'scripts/gen-ops.ts',
      'scripts/generated.ts',
      'scripts/operators',
      'staging',
      'dsl',
      'tsconfig.json',
      'native/gen',
      'native/cuda/kernels',
      'test/native/kernels',
      'docs/internals/operators.md',
    ])
      cpSync(join(root, part), join(dir, part), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(dir, 'node_modules'))
    assert.is(generate(dir, '--check').status, 0)
    const unary = join(dir, 'staging', 'ops', 'unary.ts')
    writeFileSync(unary, readFileSync(unary, 'utf8').replace('wires: [15, 16]', 'wires: [7000, 16]'))
    const drifted = generate(dir, '--check')
    assert.is(drifted.status, 1)
    for (const file of ['native/gen/ops.h', 'docs/internals/operators.md'])
      assert.match(drifted.stderr, `${file} differs from the op table`)
    assert.is(generate(dir).status, 0)
    assert.match(readFileSync(join(dir, 'native', 'gen', 'ops.h'), 'utf8'), /X\(relu, 7000\)/)
    assert.match(
      readFileSync(join(dir, 'docs', 'internals', 'operators.md'), 'utf8'),
      /\| 7000 \| `relu` \| x → y \| slope \| out \|/,
    )
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
    static_assert(op_info(59) == nullptr && int_attr(1e300) == -1);
    int main() {
      const double a[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
      const auto c = Conv2dBwdDataAttrs::read(a);
      return c.stride_h == 1 && c.pad_right == 6 && c.groups == 9 ? 0 : 1;
    }`
  try {
    writeFileSync(join(dir, 'main.cpp'), program)
    execFileSync(
      'g++',
      ['-std=c++20', '-Wall', '-Wextra', '-Werror', `-I${join(root, 'native', 'gen')}`, 'main.cpp', '-o', 'main'],
      { cwd: dir },
    )
    execFileSync(join(dir, 'main'))
  } finally {
    rmSync(dir, { recursive: true })
  }
})

test.run()
