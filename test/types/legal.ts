// Programs that must compile, and run: sizes at their borders, and modules that users write.
// In: nothing. Out: a list. Types are asserted by assigning to literals, so a wrong shape would not compile.
export const legal: readonly string[] = [
  "export const a: [1, 64, 224, 224] = model([1, 3, 224, 224], seq(conv2d('c', 64, 3))).output",
  "export const a: [1, 8, 100000, 100000] = model([1, 3, 100000, 100000], seq(conv2d('c', 8, 3))).output",
  "export const a: 320000000000 = model([1, 3, 100000, 100000], seq(conv2d('c', 8, 3), relu())).activationBytes",
  "export const a: [1, 8, 99991, 1] = model([1, 3, 99991, 1], seq(conv2d('c', 8, 3))).output",
  "export const a: [2, 8, 112, 112] = model([2, 3, 224, 224], seq(conv2d('c', 8, 7, { stride: 2 }))).output",
  "export const a: [1, 8, 4, 4] = model([1, 3, 7, 7], seq(conv2d('c', 8, 3, { stride: 2 }))).output",
  "export const a: [1, 8, 7, 7] = model([1, 3, 8, 8], seq(conv2d('c', 8, 4))).output",
  "export const a: [1, 8, 8, 8] = model([1, 3, 8, 8], seq(conv2d('c', 8, 4, { dilation: 2 }))).output",
  "export const a: [1, 8, 8, 8] = model([1, 3, 8, 8], seq(conv2d('c', 8, 3, { dilation: 6 }))).output",
  "export const a: [1, 8, 32, 26] = model([1, 3, 32, 32], seq(conv2d('c', 8, [1, 7], { pad: [0, 0] }))).output",
  "export const a: [1, 8, 32, 16] = model([1, 3, 32, 32], seq(conv2d('c', 8, [1, 7], { stride: [1, 2] }))).output",
  "export const a: [1, 8, 1, 1] = model([1, 3, 3, 3], seq(conv2d('c', 8, 3, { pad: 0 }))).output",
  "export const a: [1, 6, 8, 8] = model([1, 4, 8, 8], seq(conv2d('c', 6, 3, { groups: 2 }))).output",
  "export const a: [1, 8, 14, 10] = model([1, 3, 7, 5], seq(convTranspose2d('u', 8, 2, { stride: 2 }))).output",
  "export const a: [1, 8, 14, 20] = model([1, 3, 7, 7], seq(convTranspose2d('u', 8, 3, { stride: [2, 3], pad: 1, outputPad: 1 }))).output",
  "export const a: [1, 4, 9, 9] = model([1, 6, 5, 5], seq(convTranspose2d('u', 4, 3, { dilation: 2, groups: 2 }))).output",
  "export const a: [1, 8, 16, 16] = model([1, 3, 32, 32], seq(conv2d('c', 8, 3, { stride: 2, pad: { top: 0, left: 0, bottom: 1, right: 1 } }))).output",
  "export const a: [1, 8, 17, 17] = model([1, 3, 17, 17], seq(conv2d('a', 8, [1, 7]), conv2d('b', 8, [7, 1], { pad: [3, 0] }))).output",
  'export const a: [1, 3, 13, 13] = model([1, 3, 7, 7], seq(reflectionPad2d(3))).output',
  'export const a: [1, 3, 8, 10] = model([1, 3, 7, 7], seq(reflectionPad2d({ top: 1, left: 0, bottom: 0, right: 3 }))).output',
  "export const a: readonly ('B' | 'H' | 'W')[] = model([1, 3, 7, 7], seq(tanh(), softmax(), localResponseNorm(5, { k: 2 }))).ft",
  'export const a: [1, 3, 14, 21] = model([1, 3, 7, 7], seq(upsample({ scale: [2, 3] }))).output',
  "export const a: [1, 3, 129, 65] = model([1, 3, 7, 7], seq(upsample({ size: [129, 65], mode: 'bilinear', alignCorners: true }))).output",
  'export const a: [1, 3, 3, 3] = model([1, 3, 7, 7], seq(maxPool(2))).output',
  'export const a: [1, 3, 4, 4] = model([1, 3, 7, 7], seq(maxPool(2, { ceil: true }))).output',
  'export const a: [1, 3, 3, 3] = model([1, 3, 5, 5], seq(maxPool(2, { stride: 2, pad: 1 }))).output',
  'export const a: [1, 3, 2, 2] = model([1, 3, 3, 3], seq(maxPool(2, { stride: 3, pad: 1, ceil: true }))).output',
  'export const a: [1, 3, 56, 56] = model([1, 3, 112, 112], seq(maxPool(3, { stride: 2, pad: 1 }))).output',
  'export const a: [1, 3, 4, 2] = model([1, 3, 8, 8], seq(avgPool([2, 4]))).output',
  "export const a: [1, 3, 7, 7] = model([1, 3, 21, 14], seq(adaptiveAvgPool('p', 7))).output",
  "export const a: [1, 10, 1, 1] = model([1, 3, 7, 7], seq(flatten(), linear('fc', 10))).output",
  "export const a: [1, 10, 7, 5] = model([1, 3, 7, 5], seq(pixelLinear('fc', 10))).output",
  "export const a: readonly ('B' | 'H' | 'W')[] = model([1, 3, 7, 5], seq(pixelLinear('fc', 10, { bias: false }))).ft",
  'export const a: [1, 147, 1, 1] = model([1, 3, 7, 7], seq(flatten())).output',
  "export const a: [1, 11, 8, 8] = model([1, 3, 8, 8], concat(conv2d('a', 8, 3), identity)).output",
  "export const a: [1, 8, 8, 8] = model([1, 3, 8, 8], seq(concat(conv2d('a', 8, 3)))).output",
  "export const a: 'layer1.2.c' = layerOf(model([1, 8, 8, 8], blocks('layer1', relu(), repeat(2, conv2d('c', 8, 3)))), 'layer1.2.c').name",
  "export const a: 'layer3.c' = layerOf(model([1, 8, 8, 8], counted('layer', 1, relu(), repeat(2, conv2d('c', 8, 3)))), 'layer3.c').name",
  "export const a: [1, 11, 8, 8] = model([1, 3, 8, 8], skip(relu(), conv2d('a', 8, 3))).output",
  "export const a: [1, 8, 9, 7] = model([1, 8, 9, 7], seq(scaled(globalAvgPool(), conv2d('a', 2, 1), silu(), conv2d('b', 8, 1), sigmoid()), scaled(conv2d('c', 1, 1)), layerScale('d'))).output",
  "export const a: [1, 5, 99, 64] = model([1, 3, 99, 64], atInputSize(globalAvgPool(), conv2d('a', 5, 1))).output",
  "export const a: [1, 5, 50, 32] = layerOf(model([1, 3, 99, 64], atInputSize(conv2d('a', 5, 3, { stride: 2 }), conv2d('b', 5, 1))), 'b').output",
  "export const a: [1, 3, 7, 7] = model([1, 3, 1, 14], seq(adaptiveAvgPool('p', 7))).output",
  "export const a: readonly ('C')[] = model([1, 3, 8, 8], seq(batchNorm('n'))).ft",
  "export const a: readonly ('B' | 'C' | 'H' | 'W')[] = model([1, 3, 8, 8], seq(batchNorm('n', { frozen: true }), leakyRelu(0.1))).ft",
  "export const a: [1, 6, 8, 8] = model([1, 6, 8, 8], seq(groupNorm('g', 3), instanceNorm(), instanceNorm('i', { affine: true }))).output",
  "export const a: readonly ('B')[] = model([1, 6, 8, 8], seq(groupNorm('g', 3))).ft",
  'export const a: [1, 3, 8, 8] = model([1, 3, 8, 8], seq()).output',
  'export const a: [1, 3, 8, 8] = model([1, 3, 8, 8], seq(dropout(0), dropout(0.5), dropout(1e-7))).output',
  `const normed = <N extends string, O extends number, K extends number, S extends number = 1>(name: N, out: O, k: K, stride?: S) =>
  seq(conv2d(name, out, k, { stride, bias: false }), batchNorm(\`\${name}_bn\`), relu())
const bottleneck = <M extends number, O extends number>(mid: M, out: O) =>
  seq(residual(seq(normed('c1', mid, 1), normed('c2', mid, 3), normed('c3', out, 1)), identity), relu())
const net = model([2, 3, 64, 64], seq(normed('stem', 32, 7, 2), blocks('b', repeat(3, bottleneck(8, 32))), globalAvgPool(), linear('fc', 5)))
export const a: [2, 5, 1, 1] = net.output
export const b: [2, 8, 32, 32] = layerOf(net, 'b.2.c2_bn').output`,
  `const inception = <A extends number, B extends number>(a: A, b: B) => concat(
  conv2d('b1', a, 1), seq(conv2d('b2a', b, 1), conv2d('b2b', b, [1, 7]), conv2d('b2c', b, [7, 1])), seq(maxPool(3, { stride: 1, pad: 1 }), conv2d('b3', a, 1)))
export const a: [1, 40, 17, 17] = model([1, 3, 17, 17], block('mixed', inception(16, 8))).output`,
  `const sizes: number[] = [8, 16]
export const a = modelAt([1, 3, sizes[0], sizes[0]], seq(...sizes.map((n) => conv2d(\`c\${n}\`, n, 3))))`,
  'export const a = [sgd({ lr: 0.1 }), adam({ lr: 1e-3, weightDecay: 0.1 })]',
]
