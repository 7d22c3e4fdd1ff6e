// What gpu-check.sh runs on the box: sections of checks and benchmarks, each with a share of the time that is left.
// In: the folder for results, names of sections. Out: gpu.json {conformanceFailures, worstTimeRatio, outOfCoreShare, cases[]},
// a log for each run, plots. Invariant: gpu.json is written after every section, so a run that is cut short still tells. With
// SPILLWAY_GPU_IMITATED the same lines run small networks on the plugin that imitates a GPU: what it says of speed means nothing.
'use strict'
const { execFileSync, spawnSync } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const { plotSteps } = require('./plot')

const imitated = Boolean(process.env.SPILLWAY_GPU_IMITATED)
const [out, ...wanted] = process.argv.slice(2)
const ROOT = path.dirname(path.dirname(__dirname))
const GIB = 1024 ** 3
const deadline = Number(process.env.SPILLWAY_GPU_STARTED ?? Date.now() / 1000) + Number(process.env.SPILLWAY_GPU_SECONDS ?? 520)
const left = () => deadline - Date.now() / 1000

const readJson = file => { try { return JSON.parse(fs.readFileSync(file, 'utf8')) } catch { return undefined } }
const git = () => { try { return fs.readFileSync(path.join(ROOT, 'commit'), 'utf8').trim() } catch { return 'unknown' } }

/** The networks of each section. */
const NETWORKS = imitated ? {
  conformanceSeconds: { fp32: 30, tf32: 15, bf16: 30 },
  identity: [['resnet20-cifar', '--batch', '2', '--image', '16'], ['resnet20-cifar', '--batch', '2', '--image', '16', '--precision', 'bf16']],
  incore: [['resnet20-cifar', 2, 16, 'tf32', 4]],
  outofcore: { model: 'resnet20-cifar', image: 16, budget: 12 * 2 ** 20, batches: [1, 9], precision: 'fp32', beyond: [[2, 'auto'], [2, 'swap:window']] },
  large: { models: ['darknet19-features-plain'], images: [64], most: 0, budget: '256MiB' },
} : {
  conformanceSeconds: { fp32: 150, tf32: 60, bf16: 60 },
  identity: [['vgg16-features', '--image', '512'], ['resnet18', '--batch', '16', '--image', '128'], ['resnet18', '--batch', '16', '--image', '128', '--precision', 'bf16']],
  incore: [['resnet50', 64, 224, 'tf32', 25], ['resnet50', 64, 224, 'bf16', 25], ['vgg16-features', 1, 2048, 'tf32', 15], ['resnet50', 256, 224, 'tf32', 12], ['resnet50', 256, 224, 'bf16', 12],
    ['darknet19-features', 1, 2048, 'tf32', 15], ['vgg16-features', 1, 2048, 'bf16', 12], ['darknet19-features', 1, 2048, 'bf16', 12], ['resnet50', 64, 224, 'fp32', 12]],
  outofcore: { model: 'resnet50', image: 224, budget: 16 * GIB, batches: [64, 128], precision: 'fp32', beyond: [[2, 'auto'], [4, 'auto'], [7.5, 'auto'], [2, 'swap:window'], [4, 'swap:window']] },
  large: { models: ['vgg16-features', 'darknet19-features-plain'], images: [10240, 20480], most: 10240, budget: '11GiB' },
}

const result = {
  imitated, machine: readJson(path.join(out, 'device.json')), commit: git(), date: new Date().toISOString(),
  conformanceFailures: null, worstTimeRatio: null, outOfCoreShare: null, checks: [], cases: [], skipped: [],
}
const save = () => fs.writeFileSync(path.join(out, 'gpu.json'), `${JSON.stringify(result, null, 1)}\n`)
const check = (section, what, holds, figures = {}) => {
  result.checks.push({ section, what, holds, ...figures })
  console.log(`${holds ? 'holds' : 'FAILS'}  ${section}: ${what} ${JSON.stringify(figures)}`)
}
const measured = (name, figures) => {
  result.cases.push({ name, ...figures })
  console.log(`case   ${name} ${JSON.stringify(figures)}`)
}

/** Runs a program with its output in a log. Out: its status and what it said. */
let runs = 0
const run = (name, program, args, { seconds, env = {} }) => {
  const limit = Math.max(1, Math.min(seconds, left()))
  const began = Date.now()
  const r = spawnSync(program, args, { cwd: ROOT, env: { ...process.env, ...env }, encoding: 'utf8', maxBuffer: 2 ** 28, timeout: Math.ceil(limit * 1000), killSignal: 'SIGKILL' })
  const spent = (Date.now() - began) / 1000
  const text = `${r.stdout ?? ''}${r.stderr ?? ''}${r.error?.message ?? ''}`
  fs.appendFileSync(path.join(out, 'runs.log'), `\n$ ${++runs} ${name}: ${program} ${args.join(' ')}\n${text}\n= ${r.status ?? r.signal} after ${spent.toFixed(1)} s\n`)
  return { status: r.status, text, stdout: r.stdout ?? '', timedOut: r.status === null, spent }
}

const spillway = (name, args, seconds = 120) => {
  const r = run(name, process.execPath, ['dist/src/cli.js', ...args, '--json'], { seconds })
  try { return { ...r, json: JSON.parse(r.stdout) } } catch { return { ...r, json: { error: { message: r.timedOut ? 'out of time' : r.text.slice(-400) } } } }
}

const median = list => { const s = [...list].sort((a, b) => a - b); return s[Math.floor(s.length / 2)] }

/** Trains and reads the seconds of each step; the first three warm up, the very first is timed call by call. */
const train = (name, model, options, steps, seconds) => {
  const log = path.join(out, 'steps', name.replace(/[^\w.-]+/g, '_'))
  fs.mkdirSync(log, { recursive: true })
  const r = spillway(name, ['train', ...model, '--device', 'cuda', '--steps', String(steps), '--seed', '1', '--log', log, ...options], seconds)
  const lines = fs.existsSync(path.join(log, 'steps.jsonl')) ? fs.readFileSync(path.join(log, 'steps.jsonl'), 'utf8').trim().split('\n').filter(Boolean).map(JSON.parse) : []
  const timed = lines.slice(3).map(l => l.seconds)
  return { ...r, ok: r.json.error === undefined && timed.length > 0, secondsPerStep: median(timed), steps: lines }
}
const why = r => r.json.error?.message ?? 'no steps'

// ---------------------------------------------------------------- sections

const conformance = () => {
  let failures = 0
  for (const [precision, seconds] of Object.entries(NETWORKS.conformanceSeconds)) {
    const report = path.join(out, `conformance-${precision}.jsonl`)
    const r = run(`conformance ${precision}`, 'tests/kernels_cuda', [], {
      seconds, env: { SPILLWAY_TEST_DEVICE: 'cuda', SPILLWAY_TEST_PRECISION: precision, SPILLWAY_TEST_REPORT: report, SPILLWAY_TEST_SECONDS: String(Math.floor(seconds * 0.8)) },
    })
    const [, passed, failed] = /(\d+) passed, (\d+) failed/.exec(r.text) ?? []
    failures += passed === undefined ? 1 : Number(failed)
    check('conformance', precision, passed !== undefined && Number(failed) === 0 && Number(passed) > 0, { ...(passed === undefined ? { error: r.text.slice(-300) } : { passed: Number(passed), failed: Number(failed) }), seconds: r.spent })
  }
  result.conformanceFailures = failures
}

const sanitizer = () => {
  const r = run('sanitizer', 'compute-sanitizer', ['--tool', 'memcheck', '--error-exitcode', '9', 'tests/kernels_cuda'], {
    seconds: 90, env: { SPILLWAY_TEST_DEVICE: 'cuda', SPILLWAY_TEST_SHARE: '20', SPILLWAY_TEST_SECONDS: '60' },
  })
  if (/ENOENT|Device not supported/.test(r.text) || r.status === null) return void result.skipped.push('sanitizer: not to be had here, or out of time')
  check('sanitizer', 'memcheck is clean', r.status === 0 && /ERROR SUMMARY: 0 errors/.test(r.text))
}

/** The smallest budgets of strategies on a model. */
const smallest = (model, strategy) => spillway(`smallest ${model[0]} ${strategy}`, ['plan', ...model, '--machine', 'cuda', '--strategy', strategy, '--budget', '2MiB', '--algorithms', 'fixed']).json.error?.smallestBytes

const identity = () => {
  for (const model of NETWORKS.identity) {
    const name = model.filter(word => !word.startsWith('--')).join(' ')
    const inCore = smallest(model, 'in-core')
    let sha
    for (const strategy of ['in-core', 'checkpoint:sqrt', 'swap:greedy', 'tiled']) {
      if (left() < 30) return void result.skipped.push(`identity ${name} ${strategy}`)
      const least = strategy === 'in-core' ? inCore : smallest(model, strategy)
      const budget = strategy === 'in-core' ? inCore : Math.floor((least + inCore) / 2 / 2097152) * 2097152
      const r = train(`identity ${name} ${strategy}`, model, ['--strategy', strategy, '--budget', String(budget), '--algorithms', 'fixed'], 5, 60)
      const { weightsSha256, arenaPeakBytes, peakBytes, losses, bytesOut, recomputeSeconds, deviceMemory } = r.json
      sha ??= weightsSha256
      const same = strategy === 'tiled' ? r.ok : r.ok && weightsSha256 === sha
      // The driver hands out memory by its own pages, which may be one of ours more.
      const counted = deviceMemory === undefined || !deviceMemory.ofProcess || deviceMemory.poolBytes <= budget + 2 ** 21
      const facts = { budget, peakBytes, arenaPeakBytes, deviceMemory, losses, bytesOut, recomputeSeconds, weightsSha256 }
      check('identity', `${name} ${strategy}`, same && arenaPeakBytes === peakBytes && peakBytes <= budget && counted, { ...facts, ...(r.ok ? {} : { error: why(r) }) })
    }
  }
}

/** Another process holds the card; a budget beyond it; each is refused in words, and the next run works. */
const faults = () => {
  const model = imitated ? NETWORKS.identity[0] : ['resnet18', '--batch', '8', '--image', '64']
  if (!imitated) cardIsHeld(model)
  const after = train('fault: after', model, [], 5, 60)
  check('faults', 'and the next run works', after.ok, after.ok ? {} : { error: why(after) })
}

const cardIsHeld = model => {
  const total = result.machine?.totalBytes ?? 0
  const held = run('fault: memory', 'bash', ['-c', `python3 -c "import torch, subprocess, sys; x = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.995), dtype=torch.uint8, device='cuda'); sys.exit(subprocess.call(sys.argv[1:]))" ${process.execPath} dist/src/cli.js train ${model.join(' ')} --device cuda --budget 8GiB --steps 2 --json`], { seconds: 60 })
  check('faults', 'no memory left is an error in words', held.status !== 0 && /memory/i.test(held.text) && !/core dumped/.test(held.text), { words: held.text.slice(-300), total })
}

/** Our step beside PyTorch's, ours before and after it, so that a slow minute meets both. */
const versus = (name, model, peerArgs, options, steps) => {
  const before = train(`${name} first`, model, options, steps, 120)
  if (!before.ok) return void check('incore', name, false, { error: why(before) })
  const peer = run(`${name} peer`, 'python3', ['bench/gpu/peer.py', ...peerArgs, '--steps', String(steps)], { seconds: 120 })
  const after = train(`${name} second`, model, options, steps, 60)
  const p = (() => { try { return JSON.parse(peer.stdout.trim().split('\n').pop()) } catch { return { error: peer.text.slice(-400) } } })()
  const ours = Math.min(before.secondsPerStep, after.ok ? after.secondsPerStep : Infinity)
  const best = p.modes && Math.min(...Object.values(p.modes).map(m => m.secondsPerStep ?? Infinity))
  const peerPeak = p.modes && Math.min(...Object.values(p.modes).map(m => m.peakBytes ?? Infinity))
  measured(name, {
    secondsPerStep: ours, predictedSecondsPerStep: before.json.predictedSecondsPerStep, stallSeconds: before.json.stallSeconds, peakBytes: before.json.peakBytes,
    deviceMemory: before.json.deviceMemory, peerSecondsPerStep: best, timeRatio: best && ours / best, memoryRatio: peerPeak && before.json.peakBytes / peerPeak, peer: p,
  })
  plotSteps(path.join(out, `${name.replace(/[^\w.-]+/g, '_')}.svg`), name, before.steps.map(s => s.seconds), best)
}

const incore = () => {
  for (const [model, batch, image, precision, steps] of NETWORKS.incore) {
    const name = `${model} b${batch}@${image} ${precision}`
    const sizes = ['--batch', String(batch), '--image', String(image)]
    if (left() < 60) result.skipped.push(`incore ${name}`)
    else versus(name, [model, ...sizes], ['--model', model, ...sizes, '--precision', precision], ['--precision', precision, '--strategy', 'in-core'], steps)
    save()
  }
  const ratios = result.cases.map(c => c.timeRatio).filter(r => typeof r === 'number')
  result.worstTimeRatio = ratios.length ? Math.max(...ratios) : null
}

/** Paper 1 on this card: batches beyond what a budget holds in-core. */
const outofcore = () => {
  const { model, image, budget, batches, precision, beyond } = NETWORKS.outofcore
  const sized = batch => [model, '--batch', String(batch), '--image', String(image)]
  const name = (batch, strategy) => `${model} ${precision} ${strategy} b${batch}`
  const at = (batch, strategy, steps) => train(name(batch, strategy), sized(batch), ['--budget', String(budget), '--strategy', strategy, '--precision', precision], steps, 100)
  const [few, more] = batches
  const small = smallest(sized(few), 'in-core'), large = smallest(sized(more), 'in-core')
  if (!small || !large) return void check('outofcore', 'in-core sizes', false)
  const fits = Math.floor((few + ((budget - small) * (more - few)) / (large - small)) * 0.98)
  const rates = {}
  for (const batch of [few, fits]) {
    const r = at(batch, 'in-core', 8)
    if (r.ok) rates[batch] = batch / r.secondsPerStep
    measured(name(batch, 'in-core'), { imagesPerSecond: rates[batch], peakBytes: r.json.peakBytes, ...(r.ok ? {} : { error: why(r) }) })
  }
  const best = Math.max(...Object.values(rates))
  const shares = []
  for (const [factor, strategy] of beyond) {
    if (left() < 60) { result.skipped.push(`outofcore ${factor} ${strategy}`); continue }
    const batch = Math.floor(fits * factor)
    const r = at(batch, strategy, 6)
    const rate = r.ok ? batch / r.secondsPerStep : undefined
    if (strategy === 'auto' && rate) shares.push(rate / best)
    const { peakBytes, bytesOut, predictedSecondsPerStep, stallSeconds } = r.json
    measured(name(batch, strategy), { imagesPerSecond: rate, share: rate && rate / best, peakBytes, bytesOut, stallSeconds, predictedSecondsPerStep, secondsPerStep: r.secondsPerStep, ...(r.ok ? {} : { error: why(r) }) })
    save()
  }
  result.outOfCoreShare = shares.length ? Math.min(...shares) : null
}

/** Paper 3: large images in a small budget; PyTorch holds all of those up to `most`. */
const large = () => {
  const { models, images, most, budget } = NETWORKS.large
  for (const [model, image] of images.flatMap(i => models.map(m => [m, i]))) {
    if (left() < 60) { result.skipped.push(`large ${model} ${image}`); continue }
    const r = train(`${model} ${image} ${budget}`, [model, '--image', String(image)], ['--budget', budget, '--strategy', 'tiled', '--precision', 'tf32'], 5, 150)
    const peer = image > most || left() < 60 ? undefined : run(`${model} ${image} peer`, 'python3', ['bench/gpu/peer.py', '--model', model, '--batch', '1', '--image', String(image), '--precision', 'tf32', '--steps', '4', '--modes', 'eager'], { seconds: 90 })
    const p = (() => { try { return JSON.parse(peer.stdout.trim().split('\n').pop()) } catch { return undefined } })()
    const theirs = p?.modes?.eager?.secondsPerStep
    measured(`${model} b1@${image} ${budget} tf32`, { secondsPerStep: r.secondsPerStep, predictedSecondsPerStep: r.json.predictedSecondsPerStep, peakBytes: r.json.peakBytes, peerSecondsPerStep: theirs, largeRatio: theirs && r.secondsPerStep / theirs, ...(r.ok ? {} : { error: why(r) }) })
    save()
  }
}

const SECTIONS = { conformance, identity, incore, outofcore, faults, sanitizer, large }

const main = () => {
  const names = wanted.length > 0 ? wanted : Object.keys(SECTIONS)
  const unknown = names.filter(n => !SECTIONS[n])
  if (unknown.length > 0) {
    console.error(`no section ${unknown.join(', ')}; there are: ${Object.keys(SECTIONS).join(', ')}`)
    process.exit(2)
  }
  result.torch = (() => { try { return execFileSync('python3', ['-c', 'import torch; print(torch.__version__, torch.backends.cudnn.version())'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim() } catch { return 'none' } })()
  for (const name of names) {
    if (left() < 20) { result.skipped.push(name); continue }
    try { SECTIONS[name]() } catch (e) { check(name, 'ran to its end', false, { error: String(e?.stack ?? e) }) }
    save()
  }
  save()
  const failed = result.checks.filter(c => !c.holds).length
  console.log(`${result.checks.length - failed} passed, ${failed} failed; skipped: ${result.skipped.join(', ') || 'nothing'}`)
  process.exitCode = failed > 0 ? 1 : 0
}

main()
