// Options that there are not, names that are none, and networks whose types say how to mend them. In: nothing. Out: programs for
// plans.test.ts and for both compilers, each with its exact message; and programs of the same kinds that are right.
import type { Illegal } from './illegal'

/** The written and the intended ones of these options; null if nothing is near. */
type Written = readonly (readonly [wrong: string, meant: string | null])[]
const keysOf =
  (of: string, legal: string, program: (option: string) => string) =>
  (...written: Written): readonly Illegal[] =>
    written.map(([wrong, meant]) => {
      const cure =
        meant === null
          ? `allowed: ${legal
              .split(' ')
              .map((key) => `\`${key}\``)
              .join(', ')}`
          : `did you mean \`${meant}\`?`
      return { program: program(`${wrong}: 0`), says: `\`${wrong}\` is not an option of ${of}; ${cure}` }
    })

const sgd = keysOf('sgd', 'lr momentum weightDecay nesterov', (o) => `sgd({ lr: 0.1, ${o} })`)
const adam = keysOf('adam', 'lr beta1 beta2 eps weightDecay', (o) => `adam({ lr: 0.1, ${o} })`)
const adamw = keysOf('adamw', 'lr beta1 beta2 eps weightDecay', (o) => `adamw({ lr: 0.1, ${o} })`)
const rmsprop = keysOf('rmsprop', 'lr alpha eps weightDecay momentum centered', (o) => `rmsprop({ lr: 0.1, ${o} })`)
const huber = keysOf('huber', 'delta', (o) => `huber({ ${o} })`)
const crossEntropyWith = keysOf('crossEntropyWith', 'ignoreIndex weights labelSmoothing', (o) => `crossEntropyWith({ ${o} })`)
const upsample = keysOf('upsample', 'scale size mode alignCorners', (o) => `upsample({ scale: 2, ${o} })`)
const WEIGHTED = 'bias init param'
const CONV = `stride pad dilation groups standardize ${WEIGHTED}`
const conv2d = keysOf('conv2d', CONV, (o) => `conv2d('c', 8, 3, { ${o} })`)
const convTranspose2d = keysOf(
  'convTranspose2d',
  `stride pad outputPad dilation groups ${WEIGHTED}`,
  (o) => `convTranspose2d('c', 8, 3, { stride: 2, ${o} })`,
)
const fromBytes = keysOf('fromBytes', 'mean std', (o) => `fromBytes({ ${o} })`)
const batchNorm = keysOf('batchNorm', 'frozen eps', (o) => `batchNorm('n', { ${o} })`)
const groupNorm = keysOf('groupNorm', 'affine eps', (o) => `groupNorm('n', 2, { ${o} })`)
const instanceNorm = keysOf('instanceNorm', 'affine eps', (o) => `instanceNorm('n', { affine: true, ${o} })`)
const layerNorm = keysOf('layerNorm', 'eps bias', (o) => `layerNorm('n', { ${o} })`)
const rmsNorm = keysOf('rmsNorm', 'eps', (o) => `rmsNorm('n', { ${o} })`)
const layerScale = keysOf('layerScale', 'shape groups', (o) => `layerScale('n', 1, { ${o} })`)
const rotary = keysOf('rotary', 'skip columns step first base', (o) => `rotary(8, { ${o} })`)
const bias = keysOf('bias', 'shared without', (o) => `bias('n', { ${o} })`)
const prelu = keysOf('prelu', 'shared start', (o) => `prelu('p', { ${o} })`)
const linear = keysOf('linear', WEIGHTED, (o) => `linear('l', 2, { ${o} })`)
const pixelLinear = keysOf('pixelLinear', WEIGHTED, (o) => `pixelLinear('l', 2, { ${o} })`)
const lrn = keysOf('localResponseNorm', 'alpha beta k', (o) => `localResponseNorm(5, { ${o} })`)
const STAGE =
  'budget loss optimizer freeze groups clipValue clipNorm accumulate average layerDecay strategy effort machine tiles checkpoints spill hostMemory spillWritesPerStep algorithms measure precision ranks bands norms shard network allocator resumes mode as name'
const stage = keysOf('stage', STAGE, (o) => `stage(vgg, { ${o} })`)
const range = keysOf('a tile range', 'from to B H W', (o) => `stage(vgg, { tiles: [{ from: 'c1', to: 'c1', ${o} }] })`)
const group = keysOf(
  'a parameter group',
  'match lr weightDecay frozen',
  (o) => `stage(vgg, { groups: [{ match: 'c1.*', ${o} }] })`,
)

const keys: readonly Illegal[] = [
  ...group(['weigthDecay', 'weightDecay'], ['frozn', 'frozen'], ['momentum', null]),
  ...sgd(
    ['momentun', 'momentum'],
    ['weigthDecay', 'weightDecay'],
    ['nestrov', 'nesterov'],
    ['learningRate', null],
    ['Momentum', 'momentum'],
  ),
  ...adam(['beta', 'beta1'], ['betas', 'beta1'], ['epsilon', 'eps'], ['weightdecay', 'weightDecay'], ['decay', null]),
  ...adamw(['lrr', 'lr'], ['weight_decay', 'weightDecay'], ['amsgrad', null]),
  ...rmsprop(['alph', 'alpha'], ['centred', 'centered'], ['momentm', 'momentum']),
  ...huber(['detla', 'delta'], ['d', 'delta'], ['beta', null]),
  ...crossEntropyWith(
    ['ignoreindex', 'ignoreIndex'],
    ['ignore', 'ignoreIndex'],
    ['weight', 'weights'],
    ['labelSmooth', 'labelSmoothing'],
    ['reduction', null],
  ),
  ...upsample(['mod', 'mode'], ['sclae', 'scale'], ['align_corners', 'alignCorners'], ['factor', null]),
  ...stage(
    ['budgett', 'budget'],
    ['optimiser', 'optimizer'],
    ['startegy', 'strategy'],
    ['machin', 'machine'],
    ['checkpoint', 'checkpoints'],
    ['tile', 'tiles'],
    ['precison', 'precision'],
    ['algorithm', 'algorithms'],
    ['resume', 'resumes'],
    ['memory', null],
  ),
  ...prelu(['share', 'shared'], ['init', null]),
  ...conv2d(['strid', 'stride'], ['padding', 'pad'], ['dilaton', 'dilation'], ['group', 'groups'], ['use_bias', null]),
  ...convTranspose2d(['outputpad', 'outputPad'], ['strides', 'stride'], ['kernel', null]),
  ...fromBytes(['means', 'mean'], ['deviation', null]),
  ...batchNorm(['momentum', null], ['epsilon', 'eps'], ['frozn', 'frozen']),
  ...groupNorm(['groups', null], ['Affine', 'affine']),
  ...instanceNorm(['ep', 'eps'], ['track', null]),
  ...layerNorm(['epss', 'eps'], ['affine', null], ['biass', 'bias']),
  ...rmsNorm(['epss', 'eps'], ['bias', null]),
  ...layerScale(['shap', 'shape'], ['group', 'groups'], ['start', null]),
  ...rotary(['skips', 'skip'], ['steps', 'step'], ['width', null]),
  ...bias(['share', 'shared'], ['init', null]),
  ...linear(['bais', 'bias'], ['initial', 'init']),
  ...pixelLinear(['params', 'param'], ['stride', null]),
  ...lrn(['alpa', 'alpha'], ['size', null]),
  ...range(['h', 'H'], ['w', 'W'], ['height', 'H'], ['width', 'W'], ['form', 'from'], ['C', null], ['rows', null]),
]

const compiler = (program: string, ...messages: readonly string[]): Illegal => ({ program, compiler: messages })
const not = (given: string, legal: string, near?: string): string =>
  `Type '"${given}"' is not assignable to type '${legal}'.${near ? ` Did you mean '"${near}"'?` : ''}`

/** Options chosen by name. */
const names: readonly Illegal[] = [
  compiler("stage(vgg, { strategy: 'swap:gredy' })", not('swap:gredy', 'keyof Strategies | undefined', 'swap:greedy')),
  compiler(
    "stage(vgg, { strategy: 'checkpoint:sqr' })",
    not('checkpoint:sqr', 'keyof Strategies | undefined', 'checkpoint:sqrt'),
  ),
  compiler("stage(vgg, { machine: 'v100-pcie-16' })", not('v100-pcie-16', 'MachineName | undefined', 'v100-pcie-16g')),
  compiler("stage(vgg, { machine: 'gpu' })", not('gpu', 'MachineName | undefined')),
  compiler("stage(vgg, { allocator: 'best' })", not('best', 'AllocatorName | undefined')),
  compiler("stage(vgg, { algorithms: 'fix' })", not('fix', '"fixed" | "measured" | "fastest" | undefined')),
  compiler("stage(vgg, { precision: 'fp8' })", not('fp8', 'Precision | undefined')),
  compiler("stage(vgg, { measure: 'last' })", not('last', '"first" | "while" | undefined')),
]

const refused = (words: string, quote = '"'): string =>
  `Argument of type 'number[]' is not assignable to parameter of type '${quote}${words}${quote}'.`
const twice = (layer: string): string => refused(`two values are named '${layer}'; give each layer its own name`)
const wide = (layer: string): string =>
  refused(
    `two layers are named '${layer}' for the type checker: declare their name as <N extends string>(name: N), not (name: string)`,
    '`',
  )
const UNIT = `const unit = <N extends string>(n: N) => seq(conv2d(\`\${n}.conv\`, 8, 3), batchNorm(\`\${n}.bn\`), relu())\n`
const WIDE = `const one = (n: string) => conv2d(n, 8, 3)\nconst unit = (n: string) => seq(conv2d(\`\${n}.conv\`, 8, 3), relu())\n`
const TOO_MANY =
  'the type checker follows at most 900 layers or copies in a row; group them in smaller blocks, or use modelAt(input, net)'
const TOO_DEEP = 'the type checker follows at most 25 nested layers; put them in a row, or use modelAt(input, net)'
const nested = (n: number, open: string, close: string): string => `${open.repeat(n)}relu()${close.repeat(n)}`
const INPUT =
  "'input': its sizes are unknown to the type checker; write them in the call, model([1, 3, 224, 224], net), or add `as const` to the array"
const inputOf = (type: string): string => `Argument of type '${type}' is not assignable to parameter of type '"${INPUT}"'.`

const networks: readonly Illegal[] = [
  compiler(`${UNIT}model([1, 8, 8, 8], seq(unit('res'), unit('res')))`, twice('res.conv')),
  compiler(`${UNIT}model([1, 8, 8, 8], seq(unit('a'), block('b', unit('res'), unit('c'), unit('res'))))`, twice('b.res.conv')),
  compiler(`${UNIT}model([1, 8, 8, 8], residual(unit('res'), unit('res')))`, twice('res.conv')),
  compiler(`${UNIT}model([1, 8, 8, 8], seq(conv2d('res.bn', 8, 3), unit('res')))`, twice('res.bn')),
  compiler(
    "model([1, 8, 8, 8], residual(seq(linear('a', 8), linear('b', 8)), seq(linear('b', 8), linear('a', 8))))"
      .replaceAll('linear', 'batchNorm')
      .replaceAll(', 8)', ')'),
    twice('b'),
  ),
  compiler(`${UNIT}model([1, 8, 8, 8], seq(block('l', unit('0')), block('l', relu(), unit('0'))))`, twice('l.0.conv')),
  compiler(`${WIDE}model([1, 8, 8, 8], seq(one('a'), one('b')))`, wide(`\${string}`)),
  compiler(`${WIDE}model([1, 8, 8, 8], seq(unit('a'), unit('b')))`, wide(`\${string}.conv`)),
  compiler(`${WIDE}model([1, 8, 8, 8], block('b', one('a'), one('b')))`, wide(`b.\${string}`)),
  compiler(`const i = [1, 8, 16, 16]\nmodel(i, relu())`, inputOf('number[]')),
  compiler('model(relu(), [1, 8, 16, 16])', inputOf('Relu<"">')),
  compiler('model([1, 3, 8, 8], repeat(1200, relu()))', refused(`layer 'repeat' (repeat): ${TOO_MANY}`)),
  compiler("model([1, 3, 8, 8], blocks('b', relu(), repeat(901, relu())))", refused(`layer 'b.repeat' (repeat): ${TOO_MANY}`)),
  compiler(`model([1, 3, 8, 8], ${nested(60, 'residual(', ', identity)')})`, refused(`layer 'residual' (residual): ${TOO_DEEP}`)),
  compiler(
    `model([1, 3, 8, 8], ${nested(20, 'residual(seq(', '), identity)')})`,
    refused(`layer 'residual' (residual): ${TOO_DEEP}`),
  ),
  compiler(`model([1, 3, 8, 8], ${nested(500, 'seq(', ')')})`, refused(`layer 'seq' (seq): ${TOO_DEEP}`)),
  compiler(`model([1, 3, 8, 8], ${nested(13, "block('a', ", ')')})`, refused(`layer 'block' (block): ${TOO_DEEP}`)),
  compiler(
    `model([1, 3, 8, 8], concat(identity, ${nested(40, 'scaled(', ')')}))`,
    refused(`layer 'concat' (concat): ${TOO_DEEP}`),
  ),
  compiler(`model([1, 3, 8, 8], ${nested(13, "blocks('a', ", ')')})`, refused(`layer 'blocks' (blocks): ${TOO_DEEP}`)),
  compiler(`model([1, 3, 8, 8], seq(${Array(1000).fill('relu()').join()}))`, refused(`layer 'seq' (seq): ${TOO_MANY}`)),
]

const tensors = (type: string, words: string): string =>
  `Argument of type '${type}' is not assignable to parameter of type '${type} & "${words}"'.\n  Type '${type}' is not assignable to type '"${words}"'.`
const fedOf = (shape: string, name: string): string => `Fed<readonly [${shape}], "${name}">`
const target = (t: string, legal: string): string =>
  `a target of [${t}] cannot be compared with an output of [1,3,8,8]; allowed: [${legal}]`
const branch = (n: number, shape: string): string =>
  `the first branch gives [1,3,8,8] but branch ${n} gives [${shape}]; only the channels may differ`
const A = "const a = fed('a', [1, 3, 8, 8])\n"

const steps: readonly Illegal[] = [
  compiler(`${A}loss(mse, a, fed('b', [1, 3, 8, 9]))`, tensors(fedOf('1, 3, 8, 9', 'b'), target('1,3,8,9', '1,3,8,8'))),
  compiler(
    `${A}loss('cross-entropy', a, fed('b', [1, 3, 8, 8]))`,
    tensors(fedOf('1, 3, 8, 8', 'b'), target('1,3,8,8', '1,1,8,8')),
  ),
  compiler(`${A}loss(mse, a, fed('b', [1, 1, 8, 8]), 2)`, tensors(fedOf('1, 1, 8, 8', 'b'), target('1,1,8,8', '1,3,8,8'))),
  compiler(`${A}joined(a, fed('b', [1, 3, 8, 9]))`, tensors(fedOf('1, 3, 8, 9', 'b'), branch(2, '1,3,8,9'))),
  compiler(`${A}joined(a, a, fed('b', [2, 3, 8, 8]))`, tensors(fedOf('2, 3, 8, 8', 'b'), branch(3, '2,3,8,8'))),
  compiler(`${A}apply(relu(), joined(a, fed('b', [1, 4, 4, 8])))`, tensors(fedOf('1, 4, 4, 8', 'b'), branch(2, '1,4,4,8'))),
]

/** Nets that an objective trains and nothing applies. */
const unapplied = (program: string, objective: string, kind: string): Illegal => ({
  program: `${A}const g = conv2d('g', 3, 3)\nconst d = seq(conv2d('d', 1, 3), sigmoid())\nconst o = sgd({ lr: 0.1 })\n${program}`,
  says: `objective '${objective}': it trains a net of kind '${kind}' that no loss depends on; allowed: nets that the step applies`,
})
const nets: readonly Illegal[] = [
  unapplied("stage(step(minimize('m', { over: d, optimizer: o, losses: { x: loss(mse, apply(g, a), 0) } })), {})", 'm', 'seq'),
  unapplied(
    "stage(step(minimize('m', { over: [g, d], optimizer: o, losses: { x: loss(mse, apply(g, a), 0) } })), {})",
    'm',
    'seq',
  ),
  unapplied("stage(step(minimize('m', { over: g, optimizer: o, losses: {} })), {})", 'm', 'conv2d'),
  unapplied("stage(step(minimize('m', { over: g, optimizer: o, losses: { x: loss(mse, a, 0) } })), {})", 'm', 'conv2d'),
  unapplied(
    "stage(step(minimize('m', { over: g, optimizer: o, losses: { x: loss(mse, apply(g, a), 0) } }), minimize('n', { over: d, optimizer: o, losses: { y: loss(l1, a, 0) } })), {})",
    'n',
    'seq',
  ),
  unapplied(
    "const other = conv2d('g', 3, 5)\nstage(step(minimize('m', { over: other, optimizer: o, losses: { x: [loss(mse, apply(g, a), 0), loss(l1, detach(apply(g, a)), a)] } })), {})",
    'm',
    'conv2d',
  ),
]

export const illegalKeys: readonly Illegal[] = [...keys, ...names, ...networks, ...steps, ...nets]

export const legalKeys: readonly string[] = [
  'const o: StageOptions = { budget: gib(1) }\nstage(vgg, o)',
  "const o: StageOptions = { budget: gib(1), tiles: [{ from: 'c1', to: 'p1', H: 2 }] }\nstage(vgg, o)",
  "const o = { budget: gib(1), strategy: 'tiled' } as const\nstage(vgg, o)",
  "stage(vgg, 1 > 2 ? { budget: gib(1) } : { strategy: 'tiled' })",
  'export const f = (budget?: number) => stage(vgg, { budget })',
  'const o: { readonly lr: number; readonly momentum?: number } = { lr: 0.1 }\nsgd(o)',
  'export const f = (momentum?: number) => sgd({ lr: 0.1, momentum })',
  "export const f = <S extends 1 | 2>(stride?: S) => conv2d('c', 8, 3, { stride })",
  "export const f = (eps?: number, frozen?: boolean) => batchNorm('n', { eps, frozen })",
  'const a: 800 = 800\nexport const out: [1, 3, 8, 8] = model([1, 3, 8, 8], repeat(a, relu())).output',
  "const a = fed('a', [1, 3, 8, 8])\nloss('cross-entropy', a, fed('b', [1, 1, 8, 8]))\nloss(mse, a, 0)\nloss(mse, a, a, 3)",
  "export const shape: readonly [1, 4, 8, 8] = joined(fed('a', [1, 3, 8, 8]), fed('b', [1, 1, 8, 8])).shape",
  "export const f = <C extends number>(c: C) => model([1, 3, 16, 16], seq(conv2d('a', c, 3), relu()))\nexport const out: [1, 8, 16, 16] = f(8).output",
  `export const f = <N extends string, C extends number>(n: N, c: C) => model([1, 3, 16, 16], seq(conv2d(n, c, 3), batchNorm(\`\${n}.bn\`)))
export const out: 'a' | 'a.bn' = {} as LayerNames<ReturnType<typeof f<'a', 8>>>`,
  "export const f = <C extends number>(c: C) => model([2, 3, 16, 16], seq(repeat(3, relu()), globalAvgPool(), linear('fc', c)))\nexport const out: [2, 5, 1, 1] = f(5).output",
  "export const f = <H extends number>(h: H) => model([1, 3, h, 16], seq(conv2d('a', 8, 3)))\nexport const out: [1, 8, 12, 16] = f(12).output",
  "const a = fed('a', [1, 3, 8, 8])\nexport const f = <C extends number>(c: C) => apply(conv2d('c', c, 3), a)\nexport const shape: readonly [1, 4, 8, 8] = f(4).shape",
  "export const f = <C extends number>(c: C) => joined(fed('a', [1, c, 8, 8]), fed('b', [1, 1, 8, 8]))\nexport const shape: readonly [1, 5, 8, 8] = f(4).shape",
  "const [a, g] = [fed('a', [1, 3, 8, 8]), conv2d('g', 3, 3)]\nexport const f = <N extends Net>(net: N) => step(minimize('m', { over: net, optimizer: sgd({ lr: 0.1 }), losses: { x: loss(mse, apply(net, a), 0) } }))\nf(g)",
  "const [a, g, d] = [fed('a', [1, 3, 8, 8]), conv2d('g', 3, 3), conv2d('d', 1, 3)]\nconst [made, o] = [apply(g, a), sgd({ lr: 0.1 })]\nstep(minimize('g', { over: g, optimizer: o, losses: { x: loss(mse, apply(d, made), 1), y: loss(l1, made, a) } }), minimize('d', { over: d, optimizer: o, losses: { x: loss(mse, apply(d, detach(made)), 0) } }))",
  "const nets: readonly Net[] = [relu()]\nminimize('m', { over: nets, optimizer: sgd({ lr: 0.1 }), losses: {} })",
  "const o: Conv2dOptions = { pad: 0 }\nconv2d('c', 8, 3, o)",
  "const o = { stride: 2, bias: false } as const\nexport const out: [1, 8, 4, 4] = model([1, 3, 8, 8], conv2d('c', 8, 3, o)).output",
  "export const out: [1, 8, 4, 8] = model([1, 3, 8, 8], conv2d('c', 8, 3, 1 < 2 ? { stride: [2, 1] } : { stride: [2, 1], bias: false })).output",
  "model([1, 3, 8, 8], residual(seq(residual(seq(residual(seq(residual(seq(block('a', blocks('b', conv2d('c', 3, 3)))), identity)), identity)), identity)), identity))",
  "const names = ['a', 'b'] as const\nmodel([1, 8, 8, 8], seq(conv2d(names[0], 8, 3), conv2d(names[1], 8, 3)))",
]
