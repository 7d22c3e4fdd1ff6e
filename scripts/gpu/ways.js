// `node scripts/gpu/ways.js STEPS MODEL [OPTION VALUE …]`: one training for each way that products have on the GPU (library engines by rank,
// fused graphs, those that need not repeat) and each strategy; every product takes that way, or its last where it has fewer.
// In: a model and its sizes, `--ways 0,16` for some. Out: a line of JSON for each run, {way, strategy, repeats, losses, weightsSha256, …}, as soon as it is over, so
// that a run that is cut short still tells; errors are lines, too. Invariant: nothing is judged here (check.js does).
'use strict'
const { isLeft } = require('fp-ts/Either')
const { prepareNamed } = require('../../dist/src/cli/stage')
const { errorText } = require('../../dist/src/errors/errors')
const { stagePrepared } = require('../../dist/src/stage/stage')
const { trainTask } = require('../../dist/src/train/trainer')
const { PAGE_BYTES, bytesOf, pagesIn } = require('../../dist/staging/core/bytes')

/** As native/cuda/rank.hpp numbers them. */
const [FIRST_LOOSE, REPEATING, LOOSE] = [16, 4, 3]
const WAYS = [...Array(REPEATING).keys(), ...Array.from({ length: LOOSE }, (_, i) => FIRST_LOOSE + i)]
const STRATEGIES = ['in-core', 'checkpoint:sqrt', 'swap:greedy']

const right = (answer) => {
  if (isLeft(answer)) throw new Error(errorText(answer.left))
  return answer.right
}

/** Ways of a kind are numbered without a gap: the one asked for, the last before it, or the first of all. */
const nearest = (choices, way) => {
  const kind = choices.filter((c) => c.way <= way && c.way >= FIRST_LOOSE === way >= FIRST_LOOSE)
  return kind.length > 0 ? kind.reduce((a, b) => (b.way > a.way ? b : a)) : choices.find((c) => c.way === 0)
}

const inWay = (machine, way) => ({
  ...machine,
  choices: (kind, attrs, shapes) => [nearest(machine.choices(kind, attrs, shapes), way)],
})

/** Halfway between the strategy's least and in-core; undefined for in-core. */
const budgetFor = (prepared, strategy, inCore) => {
  if (strategy === 'in-core') return undefined
  const least = stagePrepared(prepared, { strategy, budget: PAGE_BYTES, algorithms: 'fastest' })
  return isLeft(least) ? bytesOf(pagesIn((least.left.smallestBytes + inCore) / 2)) : PAGE_BYTES
}

const tell = (line) => console.log(JSON.stringify(line))

const main = async ([steps, model, ...words]) => {
  const named = Object.fromEntries(words.flatMap((w, i) => (i % 2 === 0 ? [[w.replace(/^--/, ''), words[i + 1]]] : [])))
  const { image, batch, precision, ways: asked } = named
  const wanted = asked === undefined ? WAYS : asked.split(',').map(Number)
  const sizes = {
    ...(image === undefined ? {} : { image: [Number(image), Number(image)] }),
    ...(batch === undefined ? {} : { batch: Number(batch) }),
    ...(precision === undefined ? {} : { precision }),
  }
  const { prepared } = right(prepareNamed(model, { ...sizes, machine: 'cuda', algorithms: 'fastest' }))
  for (const way of wanted) {
    const here = { ...prepared, machine: inWay(prepared.machine, way) }
    let inCore
    for (const strategy of STRATEGIES) {
      const about = { way, strategy, repeats: way < FIRST_LOOSE }
      try {
        const staged = right(stagePrepared(here, { strategy, budget: budgetFor(here, strategy, inCore), algorithms: 'fastest' }))
        const ways = staged.plan.calls.filter((c) => c.way === way && way > 0).length
        if (way > 0 && ways === 0) break
        const r = right(await trainTask(undefined, staged, { steps: Number(steps), seed: 1 })())
        inCore ??= r.peakBytes
        const { losses, weightsSha256, peakBytes, arenaPeakBytes, ownKernels, withoutGraphs } = r
        tell({ ...about, calls: ways, losses, weightsSha256, peakBytes, arenaPeakBytes, ownKernels, withoutGraphs })
      } catch (e) {
        tell({ ...about, error: String(e?.message ?? e) })
        if (inCore === undefined) break
      }
    }
  }
}

main(process.argv.slice(2)).catch((e) => {
  tell({ error: String(e?.message ?? e) })
  process.exitCode = 1
})
