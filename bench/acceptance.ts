// The claims of the README and docs, most run through the command line as a user would. `npm run acceptance [-- SECTION …]`
// prints a line a claim and writes bench/results/acceptance-SECTION.json with the machine's description; exits 1 when one fails.
// Sections: identity and bits (same bits in-core, recomputed, swapped), memory (tiled out-of-core runs under budget + 300 MiB),
// budgets (the smallest works, a page less is refused), exact (tiled gradients against untiled at prime sizes), in simulation
// thirds, bounds, pages and times (of planning), predict (seconds of a step), install, prebuilt, cuda (the package), edges (faults).
import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { bytesOf, PAGE_BYTES, pagesFor, pagesIn } from '../staging/core/bytes'
import { orThrow } from '../src/errors/exceptions'
import { openTensors, readTensor } from '../src/files/safetensors'
import { bits } from './acceptance/bits'
import { bounds } from './acceptance/bounds'
import { claim, claims } from './acceptance/claims'
import { edges } from './acceptance/edges'
import { cuda, install, prebuilt } from './acceptance/install'
import { pages } from './acceptance/pages'
import { predictions } from './acceptance/predictions'
import { thirds } from './acceptance/thirds'
import { planningTimes } from './acceptance/times'
import { inFolder, record, ROOT } from './sides'

const MIB = 1024 ** 2

interface Answer {
  readonly code: number
  readonly json: Record<string, unknown>
}

const spillway = (...args: string[]): Promise<Answer> =>
  new Promise((resolve) => {
    execFile('node', [join(ROOT, 'scripts/spillway.js'), ...args, '--json'], { maxBuffer: 1 << 28 }, (error, stdout) => {
      const code = error ? Number((error as { code?: unknown }).code ?? 1) : 0
      resolve({ code, json: JSON.parse(stdout || '{}') as Record<string, unknown> })
    })
  })

const smallestOf = async (model: readonly string[], strategy: string): Promise<number> => {
  const budget = ['--strategy', strategy, '--budget', String(PAGE_BYTES)]
  const { json } = await spillway('plan', ...model, ...budget, '--algorithms', 'fixed')
  return (json.error as { smallestBytes: number }).smallestBytes
}

const pick = (o: Record<string, unknown>, ...names: string[]): Record<string, unknown> =>
  Object.fromEntries(names.map((n) => [n, o[n]]))

// ---------------------------------------------------------------- identity

const identity = async (): Promise<void> => {
  const models = [
    ['vgg16-features', '--image', '512'],
    ['darknet19-features', '--image', '512'],
    ['resnet18', '--batch', '16', '--image', '128'],
  ]
  for (const model of models) {
    const inCore = await smallestOf(model, 'in-core')
    let sha: unknown
    for (const strategy of ['in-core', 'checkpoint:sqrt', 'swap:greedy']) {
      const least = await smallestOf(model, strategy)
      const budget = strategy === 'in-core' ? inCore : bytesOf(pagesIn((least + inCore) / 2))
      const options = ['--strategy', strategy, '--budget', String(budget), '--algorithms', 'fixed', '--steps', '3', '--seed', '1']
      const { json } = await spillway('train', ...model, ...options)
      sha ??= json.weightsSha256
      const forced =
        strategy === 'in-core' || (strategy === 'swap:greedy' ? Number(json.bytesOut) > 0 : Number(json.recomputeSeconds) > 0)
      const holds =
        json.weightsSha256 === sha &&
        sha !== undefined &&
        forced &&
        json.arenaPeakBytes === json.peakBytes &&
        Number(json.arenaPeakBytes) <= budget
      claim('identity', `${model[0]} ${strategy}`, holds, {
        smallestMiB: least / MIB,
        inCoreMiB: inCore / MIB,
        budgetMiB: budget / MIB,
        ...pick(json, 'peakBytes', 'arenaPeakBytes', 'processPeakBytes', 'recomputeSeconds', 'bytesOut', 'secondsPerStep'),
        ...pick(json, 'predictedSecondsPerStep', 'weightsSha256'),
      })
    }
  }
}

// ---------------------------------------------------------------- memory

const memory = async (): Promise<void> => {
  for (const [model, image, disk] of [
    ['vgg16-features', '1536', false],
    ['darknet19-features', '2048', true],
  ] as const) {
    const inCore = await smallestOf([model, '--image', image], 'in-core')
    const budget = bytesOf(pagesIn(inCore / 6))
    const options = ['--strategy', 'tiled', '--budget', String(budget), '--steps', '2', '--seed', '1']
    const { json } = await inFolder('memory', (spill) => spillway('train', model, '--image', image, ...options, '--spill', spill))
    const holds =
      Number(json.processPeakBytes) <= budget + 300 * MIB &&
      json.arenaPeakBytes === json.peakBytes &&
      Number(json.arenaPeakBytes) <= budget &&
      (!disk || Number(json.diskBytes) > 0)
    claim('memory', `${model} at ${image} in a sixth of in-core`, holds, {
      inCoreMiB: inCore / MIB,
      budgetMiB: budget / MIB,
      processPeakMiB: Number(json.processPeakBytes) / MIB,
      ...pick(json, 'peakBytes', 'arenaPeakBytes', 'diskBytes', 'bytesOut', 'bytesIn', 'secondsPerStep', 'losses', 'error'),
    })
  }
}

// ---------------------------------------------------------------- budgets

const budgets = async (): Promise<void> => {
  for (const model of [
    ['vgg16-features', '--image', '256'],
    ['resnet18', '--batch', '4', '--image', '96'],
  ])
    for (const strategy of ['in-core', 'checkpoint:sqrt', 'swap:greedy', 'tiled', 'auto']) {
      const least = await smallestOf(model, strategy)
      const args = [...model, '--strategy', strategy, '--algorithms', 'fixed', '--steps', '1', '--seed', '1']
      const fits = await spillway('train', ...args, '--budget', String(least))
      const less = await spillway('train', ...args, '--budget', String(least - PAGE_BYTES))
      const refused = less.json.error as { tag?: string; smallestBytes?: number } | undefined
      const holds =
        fits.code === 0 &&
        fits.json.arenaPeakBytes === fits.json.peakBytes &&
        less.code === 3 &&
        refused?.tag === 'BudgetInfeasible' &&
        refused.smallestBytes === least
      claim('budgets', `${model[0]} ${strategy}`, holds, {
        smallestMiB: least / MIB,
        lessExits: less.code,
        ...pick(fits.json, 'arenaPeakBytes', 'peakBytes'),
      })
    }
}

// ---------------------------------------------------------------- exact

type Floats = Float64Array | Float32Array

/** First gradients: the momenta after one step, as the checkpoint has them. */
const gradients = (folder: string): ReadonlyMap<string, Floats> => {
  const file = readdirSync(folder).find((f) => f.endsWith('.safetensors'))
  const opened = orThrow(openTensors('checkpoint', join(folder, file ?? '')))
  const momenta = [...opened.tensors].filter(([name]) => name.endsWith('.momentum'))
  return new Map(
    momenta.map(([name, t]): [string, Floats] => {
      const { buffer } = orThrow(readTensor(opened, t)).slice()
      return [name, t.type === 'F64' ? new Float64Array(buffer) : new Float32Array(buffer)]
    }),
  )
}

const distance = (a: Floats, b: (i: number) => number): number => {
  let sum = 0
  for (let i = 0; i < a.length; i++) sum += (a[i]! - b(i)) ** 2
  return Math.sqrt(sum)
}
const norm = (a: Floats): number => distance(a, () => 0)

const exact = async (): Promise<void> => {
  for (const [device, tolerance] of [
    ['cpu', 1e-4],
    ['ref', 1e-9],
  ] as const)
    for (const model of ['vgg16-features', 'darknet19-features']) {
      const own = ['--image', '509x389', '--device', device, '--machine', device]
      const args = [model, ...own, '--algorithms', 'fixed', '--steps', '1', '--seed', '1']
      const run = (strategy: string, ...more: string[]) =>
        inFolder('exact', async (folder) => {
          const { json } = await spillway('train', ...args, '--strategy', strategy, ...more, '--checkpoint-dir', folder)
          if (json.error) throw new Error(JSON.stringify(json.error))
          return { json, of: gradients(folder) }
        })
      const least = await smallestOf([model, '--image', '509x389', '--machine', device], 'tiled')
      const whole = await run('in-core')
      const tiled = await run('tiled', '--budget', String(bytesOf(pagesFor(least * 1.1))))
      const most = Math.max(...[...whole.of.values()].map(norm))
      let worst = 0
      for (const [name, a] of whole.of) {
        const b = tiled.of.get(name)!
        worst = Math.max(worst, distance(a, (i) => b[i]!) / Math.max(norm(a), 1e-3 * most))
      }
      claim('exact', `${model} at 509x389 on ${device}`, worst <= tolerance, {
        worstRelative: worst,
        tolerance,
        tensors: whole.of.size,
        losses: [whole.json.losses, tiled.json.losses],
      })
    }
}

// ----------------------------------------------------------------

const sections: Readonly<Record<string, () => Promise<void>>> = {
  identity,
  bits: () => bits(claim),
  memory,
  budgets,
  exact,
  // Planned and simulated in this process: the figures of thousands of plans, which the command line would print one at a time.
  thirds: async () => thirds(claim),
  bounds: async () => bounds(claim),
  pages: async () => pages(claim),
  times: async () => planningTimes(claim),
  predict: () => predictions(claim),
  install: async () => install(claim),
  prebuilt: async () => prebuilt(claim),
  cuda: async () => cuda(claim),
  edges: async () => edges(claim),
}

const main = async (): Promise<void> => {
  const wanted = process.argv.slice(2)
  const unknown = wanted.find((w) => !sections[w])
  if (unknown) throw new Error(`there is no section '${unknown}'; allowed: ${Object.keys(sections).join(', ')}`)
  for (const [section, run] of Object.entries(sections)) {
    if (wanted.length && !wanted.includes(section)) continue
    await run()
    record(`acceptance-${section}`, { claims: claims.filter((c) => c.section === section) })
  }
  process.exitCode = claims.every((c) => c.holds) ? 0 : 1
}

void main()
