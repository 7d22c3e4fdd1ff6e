// The sections of `gpu-check.sh BUNDLE FOLDER proof`: training beyond memory on one GPU, in minutes. In: check.js's tools. Out: sections by name,
// with their seconds. Invariant: each run has a limit, its figures are written when it ends, and the pass rules below judge them; in a rehearsal,
// rules about time are evaluated and recorded, but cannot fail.
'use strict'
const path = require('node:path')

const MIB = 2 ** 20

/** Pass rules. Times are ratios to our step in-core, or of the prediction to the measured step. */
const RULES = {
  slower: { 4: 1.25, 8: 1.5 },
  predictedWithin: { untaught: 0.25, taught: 0.1 },
  beyondShare: 0.8,
  grownBytes: 64 * MIB,
}

/** A point is a model, its sizes and precision, and shares of its in-core peak: 8 means an eighth. */
const POINTS = (small) => ({
  main: { model: ['resnet50', '--batch', '128', '--image', '224'], precision: 'bf16', shares: [4, 8, 16] },
  more: [
    { model: ['vgg16-features', '--batch', '16', '--image', '512'], precision: 'bf16', shares: [4, 8] },
    { model: ['deeplabv3plus-resnet50', '--batch', '8', '--image', '512'], precision: 'bf16', shares: [4, 8] },
  ],
  beyond: {
    model: ['resnet50', '--batch', '201', '--image', '224'],
    precision: 'fp32',
    bytes: 1076 * 2 * MIB,
    hostBytes: 2 ** 30,
  },
  bits: { model: ['resnet50', '--batch', '32', '--image', '224'], precision: 'bf16', steps: 20, share: 8 },
  memcheck: { model: ['resnet18', '--batch', '8', '--image', '64'], precision: 'bf16' },
  segments: [2, 4, 8, 16],
  memoryBudgets: [0.5, 0.25, 0.12],
  ...small,
})

/** A rehearsal's host computes on one thread. */
const REHEARSED = (model) => ({
  main: { model: [model, '--batch', '2', '--image', '48'], precision: 'bf16', shares: [1.6] },
  more: [{ model: [model, '--batch', '2', '--image', '32'], precision: 'bf16', shares: [1.3] }],
  beyond: { model: [model, '--batch', '2', '--image', '48'], precision: 'fp32', bytes: 10 * MIB, hostBytes: 2 * MIB },
  bits: { model: [model, '--batch', '2', '--image', '32'], precision: 'bf16', steps: 6, share: 1.3 },
  memcheck: { model: [model, '--batch', '2', '--image', '32'], precision: 'bf16' },
  segments: [2, 4],
  memoryBudgets: [0.5],
})

/** Seconds of each section; `proof1` and `proof2` fit a call of ten minutes each, with the start of the machine. */
const SECONDS = { smoke: 60, plans: 70, digests: 70, swapped: 110, peers: 150, swappedmore: 110, beyond: 120, memcheck: 60 }
const REHEARSED_SECONDS = { smoke: 30, plans: 60, digests: 60, swapped: 60, peers: 30, swappedmore: 60, beyond: 60, memcheck: 30 }
const ALIASES = {
  proof: Object.keys(SECONDS),
  proof1: ['smoke', 'plans', 'digests', 'swapped', 'peers'],
  proof2: ['plans', 'swappedmore', 'beyond', 'memcheck'],
}

const pagesBelow = (bytes) => Math.max(1, Math.floor(bytes / 2 / MIB)) * 2 * MIB

const proof = ({
  imitated,
  out,
  small,
  left,
  run,
  planOf,
  train,
  smallest,
  check,
  measured,
  skipped,
  peerOf,
  lowerTier,
  apart,
}) => {
  const points = POINTS(imitated ? REHEARSED(small) : {})
  const inCores = new Map()
  const ours = []
  const plans = new Map()
  let compiling

  const nameOf = ({ model, precision }) =>
    [path.basename(model[0], '.js'), ...model.slice(1).filter((word) => !word.startsWith('--')), precision].join(' ')
  const fixed = (precision) => ['--precision', precision, '--algorithms', 'fixed']

  /** A rule about time. */
  const judge = (section, what, holds, figures) =>
    imitated ? measured(`rule: ${section}: ${what}`, { ...figures, holds }) : check(section, what, holds, figures)

  /** Rules for every run of a plan. */
  const judgeRun = (section, name, r, within = RULES.predictedWithin.untaught) => {
    const { secondsPerStep, predictedSecondsPerStep, peakBytes, deviceMemory } = r.figures
    if (!r.ok) return check(section, name, false, { error: r.figures.error ?? 'not all steps' })
    const grown = deviceMemory?.grownBytes ?? 0
    const isPlanned = deviceMemory === undefined || deviceMemory.poolBytes === peakBytes
    check(section, `${name}: the driver counts the plan's bytes`, isPlanned && grown <= RULES.grownBytes, {
      peakBytes,
      deviceMemory,
    })
    const off = predictedSecondsPerStep / secondsPerStep - 1
    judge(section, `${name}: predicted within ${100 * within} %`, Math.abs(off) <= within, { off, secondsPerStep })
    return undefined
  }

  // ---------------------------------------------------------------- plans, made on all processors at once

  const keyOf = (point, budget, strategy) => `${nameOf(point)} ${strategy}${budget ? ` in ${budget / MIB} MiB` : ''}`

  const planned = async (point, budget, strategy, more = []) => {
    const key = keyOf(point, budget, strategy)
    if (!plans.has(key)) {
      const size = budget ? ['--budget', String(budget)] : []
      plans.set(key, planOf(key, point.model, ['--strategy', strategy, ...size, ...fixed(point.precision), ...more], 90))
    }
    return { key, ...(await plans.get(key)) }
  }

  /** The bytes of a step in-core. */
  const peakOf = async (point) => (await planned(point, undefined, 'in-core')).json.peakBytes

  const sharesOf = async (point) => {
    const peak = await peakOf(point)
    return peak === undefined ? [] : point.shares.map((share) => ({ share, budget: pagesBelow(peak / share) }))
  }

  const plansOf = async (point) => {
    const shares = await sharesOf(point)
    return Promise.all(shares.map(({ budget }) => planned(point, budget, 'auto')))
  }

  const makePlans = async () => {
    const of = [points.main, ...points.more]
    await Promise.all([...of.map(plansOf), planned(points.beyond, points.beyond.bytes, 'auto'), peakOf(points.beyond)])
    for (const [key, plan] of plans) {
      const { json, figures } = await plan
      if (json.error) check('plans', key, false, { error: json.error.message })
      else measured(`plan ${key}`, { peakBytes: json.peakBytes, ...figures })
    }
  }

  // ---------------------------------------------------------------- runs

  const ran = async (section, point, budget, strategy, steps, { share, more = [], tier = lowerTier } = {}) => {
    const plan = await planned(point, budget, strategy)
    if (plan.json.error) {
      check(section, plan.key, false, { error: plan.json.error.message })
      return { ok: false, figures: {} }
    }
    const r = await train(plan.key, [point.model[0]], ['--plan', plan.file, ...tier, ...more], steps, 60)
    measured(plan.key, { share, ...plan.figures, ...r.figures })
    judgeRun(section, plan.key, r)
    return r
  }

  const sharesRan = async (section, point, steps) => {
    const inCore = await ran(section, point, undefined, 'in-core', steps)
    inCores.set(nameOf(point), inCore)
    if (!inCore.ok) return
    if (point === points.main) ours.push({ share: 1, seconds: inCore.secondsPerStep, bytes: inCore.figures.peakBytes })
    for (const { share, budget } of await sharesOf(point)) {
      if (left() < 8) {
        skipped(`${section} ${nameOf(point)} at 1/${share}`)
        continue
      }
      const r = await ran(section, point, budget, 'auto', Math.ceil(steps * 0.6) + 1, { share })
      if (!r.ok) continue
      const ratio = r.secondsPerStep / inCore.secondsPerStep
      if (point === points.main) ours.push({ share, seconds: r.secondsPerStep, bytes: r.figures.peakBytes })
      const most = RULES.slower[share]
      if (most) judge(section, `${nameOf(point)} at 1/${share}: at most ${most} of in-core`, ratio <= most, { ratio })
    }
  }

  /** torch.compile takes a minute or more of the processors; its cache serves `peers`. */
  const compileModes = ['compile', ...points.memoryBudgets.map((share) => `budget:${share}`)]
  const startCompiling = () => {
    if (imitated) return
    const { model, precision } = points.main
    const words = ['--model', ...model, '--precision', precision, '--steps', '1', '--modes', compileModes.join(',')]
    compiling = run('compile', 'python3', ['bench/gpu/peer.py', ...words], { seconds: 240 })
  }

  const smoke = async () => {
    startCompiling()
    const { model, precision } = points.main
    const r = await train('smoke', model, [...fixed(precision), '--strategy', 'in-core'], 5, 50)
    check('smoke', 'five steps in-core', r.ok, r.ok ? {} : { error: r.figures.error ?? r.text?.slice(-300) })
  }

  const swapped = async () => {
    if (compiling) await Promise.race([compiling, new Promise((resolve) => setTimeout(resolve, 40_000))])
    const { model, precision } = points.main
    await sharesRan('swapped', points.main, imitated ? 7 : 20)
    const least = await smallest([...model, '--precision', precision], 'swap:greedy', 40)
    if (least && left() > 8) await ran('swapped', points.main, least, 'swap:greedy', 8)
    if (left() < 20) return skipped('swapped: after measuring')
    // Measured algorithms, twice: the second prediction knows the stamped calls of the first run.
    const [budget] = (await sharesOf(points.main)).slice(-1).map((s) => s.budget)
    const args = ['--precision', precision, '--budget', String(budget), ...(imitated ? ['--algorithms', 'fixed'] : [])]
    await train('taught first', model, args, 7, 60)
    const r = await train('taught second', model, args, 7, 30)
    judgeRun('swapped', 'after measuring', r, RULES.predictedWithin.taught)
  }

  /** Our fastest step in no more memory. */
  const bestWithin = (bytes) => Math.min(...ours.filter((o) => o.bytes <= bytes).map((o) => o.seconds), Number.POSITIVE_INFINITY)

  const judgePeers = (modes) => {
    const times = (names) => names.map((name) => modes[name]?.secondsPerStep ?? Number.POSITIVE_INFINITY)
    const inCore = Math.min(...times(['eager', 'graph', 'compile']))
    const eighth = ours.find(({ share }) => share === 8)?.seconds
    if (Number.isFinite(inCore) && eighth)
      judge('peers', 'at an eighth faster than PyTorch in-core', eighth < inCore, { eighth, inCore })
    for (const [mode, { secondsPerStep, peakBytes }] of Object.entries(modes)) {
      if (!secondsPerStep || !peakBytes || /^(eager|graph|compile)$/.test(mode)) continue
      const best = bestWithin(peakBytes)
      judge('peers', `faster than ${mode} at its own peak`, best < secondsPerStep, { ours: best, secondsPerStep, peakBytes })
    }
  }

  const peers = async () => {
    const { model, precision } = points.main
    const checkpoints = points.segments.map((n) => `checkpoint:${n}`)
    const modes = {}
    for (const names of [['eager', 'graph'], checkpoints, ['save_on_cpu', `${checkpoints[1]}+save_on_cpu`], compileModes]) {
      if (left() < 10) {
        skipped(`peers ${names.join(' ')}`)
        continue
      }
      const { answer } = await peerOf(
        model[0],
        model.slice(1),
        precision,
        imitated ? 2 : 10,
        names.join(','),
        Math.min(60, left()),
      )
      Object.assign(modes, answer.modes)
      measured(`PyTorch ${names.join(' ')}`, answer)
    }
    judgePeers(modes)
  }

  const swappedmore = async () => {
    for (const point of points.more) {
      if (left() < 15) skipped(`swappedmore ${nameOf(point)}`)
      else await sharesRan('swappedmore', point, imitated ? 7 : 12)
    }
  }

  const beyond = async () => {
    const { beyond: point } = points
    const inCore = await ran('beyond', point, undefined, 'in-core', imitated ? 6 : 8)
    const inLess = await ran('beyond', point, point.bytes, 'auto', imitated ? 6 : 8)
    if (inCore.ok && inLess.ok) {
      const share = inCore.secondsPerStep / inLess.secondsPerStep
      const times = inCore.figures.peakBytes / inLess.figures.peakBytes
      judge('beyond', `${times.toFixed(1)} times beyond memory`, share >= RULES.beyondShare, { share, times })
    }
    if (left() < 25) return skipped('beyond: disk')
    const tier = ['--host-memory', String(point.hostBytes), '--spill', path.join(out, 'spill')]
    const args = ['--precision', point.precision, '--budget', String(point.bytes), '--algorithms', 'fixed', ...tier]
    const disk = await train('beyond disk', point.model, args, 6, left())
    measured('beyond, to the disk', disk.figures)
    check('beyond', 'trains with a disk tier', disk.ok, disk.ok ? {} : { error: disk.figures.error })
  }

  /** Bits of an untiled step are those of in-core; sums of a tiled one have another order, and its losses are near. */
  const digests = async () => {
    const { model, precision, steps, share } = points.bits
    const one = (name, options) => train(`digests ${name}`, model, [...fixed(precision), ...options], steps, 60, apart)
    const inCore = await one('in-core', ['--strategy', 'in-core'])
    if (!inCore.ok) return check('digests', 'in-core', false, { error: inCore.figures.error })
    const least = await smallest([...model, '--precision', precision], 'swap:greedy', 40)
    const budget = pagesBelow(inCore.figures.peakBytes / share)
    for (const [name, options] of [
      ['swap', ['--strategy', 'swap:greedy', ...(least ? ['--budget', String(least)] : [])]],
      [`1/${share}`, ['--budget', String(budget)]],
    ]) {
      const r = await one(name, options)
      const isSame = r.ok && r.json.weightsSha256 === inCore.json.weightsSha256
      const isNear =
        r.ok && r.json.losses.every((loss, i) => Math.abs(loss - inCore.json.losses[i]) <= 0.05 * Math.abs(inCore.json.losses[i]))
      check(
        'digests',
        `${name}: ${isSame ? 'the same bits' : 'near losses'} after ${steps} steps`,
        isSame || (name !== 'swap' && isNear),
        {
          same: isSame,
          ...r.figures,
        },
      )
    }
    return undefined
  }

  const memcheck = async () => {
    const { model, precision } = points.memcheck
    const least = await smallest([...model, '--precision', precision], 'swap:greedy', 40)
    const tool = imitated ? [] : ['compute-sanitizer', '--tool', 'memcheck', '--report-api-errors', 'no', '--error-exitcode', '9']
    const args = ['dist/src/cli.js', 'train', ...model, '--device', 'cuda', ...fixed(precision), '--strategy', 'swap:greedy']
    const [program, ...rest] = [
      ...tool,
      process.execPath,
      ...args,
      ...(least ? ['--budget', String(least)] : []),
      '--steps',
      '1',
      '--json',
    ]
    const r = await run('memcheck', program, rest, { seconds: Math.min(90, left()) })
    if (/ENOENT|Device not supported/.test(r.text) || r.timedOut) return skipped(`memcheck: ${r.outcome}`)
    return check('memcheck', 'a swapped step is clean', r.status === 0, r.status === 0 ? {} : { error: r.text.slice(-400) })
  }

  return { smoke, plans: makePlans, digests, swapped, peers, swappedmore, beyond, memcheck }
}

module.exports = { ALIASES, SECONDS, REHEARSED_SECONDS, proof }
