// Programs that must not compile, each with its exact message. In: nothing. Out: a table, run twice by legality.test.ts:
// through the type checker, and as JavaScript, which must say the same words wherever the program can run at all.
import * as dsl from '../../dsl'

/** The text before each program: all exports of the DSL. */
export const prelude = `import { ${Object.keys(dsl).join(', ')} } from '../../dsl'\n`

export interface Illegal {
  readonly program: string
  /** The error of the model, in words: at compile time and at run time. */
  readonly says?: string
  /** Messages of the compiler itself; such programs are not run. */
  readonly compiler?: readonly string[]
}

const at = (says: string, ...programs: readonly string[]): readonly Illegal[] => programs.map((program) => ({ program, says }))
const compiler = (program: string, ...messages: readonly string[]): Illegal => ({ program, compiler: messages })

const input = (shape: string): string => `'input': its shape is ${shape}; allowed: four whole numbers [B,C,H,W] of at least 1`
const LITERALS = 'its sizes are not number literals; if sizes are known only at run time, use modelAt(input, net)'
const refused = (words: string): string => `Argument of type 'number[]' is not assignable to parameter of type '"${words}"'.`

const shapes: readonly Illegal[] = [
  ...at(input('[3,4,4]'), 'model([3, 4, 4], seq(relu()))'),
  ...at(input('[1,3,8,8,8]'), 'model([1, 3, 8, 8, 8], seq(relu()))'),
  ...at(input('[1,3,0,4]'), 'model([1, 3, 0, 4], seq(relu()))'),
  ...at(input('[1,3,-8,4]'), 'model([1, 3, -8, 4], seq(relu()))'),
  ...at(input('[1,3,2.5,4]'), 'model([1, 3, 2.5, 4], seq(relu()))'),
]

const windows: readonly Illegal[] = [
  ...at(
    "layer 'p3' (maxPool): a window of 2x2 does not fit its input [1,8,1,1]",
    "model([1, 3, 4, 4], seq(conv2d('c1', 8, 3), maxPool('p1', 2), maxPool('p2', 2), maxPool('p3', 2)))",
  ),
  ...at("layer 'avgPool' (avgPool): a window of 5x5 does not fit its input [1,3,4,9]", 'model([1, 3, 4, 9], seq(avgPool(5)))'),
  ...at(
    "layer 'c' (conv2d): a window of 7x7 does not fit its input [1,3,6,6]",
    "model([1, 3, 6, 6], seq(conv2d('c', 8, 7, { pad: 0 })))",
  ),
  ...at(
    "layer 'c' (conv2d): a window of 3x3 does not fit its input [1,3,8,8]",
    "model([1, 3, 8, 8], seq(conv2d('c', 8, 3, { pad: 0, dilation: 4 })))",
  ),
  ...at(
    "layer 'c' (conv2d): a window of 1x9 does not fit its input [1,3,32,8]",
    "model([1, 3, 32, 8], seq(conv2d('c', 8, [1, 9], { pad: 0 })))",
  ),
  ...at(
    "layer 'maxPool' (maxPool): a padding of 2x2 is more than half its window of 3x3",
    'model([1, 3, 8, 8], seq(maxPool(3, { pad: 2 })))',
  ),
  ...at(
    "layer 'maxPool' (maxPool): a padding of 0+2x0+0 is more than half its window of 3x3",
    'model([1, 3, 8, 8], seq(maxPool(3, { pad: { top: 0, left: 0, bottom: 2, right: 0 } })))',
  ),
  ...at(
    "layer 'pixelShuffle' (pixelShuffle): 6 input channels do not divide into 4 groups",
    'model([1, 6, 8, 8], seq(pixelShuffle(2)))',
  ),
  ...at(
    "layer 'pixelUnshuffle' (pixelUnshuffle): windows of 2x2 do not divide its input of [1,6,8,7]",
    'model([1, 6, 8, 7], seq(pixelUnshuffle(2)))',
  ),
  ...at(
    "layer 'p' (avgPool): a padding of 0x2 is more than half its window of 3x3",
    "model([1, 3, 8, 8], seq(avgPool('p', 3, { pad: [0, 2] })))",
  ),
  ...at(
    "layer 'c' (conv2d): with a padding of 3x3 a window of 3x3 would see only padding",
    "model([1, 3, 8, 8], seq(conv2d('c', 8, 3, { pad: 3 })))",
  ),
]

const transposed: readonly Illegal[] = [
  ...at(
    "layer 'u' (convTranspose2d): an output padding of 2x2 must be less than its stride of 2x2 or its dilation of 1x1",
    "model([1, 3, 4, 4], seq(convTranspose2d('u', 8, 3, { stride: 2, outputPad: 2 })))",
  ),
  ...at(
    "layer 'u' (convTranspose2d): a padding of 2x2 removes all of its output",
    "model([1, 3, 1, 4], seq(convTranspose2d('u', 8, 3, { pad: 2 })))",
  ),
  ...at(
    "layer 'u' (convTranspose2d): with a padding of 2x2 a window of 2x2 would see only padding",
    "model([1, 3, 4, 4], seq(convTranspose2d('u', 8, 2, { pad: 2 })))",
  ),
  ...at(
    "layer 'c' (conv2d): with a padding of 0+3x1+0 a window of 3x3 would see only padding",
    "model([1, 3, 8, 8], seq(conv2d('c', 8, 3, { pad: { top: 0, left: 1, bottom: 3, right: 0 } })))",
  ),
  ...at(
    "layer 'reflectionPad2d' (reflectionPad2d): a padding of 0+0x4+4 reflects more than its input [1,3,4,4] has; allowed: less than its height and width",
    'model([1, 3, 4, 4], seq(reflectionPad2d([0, 4])))',
  ),
  ...at(
    "layer 'localResponseNorm' (localResponseNorm): its k must be more than 0, not 0",
    'model([1, 3, 4, 4], seq(localResponseNorm(5, { k: 0 })))',
  ),
  ...at(
    "layer 'upsample' (upsample): its scale must be a whole number of at least 1, not 0.5",
    'model([1, 3, 4, 4], seq(upsample({ scale: 0.5 })))',
  ),
]

const sizes: readonly Illegal[] = [
  ...at(
    "layer 'c' (conv2d): its number of channels must be a whole number of at least 1, not 0",
    "model([1, 3, 8, 8], seq(conv2d('c', 0, 3)))",
  ),
  ...at(
    "layer 'c' (conv2d): its kernel must be a whole number of at least 1, not 2.5",
    "model([1, 3, 8, 8], seq(conv2d('c', 8, 2.5)))",
  ),
  ...at(
    "layer 'c' (conv2d): its stride must be a whole number of at least 1, not 0",
    "model([1, 3, 8, 8], seq(conv2d('c', 8, 3, { stride: [1, 0] })))",
  ),
  ...at(
    "layer 'c' (conv2d): its dilation must be a whole number of at least 1, not -1",
    "model([1, 3, 8, 8], seq(conv2d('c', 8, 3, { dilation: -1 })))",
  ),
  ...at(
    "layer 'c' (conv2d): its padding must be a whole number of at least 0, not -1",
    "model([1, 3, 8, 8], seq(conv2d('c', 8, 3, { pad: -1 })))",
  ),
  ...at(
    "layer 'c' (conv2d): 3 input channels do not divide into 2 groups",
    "model([1, 3, 8, 8], seq(conv2d('c', 8, 3, { groups: 2 })))",
  ),
  ...at("layer 'g' (groupNorm): 8 input channels do not divide into 3 groups", "model([1, 8, 4, 4], seq(groupNorm('g', 3)))"),
  ...at(
    "layer 'c' (conv2d): 8 output channels do not divide into 3 groups",
    "model([1, 3, 8, 8], seq(conv2d('c', 8, 3, { groups: 3 })))",
  ),
  ...at(
    "layer 'fc' (linear): its number of outputs must be a whole number of at least 1, not 1.5",
    "model([1, 3, 1, 1], seq(linear('fc', 1.5)))",
  ),
  ...at(
    "layer 'fc' (pixelLinear): its number of outputs must be a whole number of at least 1, not 0",
    "model([1, 3, 7, 7], seq(pixelLinear('fc', 0)))",
  ),
  ...at(
    "layer 'fc' (linear): needs an input of [B,C,1,1] but gets [1,8,7,7]; put flatten() or globalAvgPool() before it",
    "model([1, 3, 7, 7], seq(conv2d('c', 8, 3), linear('fc', 10)))",
  ),
  ...at(
    "layer 'avgpool' (adaptiveAvgPool): its size must be a whole number of at least 1, not 0",
    "model([1, 3, 10, 14], seq(adaptiveAvgPool('avgpool', 0)))",
  ),
  ...at(
    "layer 'dropout' (dropout): its probability must be at least 0 and below 1, not 1",
    'model([1, 3, 8, 8], seq(dropout(1)))',
  ),
  ...at(
    "layer 'drop' (dropout): its probability must be at least 0 and below 1, not -0.5",
    "model([1, 3, 8, 8], seq(dropout(-0.5, 'drop')))",
  ),
  ...at(
    "layer 'repeat' (repeat): its number of copies must be a whole number of at least 1, not 0",
    'model([1, 3, 8, 8], seq(repeat(0, relu())))',
  ),
  ...at(
    "layer 'residual' (residual): the body gives [1,4,9,9] but the shortcut gives [1,3,9,9]",
    "model([1, 3, 9, 9], residual(atInputSize(conv2d('c', 4, 3, { stride: 2 })), identity))",
  ),
  ...at(
    "layer 'values' (values): its arguments must be values: value(name, reads, ...layers)",
    'model([1, 8, 4, 4], values(relu()))',
  ),
  ...at(
    "layer 'a' (value): no later value reads it; leave it out, or read it",
    "model([1, 8, 4, 4], values(value('a', 'input', relu()), value('b', { added: ['input', 'input'] })))",
  ),
  ...at("layer 'values' (values): needs at least one value", 'model([1, 8, 4, 4], values())'),
  ...at(
    "layer 'b' (value): it reads 'c', but no earlier value has this name; 'input' is the input",
    "model([1, 8, 4, 4], values(value('a', 'input', relu()), value('b', 'c')))",
    "model([1, 8, 4, 4], values(value('a', 'input', relu()), value('b', { joined: ['a', 'c'] })))",
  ),
  ...at(
    "layer 's.a' (value): an earlier value has its name, or it is the input; give each value its own name",
    "model([1, 8, 4, 4], block('s', values(value('a', 'input', relu()), value('a', 'input'))))",
  ),
  ...at("layer 'a' (value): a value stands in the arguments of values(...)", "model([1, 8, 4, 4], value('a', 'input', relu()))"),
  ...at(
    "layer 'sum' (sum): a tensor of [1,8,2,2] cannot be added to one of [1,8,4,4]",
    "model([1, 8, 4, 4], values(value('a', 'input', maxPool(2)), value('b', { added: ['input', 'a'] })))",
  ),
  ...at(
    "layer 'concat' (concat): the first branch gives [1,8,4,4] but branch 3 gives [1,8,2,2]; only the channels may differ",
    "model([1, 8, 4, 4], values(value('a', 'input', maxPool(2)), value('b', { joined: ['input', 'input', 'a'] })))",
  ),
  ...at(
    "layer 'product' (product): a factor of [1,8,2,2] does not fit a tensor of [1,8,4,4]; allowed: that shape, or one value per channel or per pixel",
    "model([1, 8, 4, 4], values(value('a', 'input', maxPool(2)), value('b', { multiplied: ['input', 'a'] })))",
  ),
  ...at(
    "layer 'attention' (attention): [1,8,2,2] are not the keys and values of 2 heads for queries of [1,8,4,4]; allowed: the same batch and twice the channels, in whole heads",
    "model([1, 8, 4, 4], values(value('a', 'input', maxPool(2)), value('b', { attended: ['input', 'a'], heads: 2 })))",
  ),
  ...at(
    "layer 'contraction' (contraction): [1,8,2,2] and [1,8,4,4] are no matrices to contract over 'pixels' with 2 groups of channels; allowed: the same batch, whole groups and equal sizes of the summed axes",
    "model([1, 8, 4, 4], values(value('a', 'input', maxPool(2)), value('b', { contracted: ['a', 'input'], over: 'pixels', groups: 2 })))",
  ),
  ...at(
    "layer 'contraction' (contraction): its number of groups must be a whole number of at least 1, not 0",
    "model([1, 8, 4, 4], values(value('a', 'input', maxPool(2)), value('b', { contracted: ['a', 'input'], over: 'channels', groups: 0 })))",
  ),
  ...at(
    "layer 'attention' (attention): [1,16,2,2] are not the keys and values of 3 heads for queries of [1,8,4,4]; allowed: the same batch and twice the channels, in whole heads",
    "model([1, 8, 4, 4], values(value('a', 'input', conv2d('kv', 16, 2, { stride: 2 })), value('b', { attended: ['input', 'a'], heads: 3 })))",
  ),
  ...at(
    "layer 'attention' (attention): its number of heads must be a whole number of at least 1, not 0",
    "model([1, 8, 4, 4], values(value('a', 'input', conv2d('kv', 16, 2, { stride: 2 })), value('b', { attended: ['input', 'a'], heads: 0 })))",
  ),
  ...at(
    "layer 'attention' (attention): a head has 257 channels; allowed: 1 to 256",
    "model([1, 257, 4, 4], values(value('a', 'input', conv2d('kv', 514, 2, { stride: 2 })), value('b', { attended: ['input', 'a'], heads: 1 })))",
  ),
  ...at(
    "two values are named 'c'; give each layer its own name",
    "model([1, 8, 4, 4], values(value('a', 'input', conv2d('c', 8, 3)), value('b', 'a', conv2d('c', 8, 3))))",
  ),
  ...at(
    "layer 'c' (conv2d): a window of 9x9 does not fit its input [1,8,4,4]",
    "model([1, 8, 4, 4], values(value('a', 'input', conv2d('c', 8, 9, { pad: 0 }))))",
  ),
  ...at(
    "layer 'sliceChannels' (sliceChannels): its slice ends at channel 9, beyond its input of [1,8,4,4]",
    'model([1, 8, 4, 4], sliceChannels(5, 4))',
  ),
  ...at(
    "layer 's' (sliceChannels): its number of channels must be a whole number of at least 1, not 0",
    "model([1, 8, 4, 4], sliceChannels(5, 0, 's'))",
  ),
  ...at(
    "layer 'channelShuffle' (channelShuffle): 8 input channels do not divide into 3 groups",
    'model([1, 8, 4, 4], channelShuffle(3))',
  ),
  ...at(
    "layer 'a' (attention): 8 channels are not queries, keys and values of 2 heads; allowed: multiples of 3 times the heads",
    "model([1, 8, 4, 4], attention('a', 2))",
  ),
  ...at(
    "layer 'a' (attention): has distances of 2x3 pixels behind a class token, but windows of 2x4; allowed: one row of the token and all pixels, unshifted",
    "model([1, 12, 2, 4], attention('a', 2, { relative: { behindToken: [2, 3] } }))",
  ),
  ...at("layer 'a' (attention): a head has 257 channels; allowed: 1 to 256", "model([1, 771, 4, 4], attention('a', 1))"),
  ...at(
    "layer 'a' (attention): windows of 4x3 do not divide its input of [1,6,8,8]",
    "model([1, 6, 8, 8], attention('a', 2, { window: [4, 3] }))",
  ),
  ...at(
    "layer 'a' (attention): its shift of 4x4 is not less than its window of 4x4",
    "model([1, 6, 8, 8], attention('a', 2, { window: 4, shift: 4 }))",
  ),
  ...at(
    "layer 'a' (attention): a grid has no shift; leave out `shift` or `grid`",
    "model([1, 6, 8, 8], attention('a', 2, { window: 4, shift: 2, grid: true }))",
  ),
  ...at(
    "layer 'scaled' (scaled): its layers give [1,4,9,9] for an input of [1,3,9,9]; allowed: that shape, or one value per channel or per pixel",
    "model([1, 3, 9, 9], scaled(conv2d('c', 4, 3)))",
  ),
  ...at(
    "layer 'masked' (masked): its side of a block must be a whole number of at least 1, not 0",
    'model([1, 3, 8, 8], masked(0, relu()))',
  ),
  ...at(
    "layer 'b.p' (maxPool): a window of 9x9 does not fit its input [1,3,8,8]",
    "model([1, 3, 8, 8], block('b', atInputSize(maxPool('p', 9))))",
  ),
  ...at(
    "layer 'n' (batchNorm): needs more than one value per channel for a variance but gets [1,3,1,1]; allowed: two images or more, or frozen: true",
    "model([1, 3, 8, 8], seq(globalAvgPool(), batchNorm('n')))",
  ),
  ...at(
    "layer 'b.counted' (counted): its first number must be a whole number of at least 0, not -1",
    "model([1, 3, 8, 8], block('b', counted('m', -1, relu())))",
  ),
  ...at(
    "layer 'm2.p' (maxPool): a window of 9x9 does not fit its input [1,3,8,8]",
    "model([1, 3, 8, 8], counted('m', 1, relu(), maxPool('p', 9)))",
  ),
  ...at(
    "layer 'b.repeat' (repeat): its number of copies must be a whole number of at least 1, not 1.5",
    "model([1, 3, 8, 8], blocks('b', relu(), repeat(2, repeat(1.5, relu()))))",
  ),
]

const compositions: readonly Illegal[] = [
  ...at(
    "layer 'residual' (residual): the body gives [1,8,8,8] but the shortcut gives [1,3,8,8]",
    "model([1, 3, 8, 8], residual(conv2d('c', 8, 3), identity))",
  ),
  ...at(
    "layer 'layer1.1.residual' (residual): the body gives [1,8,4,4] but the shortcut gives [1,8,8,8]",
    "model([1, 8, 8, 8], blocks('layer1', relu(), residual(conv2d('c', 8, 3, { stride: 2 }), identity)))",
  ),
  ...at(
    "layer 'a.2.b.p' (maxPool): a window of 9x9 does not fit its input [1,3,8,8]",
    "model([1, 3, 8, 8], blocks('a', repeat(2, relu()), block('b', maxPool('p', 9))))",
  ),
  ...at(
    "layer 'concat' (concat): the first branch gives [1,8,8,8] but branch 3 gives [1,4,4,4]; only the channels may differ",
    "model([1, 3, 8, 8], concat(conv2d('a', 8, 3), conv2d('b', 2, 1), conv2d('c', 4, 3, { stride: 2 })))",
  ),
  ...at("layer 'stem.concat' (concat): needs at least one branch", "model([1, 3, 8, 8], block('stem', concat()))"),
  ...at(
    "two values are named 'c1'; give each layer its own name",
    "model([1, 3, 8, 8], seq(conv2d('c1', 8, 3), relu(), conv2d('c1', 8, 3)))",
  ),
  ...at(
    "two values are named 'b.0.c'; give each layer its own name",
    "model([1, 3, 8, 8], seq(blocks('b', conv2d('c', 8, 3)), block('b', conv2d('0.c', 8, 3))))",
  ),
  ...at(
    "two values are named 'c'; give each layer its own name",
    "model([1, 3, 8, 8], residual(conv2d('c', 3, 3), conv2d('c', 3, 1)))",
  ),
]

const FIRST = 'it reads the bytes of the input, so it must be the first layer of the model'
const bytes: readonly Illegal[] = [
  ...at(
    `layer 'fromBytes' (fromBytes): ${FIRST}`,
    "model([1, 3, 8, 8], seq(conv2d('c', 8, 3), fromBytes()))",
    "model([1, 3, 8, 8], seq(seq(fromBytes(), conv2d('c', 8, 3)), fromBytes({ mean: 0.5 })))",
    'model([1, 3, 8, 8], seq(residual(fromBytes(), relu())))',
    "model([1, 3, 8, 8], concat(fromBytes(), conv2d('c', 8, 3)))",
    'model([1, 3, 8, 8], seq(scaled(fromBytes(), globalAvgPool())))',
  ),
  ...at(`layer 'b.1.pixels' (fromBytes): ${FIRST}`, "model([1, 3, 8, 8], blocks('b', relu(), fromBytes({}, 'pixels')))"),
  ...at(
    `layer 'unit3.fromBytes' (fromBytes): ${FIRST}`,
    "model([1, 3, 8, 8], counted('unit', 1, repeat(2, relu()), fromBytes()))",
  ),
  ...at(`layer '1.fromBytes' (fromBytes): ${FIRST}`, 'model([1, 3, 8, 8], repeat(2, fromBytes()))'),
  ...at(
    "layer 'fromBytes' (fromBytes): its mean has 2 numbers for an input of [1,3,8,8]; allowed: one per channel, or one for all",
    'model([1, 3, 8, 8], seq(fromBytes({ mean: [0.5, 0.5] })))',
  ),
  ...at(
    "layer 'fromBytes' (fromBytes): its std has 1 numbers for an input of [1,3,8,8]; allowed: one per channel, or one for all",
    'model([1, 3, 8, 8], seq(fromBytes({ mean: [0.5, 0.5, 0.5], std: [0.25] })))',
  ),
  ...at(
    "layer 'fromBytes' (fromBytes): its std must be more than 0, not 0",
    'model([1, 3, 8, 8], fromBytes({ std: [0.5, 0, -1] }))',
  ),
  ...at("layer 'fromBytes' (fromBytes): its std must be more than 0, not -1", 'model([1, 3, 8, 8], fromBytes({ std: -1 }))'),
]

/** Errors that only the compiler can report. */
const whileTyping: readonly Illegal[] = [
  compiler('const n: number = 8\nmodel([1, 3, n, n], seq(relu()))', refused(`layer 'relu' (relu): ${LITERALS}`)),
  compiler(
    "const n: number = 8\nmodel([1, 3, 8, 8], seq(relu(), conv2d('c', n, 3)))",
    refused(`layer 'c' (conv2d): ${LITERALS}`),
  ),
  compiler(
    "const n: number = 3\nmodel([1, 3, 8, 8], block('b', maxPool('p', n)))",
    refused(`layer 'b.p' (maxPool): ${LITERALS}`),
  ),
  compiler(
    'const ls = [relu(), relu()]\nmodel([1, 3, 8, 8], seq(...ls))',
    refused(
      "layer 'seq' (seq): the list of its layers is unknown to the type checker; use repeat(n, layer) instead of a loop, or modelAt(input, net)",
    ),
  ),
  compiler('seq(relu(), 5)', "Argument of type 'number' is not assignable to parameter of type 'Net<string>'."),
  compiler("conv2d('c', '8', 3)", "Argument of type 'string' is not assignable to parameter of type 'number'."),
  compiler("conv2d('c', 8, 3, { pad: 'valid' })", "Type '\"valid\"' is not assignable to type 'Padding | undefined'."),
  compiler(
    "const net = model([1, 3, 8, 8], seq(conv2d('conv1', 8, 3), conv2d('conv2', 8, 3)))\nlayerOf(net, 'conv3')",
    'Argument of type \'"conv3"\' is not assignable to parameter of type \'"conv1" | "conv2"\'.',
  ),
  compiler("sgd({ lr: '0.1' })", "Type 'string' is not assignable to type 'number'."),
  compiler(
    "const net = model([1, 3, 8, 8], seq(conv2d('c', 8, 3)))\nconst out: [1, 8, 4, 4] = net.output",
    "Type '[1, 8, 8, 8]' is not assignable to type '[1, 8, 4, 4]'.\n  Type at position 2 in source is not compatible with type at position 2 in target.\n" +
      "    Type '8' is not assignable to type '4'.",
  ),
]

export const illegal: readonly Illegal[] = [
  ...shapes,
  ...transposed,
  ...windows,
  ...sizes,
  ...compositions,
  ...bytes,
  ...whileTyping,
]
export const refusal = refused
