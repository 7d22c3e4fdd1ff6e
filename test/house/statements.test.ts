// The counted statements, in both languages.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { statementsIn } from '../../scripts/count-statements'

const CPP: readonly [text: string, count: number][] = [
  ['int f() { return 1; } // none; here', 2],
  ['X::X(int a) : a_(a), b_{2} { for (int i = 0; i < 3; i++) g(); }', 5],
  ['X::X(int a) : a_(a) {}', 2],
  ['if (a) { b(); } else c(); while (x) {}', 4],
  ['const auto f = [&](int x) { return x ? (a) : b; };', 3],
  ['const auto f = [](int x) -> Result<int> { return x; };', 3],
  ['#include "a.hpp"\nconst char* s = "; if (";', 1],
]
const TYPESCRIPT: readonly [text: string, count: number][] = [
  ["import { a } from 'b'\nconst f = (x: number): number => x", 3],
  ['function f() { if (a) { b() } else c() }', 4],
  ['interface A { readonly b: number; c(): void }\ntype D = { e: 1 }', 5],
]

test('statements of C++', () => {
  for (const [text, count] of CPP) assert.is(statementsIn('a.cpp', text), count, text)
})

test('statements of TypeScript', () => {
  for (const [text, count] of TYPESCRIPT) assert.is(statementsIn('a.ts', text), count, text)
})

test.run()
