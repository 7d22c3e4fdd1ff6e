// `node -r ./scripts/testing/typescript.js scripts/state-costs.ts [--measure]`: writes src/machine/statedtimes.ts. In: this machine's profile;
// --measure adds missing calls of the zoo's networks, whole and in tiles, some of each kind and way. Out: for each kind and way three costs, those
// with the least sum of squared relative errors. Invariant: no cost is negative.
import { writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { isLeft } from 'fp-ts/Either'
import { loadNative } from '../src/device/native'
import { nativeCall } from '../src/machine/operands'
import { cpuBuild, openProfile } from '../src/machine/profile'
import type { StatedTimes } from '../src/machine/statedtimes'
import { callBytes, CPU_SAMPLES, sampleOf, takenOver, timeKey, wayText } from '../src/machine/timing'
import { CASES } from '../bench/cpu/cases'
import { type StagingOptions, stageNamed } from '../src/cli/stage'
import { lossNames } from '../staging/ops/losses'
import type { AnyAttrs, CallShapes } from '../staging/ops/op'
import { optimizerNames } from '../staging/ops/optimizer'
import { findOp, opDef } from '../staging/ops/registry'
import { callShapes } from '../staging/plan/callcosts'

const THREADS = 2
/** Calls of each kind and way. */
const MOST_CALLS = 20
const QUIET_TRIES = 2

/** Networks that have every common operator between them, and one of each loss and optimizer. */
const STEPS: readonly (readonly [string, StagingOptions])[] = [
  ...CASES.map(({ model, batch, image }) => [model, { batch, image: [image, image], strategy: 'in-core' }] as const),
  ...(['resnet18', 'vgg16-features', 'unet', 'darknet19-features', 'alexnet'] as const).map((name) => [name, {}] as const),
  ...(['convnext-tiny', 'efficientnet-b0', 'mobilenetv2', 'pix2pixhd', 'vgg11-bn', 'inception3', 'resnet20-cifar'] as const).map(
    (name) => [name, { strategy: 'in-core' }] as const,
  ),
  ...(['resnet18', 'unet', 'densenet121', 'vgg11-bn'] as const).map(
    (name) => [name, { strategy: 'in-core', precision: 'bf16', batch: 2, image: [224, 224] }] as const,
  ),
  ...(['vgg16-features', 'darknet19-features', 'unet'] as const).map(
    (name) => [name, { image: [512, 512], strategy: 'tiled', budget: 2 ** 28 }] as const,
  ),
  ...lossNames.filter((n) => n !== 'cross-entropy').map((loss) => ['darknet19-features', { strategy: 'in-core', loss }] as const),
  ...optimizerNames.map((optimizer) => ['resnet20-cifar', { strategy: 'in-core', optimizer }] as const),
] as never

const native = loadNative()
const profile = openProfile(cpuBuild(native.deviceInfo()), THREADS)

interface Call {
  readonly kind: string
  readonly attrs: AnyAttrs
  readonly s: CallShapes
  readonly way: number
}

const callsOf = (name: string, o: StagingOptions): readonly Call[] => {
  const staged = stageNamed(name, { algorithms: 'fixed', threads: THREADS, ...o })
  if (isLeft(staged)) {
    console.error(`${name}: ${JSON.stringify(staged.left)}`)
    return []
  }
  const { graph, calls } = staged.right.staged.plan
  return calls.flatMap(({ kind, attrs: whole, ins, outs }) => {
    const { attrs, s } = sampleOf(kind, whole, callShapes(graph, ins, outs), 'f32')
    if (callBytes(kind, s, 'f32') > 4 * CPU_SAMPLES.bytes) return []
    const ways = loadNative().ways({ device: 'cpu', ...nativeCall(kind, attrs, s, 'f32'), threads: THREADS })
    return ways.map(({ way }) => ({ kind, attrs, s, way }))
  })
}

const keyOf = ({ kind, attrs, s, way }: Call): string => timeKey(kind, attrs, s) + wayText(way, s)

/** Evenly over their sizes. */
const some = (calls: readonly Call[]): readonly Call[] => {
  const sorted = [...calls].sort((a, b) => callBytes(a.kind, a.s, 'f32') - callBytes(b.kind, b.s, 'f32'))
  const step = Math.max(1, sorted.length / MOST_CALLS)
  return sorted.filter((_, i) => Math.floor(i / step) !== Math.floor((i - 1) / step))
}

const measure = (c: Call): void => {
  const call = { device: 'cpu', ...nativeCall(c.kind, c.attrs, c.s, 'f32'), way: c.way, threads: THREADS } as const
  for (let i = 0; i < QUIET_TRIES && !profile.measurements.has(keyOf(c)); i++) {
    const { seconds, quiet } = native.measure({ ...call, inPlace: takenOver(c.kind, c.s) })
    if (quiet) profile.measurements.set(keyOf(c), seconds)
  }
}

const measureZoo = (): void => {
  const groups = new Map<string, Map<string, Call>>()
  for (const [name, o] of STEPS)
    for (const c of callsOf(name, o)) {
      const of = c.kind + wayText(c.way, c.s)
      groups.set(of, (groups.get(of) ?? new Map<string, Call>()).set(keyOf(c), c))
    }
  for (const [of, calls] of groups) {
    console.log(`${of}: ${calls.size} calls`)
    some([...calls.values()]).forEach(measure)
    profile.save()
  }
}

// ---------------------------------------------------------------- the three costs

/** The `timeKey` of a call: its kind and way, and the shapes of its operands. */
const KEY = /^(\w+)\(.*?\)([\dx,]*)>([\dx,]*)((?: way \d+)?(?: bf16)?)$/
const shapesIn = (text: string): readonly (readonly number[])[] =>
  text === '' ? [] : text.split(',').map((shape) => shape.split('x').map(Number))

interface Row {
  readonly of: string
  readonly relative: StatedTimes
}
/** A call's work in thousands of bytes and millions of operations, over its time: the products with the costs should add up to 1. */
const rowOf = ([key, seconds]: readonly [string, number]): readonly Row[] => {
  const [, kind = '', ins = '', outs = '', suffix = ''] = KEY.exec(key) ?? []
  if (!findOp(kind)) return []
  const s = { ins: shapesIn(ins), outs: shapesIn(outs), ...(suffix.includes('bf16') ? { half: 'bf16' as const } : {}) }
  const { dense, flops } = opDef(kind)
  const work = [1e3, callBytes(kind, s, 'f32') / 1e3, dense ? flops({}, s) / 1e6 : 0]
  return [{ of: kind + suffix, relative: work.map((x) => x / (seconds * 1e9)) as never }]
}

/** Least squares of sum(costs * row) - 1 over costs of at least 0, by cyclic descent. */
const ROUNDS = 20_000
const fitted = (rows: readonly StatedTimes[]): StatedTimes => {
  const dot = (i: number, j: number): number => rows.reduce((n, r) => n + r[i]! * r[j]!, 0)
  const ones = [0, 1, 2].map((i) => rows.reduce((n, r) => n + r[i]!, 0))
  const products = [0, 1, 2].map((i) => [0, 1, 2].map((j) => dot(i, j)))
  const costs = [0, 0, 0]
  for (let round = 0; round < ROUNDS; round++)
    for (const i of [0, 1, 2]) {
      if (products[i]![i]! === 0) continue
      const others = [0, 1, 2].reduce((n, j) => (j === i ? n : n + products[i]![j]! * costs[j]!), 0)
      costs[i] = Math.max(0, (ones[i]! - others) / products[i]![i]!)
    }
  return costs.map((c) => Number(c.toPrecision(3))) as never
}

const WORTHLESS = 0.7
const errorOf = (costs: StatedTimes, r: StatedTimes): number => Math.abs(Math.log(costs.reduce((n, c, i) => n + c * r[i]!, 0)))

const FEWEST = 4
const main = (): void => {
  if (process.argv.includes('--measure')) measureZoo()
  const groups = new Map<string, StatedTimes[]>()
  for (const { of, relative } of [...profile.measurements].flatMap(rowOf)) groups.set(of, [...(groups.get(of) ?? []), relative])
  const table = [...groups]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([of, rows]) => {
      const costs = fitted(rows)
      const errors = rows.map((r) => errorOf(costs, r)).sort((a, b) => a - b)
      const off = Math.expm1(errors[errors.length >> 1]!)
      console.log(
        `${of.padEnd(34)} ${String(rows.length).padStart(4)} calls, half of them within ${(100 * off).toFixed(0)} %: ${costs.join(', ')}`,
      )
      // Times that do not follow from bytes and arithmetic are not stated.
      return off > WORTHLESS || rows.length < FEWEST ? [] : [`  ${/^\w+$/.test(of) ? of : `'${of}'`}: [${costs.join(', ')}],`]
    })
  writeFileSync(
    join(__dirname, '..', 'src/machine/statedtimes.ts'),
    [
      `// Generated by scripts/state-costs.ts, not written by hand: the times of calls on ${cpus()[0]?.model ?? 'an unknown processor'} with ${THREADS} threads.`,
      '',
      '/** Microseconds of a call, nanoseconds of a thousand of its bytes, and of a million of its floating-point operations. */',
      'export type StatedTimes = readonly [call: number, kilobyte: number, megaflop: number]',
      `export const STATED_THREADS = ${THREADS}`,
      'export const STATED: Readonly<Record<string, StatedTimes>> = {',
      ...table,
      '}',
      '',
    ].join('\n'),
  )
}

main()
