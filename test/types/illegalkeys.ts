// Options that there are not, names that are none, and networks whose types say how to mend them. In: nothing. Out: programs for
// plans.test.ts and for both compilers, each with its exact message; and programs of the same kinds that are right.
import type { Illegal } from './illegal'

/** Of these options, what was written and what was meant; null where nothing is near. */
type Written = readonly (readonly [wrong: string, meant: string | null])[]
const keysOf =
  (of: string, legal: string, program: (option: string) => string) =>
  (...written: Written): readonly Illegal[] =>
    written.map(([wrong, meant]) => {
      const cure =
        meant === null
          ? `legal are ${legal
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
const crossEntropyWith = keysOf('crossEntropyWith', 'ignoreIndex', (o) => `crossEntropyWith({ ignoreIndex: 255, ${o} })`)
const upsample = keysOf('upsample', 'scale size mode alignCorners', (o) => `upsample({ scale: 2, ${o} })`)
const STAGE =
  'budget loss optimizer freeze groups strategy machine tiles checkpoints spill algorithms measure precision allocator resumes mode as name'
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
  ...crossEntropyWith(['ignoreindex', 'ignoreIndex'], ['ignore', 'ignoreIndex'], ['weight', null]),
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
  ...range(['h', 'H'], ['w', 'W'], ['height', 'H'], ['width', 'W'], ['form', 'from'], ['C', null], ['rows', null]),
]

const compiler = (program: string, ...messages: readonly string[]): Illegal => ({ program, compiler: messages })
const not = (given: string, legal: string, near?: string): string =>
  `Type '"${given}"' is not assignable to type '${legal}'.${near ? ` Did you mean '"${near}"'?` : ''}`

/** What is chosen by name. */
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
  compiler("stage(vgg, { precision: 'fp16' })", not('fp16', 'Precision | undefined')),
  compiler("stage(vgg, { measure: 'last' })", not('last', 'Measuring | undefined')),
]

const refused = (words: string, quote = '"'): string =>
  `Argument of type 'number[]' is not assignable to parameter of type '${quote}${words}${quote}'.`
const twice = (layer: string): string =>
  refused(`there are two values named '${layer}'; legal is any name that no other layer has`)
const wide = (layer: string): string =>
  refused(
    `there are two layers named '${layer}' as far as types know: write <N extends string>(name: N) where their names come from, not (name: string)`,
    '`',
  )
const UNIT = `const unit = <N extends string>(n: N) => seq(conv2d(\`\${n}.conv\`, 8, 3), batchNorm(\`\${n}.bn\`), relu())\n`
const WIDE = `const one = (n: string) => conv2d(n, 8, 3)\nconst unit = (n: string) => seq(conv2d(\`\${n}.conv\`, 8, 3), relu())\n`
const TOO_MANY =
  'more than 900 layers or copies in a row are more than the type checker follows; put them into blocks of fewer, or use modelAt(input, net)'
const INPUT =
  "'input': its sizes are not known while typing; write them in the call, model([1, 3, 224, 224], net), or `as const` behind the array"
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
  compiler(`model([1, 3, 8, 8], seq(${Array(1000).fill('relu()').join()}))`, refused(`layer 'seq' (seq): ${TOO_MANY}`)),
]

const tensors = (type: string, words: string): string =>
  `Argument of type '${type}' is not assignable to parameter of type '${type} & "${words}"'.\n  Type '${type}' is not assignable to type '"${words}"'.`
const fedOf = (shape: string, name: string): string => `Fed<readonly [${shape}], "${name}">`
const target = (t: string, legal: string): string =>
  `a target of [${t}] cannot be compared with an output of [1,3,8,8]; legal is [${legal}]`
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

export const illegalKeys: readonly Illegal[] = [...keys, ...names, ...networks, ...steps]

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
  "const names = ['a', 'b'] as const\nmodel([1, 8, 8, 8], seq(conv2d(names[0], 8, 3), conv2d(names[1], 8, 3)))",
]
