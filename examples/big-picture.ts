// The demonstration of `npm start`: a U-Net learns to find cells in a picture whose training needs several times the memory budget.
// In: nothing; the pictures are drawn. Out: runs/start/index.html with picture, target, prediction and memory; weights and PNG files.
// Run with: npm start, or npx ts-node examples/big-picture.ts [--budget 160MiB] [--steps 40]
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { adamw, batchNorm, conv2d, convTranspose2d, cosine, crossEntropyWith, fit, maxPool, model, type Net } from 'spillway'
import { PAGE_BYTES, parseBytes, predict, relu, reportHtml, seq, showBytes, skip, source, stage } from 'spillway'
import { maskMiniature, miniature, overview } from './overview'
import { CLASSES, type Picture, tissue } from './tissue'

const OUT = join(__dirname, '..', 'runs', 'start')

const unit = <N extends string, C extends number>(name: N, channels: C) =>
  seq(conv2d(`${name}.conv`, channels, 3, { bias: false }), batchNorm(`${name}.bn`), relu())

/** Halves the picture, applies `inner`, doubles it again and joins it with its input. */
const level = <N extends string, C extends number, D extends number, Inner extends Net>(
  name: N,
  channels: C,
  below: D,
  inner: Inner,
) =>
  seq(
    skip(maxPool(2), unit(`${name}.down`, below), inner, convTranspose2d(`${name}.up`, channels, 2, { stride: 2 })),
    unit(`${name}.join`, channels),
  )

const body = seq(
  unit('stem', 16),
  level('half', 16, 32, level('quarter', 32, 48, level('eighth', 48, 64, seq()))),
  conv2d('classes', CLASSES.length, 1),
)

const pictures = (...list: readonly Picture[]) =>
  source({ length: list.length, read: (i) => ({ input: list[i]!.pixels, target: list[i]!.mask }) })

/** Intersection over union of each class. */
const overlapOf = (target: ArrayLike<number>, predicted: ArrayLike<number>): readonly number[] =>
  CLASSES.map((_, c) => {
    let [both, either] = [0, 0]
    for (let i = 0; i < target.length; i++) {
      const [t, p] = [target[i] === c, predicted[i] === c]
      if (t && p) both++
      if (t || p) either++
    }
    return either === 0 ? 1 : both / either
  })

const optionsOf = (args: readonly string[]) => {
  const text = { type: 'string' } as const
  const { values } = parseArgs({ args: [...args], options: { budget: text, steps: text, picture: text } })
  const budget = parseBytes(values.budget ?? '160MiB')
  const steps = Number(values.steps ?? 40)
  if (budget._tag === 'Left') throw new Error(`--budget: ${budget.left}`)
  if (!Number.isInteger(steps) || steps < 1) throw new Error(`--steps '${values.steps}': a whole number from 1 is allowed`)
  return { steps, budget: budget.right, picture: values.picture }
}

const SIDE = 1024
const net = model([1, 3, SIDE, SIDE], body)
export default net

const main = async (args: readonly string[]): Promise<void> => {
  const { steps, budget, picture } = optionsOf(args)
  mkdirSync(OUT, { recursive: true })
  const [seen, unseen] = [tissue(SIDE, 1), tissue(SIDE, 2)]

  // The plan is made before the first step: it fits the budget, or staging ends with the smallest budget that would do.
  const loss = crossEntropyWith({ weights: [1, 4, 3] })
  const plan = stage(net, { loss, optimizer: adamw({ lr: 6e-3 }), budget, name: 'cells in tissue' })
  const inCore = plan.staging.inCore.peakBytes
  console.log(`picture   ${SIDE} x ${SIDE} pixels, drawn; a training step needs ${showBytes(inCore)} of device memory`)
  console.log(`budget    ${showBytes(budget)} of device memory, ${(inCore / budget).toFixed(1)} times less`)
  console.log(
    `plan      holds ${showBytes(plan.plan.peakPages * PAGE_BYTES)}; the whole process about ${showBytes(plan.staging.process!.peakBytes)}\n`,
  )

  const weights = join(OUT, 'weights.safetensors')
  const run = fit(net, plan, { data: pictures(seen), steps, schedule: cosine(), save: weights, report: join(OUT, 'run.html') })
  for await (const event of run) {
    if (event.kind === 'step' && (event.step % 10 === 0 || event.step === 1))
      console.log(`step ${String(event.step).padStart(3)} of ${steps}   loss ${event.loss.toFixed(3)}`)
    if (event.kind === 'end') console.log(`memory    ${showBytes(event.result.arenaPeakBytes)} held at most, measured`)
  }

  // Prediction of a picture that training has not seen, in the same budget.
  const looking = stage(net, { mode: 'predict', as: 'classes', budget })
  const { outputs } = await predict(net, looking, { weights, data: pictures(unseen) })
  const answer = outputs[0]!.values
  const overlap = overlapOf(unseen.mask, answer)
  CLASSES.forEach((name, c) =>
    console.log(`${name.padEnd(10)} ${(100 * overlap[c]!).toFixed(0)} % overlap with the target (intersection over union)`),
  )

  const thumbs = await Promise.all([
    miniature(unseen, 400),
    maskMiniature(unseen.mask, SIDE, 400),
    maskMiniature(answer, SIDE, 400),
  ])
  const titles = ['picture, not seen in training', 'target', 'prediction']
  const drawing = overview(
    titles.map((title, n) => [title, thumbs[n]!] as const),
    plan,
  )
  if (picture !== undefined) writeFileSync(picture, drawing)
  const page = join(OUT, 'index.html')
  writeFileSync(page, reportHtml(plan.plan, plan.timeline, plan.staging, `<section>${drawing}</section>`))
  console.log(`\npage      ${page}`)
}

if (require.main === module)
  main(process.argv.slice(2)).catch((error: Error) => {
    console.error(error.message)
    process.exitCode = 2
  })
