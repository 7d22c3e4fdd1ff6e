// The files of `npm run test:quick`: one of each kind of check, a minute on two cores. Each line is a file of test/, or
// a folder.
'use strict'

const QUICK = [
  // Units.
  'test/core/',
  'test/graph/',
  'test/memory/',
  'test/tile/',
  'test/sim/simulate.test.ts',
  'test/verify/memory.test.ts',
  'test/verify/structure.test.ts',
  'test/schedule/candidates.test.ts',
  'test/plan/instructions.test.ts',
  'test/src/predict/',
  // Operators, by definition, against PyTorch and in native code.
  'test/ops/rules.test.ts',
  'test/ops/conv2d.test.ts',
  'test/conformance/',
  'test/native/kernels_gradient.cpp',
  'test/native/reader_test.cpp',
  'test/native/interpreter_test.cpp',
  // Golden plans.
  'test/golden/vgg16-features.test.ts',
  'test/golden/resnet18.test.ts',
  // The compiler's messages.
  'test/types/legality.test.ts',
  // The house's own rules.
  'test/house/imports.test.ts',
  // Training end to end: a run that is killed and resumed, a step with several objectives,
  // a plan that swaps to a disk.
  'test/e2e/kill.test.ts',
  'test/e2e/step.test.ts',
  'test/e2e/tiers.test.ts',
]

module.exports = { QUICK }
