// The sections of checks and benchmarks that gpu-check.sh runs on a GPU box. Each section names its seconds. In: the folder for results, names of
// sections; or --list, which prints the sections and their seconds. Out: gpu.json {conformanceFailures, worstTimeRatio, outOfCoreShare, cases[]},
// logs of each run, plots. Invariant: gpu.json is written after every check and case, so an interrupted run still has results; a section that fails
// or exceeds its time stops no other. With SPILLWAY_GPU_IMITATED the same lines run a small network on the plugin that imitates a GPU: its speeds
// mean nothing.
'use strict'
const { execFileSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { plotSteps } = require('./plot')
const { ALIASES, proof, REHEARSED_SECONDS, SECONDS } = require('./proof')
const { answerer, fileName, runner } = require('./runs')

const imitated = Boolean(process.env.SPILLWAY_GPU_IMITATED)
const [out, ...asked] = process.argv.slice(2)
const wanted = asked.flatMap((name) => ALIASES[name] ?? [name])
const ROOT = path.dirname(path.dirname(__dirname))
const MIB = 2 ** 20,
  GIB = 2 ** 30
const SMALL = 'scripts/gpu/small.js'
const CORES = os.availableParallelism()

const now = () => Date.now() / 1000
const deadline =
  Number(process.env.SPILLWAY_GPU_STARTED ?? now()) +
  Number(process.env.SPILLWAY_GPU_SECONDS ?? (imitated ? 400 : asked.includes('proof') ? 780 : 520))
let sectionEnd = Number.POSITIVE_INFINITY
const left = () => Math.min(deadline, sectionEnd) - now()

/**
 * Seconds that a section needs for all of its parts, in order of worth; each fits a call of ten minutes by itself. If a call has less or more than
 * the sum, each gets its share; unused time passes to later ones.
 */
const WANTED = imitated
  ? {
      conformance: 30,
      identity: 40,
      ways: 40,
      faults: 15,
      ranks: 15,
      sanitizer: 15,
      incore: 40,
      incoremore: 30,
      outofcore: 60,
      large: 45,
      ...REHEARSED_SECONDS,
    }
  : {
      conformance: 120,
      identity: 150,
      ways: 150,
      faults: 60,
      ranks: 60,
      sanitizer: 60,
      incore: 300,
      incoremore: 250,
      outofcore: 300,
      large: 300,
      ...SECONDS,
    }

/** The networks of each section, `steps` with the five that warm up (STEADY). */
const NETWORKS = imitated
  ? {
      conformanceParts: 2,
      identity: [[SMALL, '--image', '48']],
      ways: [[SMALL, '--image', '16', '--precision', 'bf16']],
      incore: [[SMALL, 2, 24, 'tf32', 7]],
      incoremore: [[SMALL, 2, 16, 'bf16', 7]],
      outofcore: {
        model: SMALL,
        image: 32,
        budget: (one, two) => one + 3 * (two - one),
        batches: [1, 2],
        precision: 'fp32',
        steps: 6,
        beyond: [
          [2, 'auto'],
          [2, 'swap:window'],
        ],
      },
      large: { cases: [[SMALL, 1, 32, 'tiled']], held: 16, budget: 10 * MIB },
      faults: [SMALL, '--image', '16'],
    }
  : {
      conformanceParts: Math.max(1, Math.min(14, CORES - 2)),
      identity: [
        ['vgg16-features', '--image', '512'],
        ['resnet18', '--batch', '16', '--image', '128'],
        ['resnet18', '--batch', '16', '--image', '128', '--precision', 'bf16'],
      ],
      ways: [
        ['resnet18', '--batch', '16', '--image', '128', '--precision', 'tf32'],
        ['resnet18', '--batch', '16', '--image', '128', '--precision', 'bf16'],
      ],
      incore: [
        ['resnet50', 128, 224, 'bf16', 16, 'less'],
        ['resnet50', 128, 224, 'tf32', 16, 'less'],
        ['vgg16', 64, 224, 'tf32', 16],
        ['vgg16', 64, 224, 'bf16', 16],
      ],
      incoremore: [
        ['densenet121', 64, 224, 'bf16', 16],
        ['deeplabv3plus-resnet50', 8, 512, 'bf16', 16],
        ['densenet121', 64, 224, 'tf32', 16],
        ['deeplabv3plus-resnet50', 8, 512, 'tf32', 16],
        ['resnet50', 128, 224, 'fp32', 12],
        ['vgg16-features', 1, 2048, 'tf32', 16],
        ['darknet19-features', 1, 2048, 'tf32', 16],
      ],
      outofcore: {
        model: 'resnet50',
        image: 224,
        budget: () => 16 * GIB,
        batches: [64, 128],
        precision: 'fp32',
        steps: 8,
        beyond: [
          [7.5, 'auto'],
          [4, 'auto'],
          [2, 'auto'],
          [2, 'swap:window'],
          [4, 'swap:window'],
        ],
      },
      large: {
        cases: [
          ['vgg16-features', 1, 10240, 'tiled'],
          ['resnet50', 1, 8192, 'auto'],
          ['vgg16-features', 1, 20480, 'tiled'],
          ['deeplabv3plus-resnet50', 2, 8192, 'auto'], // of one image it norms a single value
          ['darknet19-features-plain', 1, 10240, 'tiled'],
          ['darknet19-features-plain', 1, 20480, 'tiled'],
        ],
        held: 2048,
        budget: 11 * GIB,
      },
      faults: ['resnet18', '--batch', '8', '--image', '64'],
    }
/** In-core steps in tf32 and bf16 take the engines that cuDNN names first, which repeat bit for bit: measuring others takes half a minute, and on an
 * H100 found no faster step. `ways` trains with all of them. */
const FIXED = ['--algorithms', 'fixed']
/** Other plans depend on the times of calls. A rehearsal measures in-core alone, because a host is slow at it. */
const MEASURED = imitated ? FIXED : []
// Before anything is written: an option is no folder for the results.
if (out === '--list') {
  for (const [name, seconds] of Object.entries(WANTED)) console.log(`${name} ${seconds} s`)
  process.exit(0)
}
if (out === undefined || out.startsWith('-')) {
  console.error(`the first argument must be the folder for the results, or --list; found ${out ?? 'none'}`)
  process.exit(2)
}
/** A part of the section's time for each. */
const CONFORMANCE = { fp32: 0.5, tf32: 0.5, bf16: 1 }

const readJson = (file) => {
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8'))
  } catch {
    return undefined
  }
}
const parsed = (text) => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
const commit = () => {
  try {
    return fs.readFileSync(path.join(ROOT, 'commit'), 'utf8').trim()
  } catch {
    return 'unknown'
  }
}
const baseOf = (model) => path.basename(model, '.js')

const result = {
  imitated,
  machine: readJson(path.join(out, 'device.json')),
  cores: CORES,
  commit: commit(),
  date: new Date().toISOString(),
  conformanceFailures: null,
  worstTimeRatio: null,
  outOfCoreShare: null,
  checks: [],
  cases: [],
  skipped: [],
  sectionSeconds: {},
  sections: {},
}
const save = () => fs.writeFileSync(path.join(out, 'gpu.json'), `${JSON.stringify(result, null, 1)}\n`)
const check = (section, what, holds, figures = {}) => {
  result.checks.push({ section, what, holds, ...figures })
  console.log(`${holds ? 'holds' : 'FAILS'}  ${section}: ${what} ${JSON.stringify(figures)}`)
  save()
}
const measured = (name, figures) => {
  result.cases.push({ name, ...figures })
  console.log(`case   ${name} ${JSON.stringify(figures)}`)
  save()
}
const skipped = (what) => {
  result.skipped.push(what)
  console.log(`skips  ${what}`)
  save()
}

const run = runner({ out, root: ROOT, secondsLeft: left })
/** Starting PyTorch takes longer than its steps. */
const PEER = process.env.SPILLWAY_GPU_PEER?.split(' ') ?? ['python3', 'bench/gpu/peer.py', '--serve']
const pytorch = answerer({ out, root: ROOT, secondsLeft: left }, 'peer', PEER[0], PEER.slice(1))

const spillway = async (name, args, seconds = 120, env = {}) => {
  const r = await run(name, process.execPath, ['dist/src/cli.js', ...args, '--json'], { seconds, env })
  return { ...r, json: parsed(r.stdout) ?? { error: { message: `${r.outcome} ${r.text.slice(-400)}` } } }
}
const why = (r) => r.json.error?.message ?? 'not all steps'

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]

/** The first steps are stamped call by call, the next are kept as graphs, one for each input buffer: those from the sixth on are like all others. */
const STEADY = 5

/** Stages once for all runs of a case: its prediction, and the plan's file. */
const planOf = async (name, model, options, seconds) => {
  const file = path.join(out, `${fileName(name)}.plan.json`)
  const { json } = await spillway(`${name} plan`, ['plan', ...model, '--machine', 'cuda', ...options, '--save', file], seconds)
  const { makespanSeconds, stallSeconds, planningSeconds } = json
  return {
    json,
    file,
    figures: { plannedSeconds: makespanSeconds, plannedStallSeconds: stallSeconds, planningSeconds },
    drop: () => fs.rmSync(file, { force: true }),
  }
}

/** Pinned memory is at most half of the host's; the rest is on the disk. */
const LOWER_TIER = [
  '--host-memory',
  `${Math.floor(os.totalmem() / 2 / MIB)}MiB`,
  '--spill',
  path.join(os.tmpdir(), 'spillway-gpu-spill'),
]

/** Stages, then trains. */
const stagedRun = async (name, model, options, steps, seconds) => {
  const plan = await planOf(name, model, options, seconds)
  if (plan.json.error) return { ok: false, json: plan.json, figures: { error: why(plan) } }
  const r = await train(name, [model[0]], ['--plan', plan.file, ...LOWER_TIER], steps, seconds)
  plan.drop()
  return { ...r, figures: { ...plan.figures, ...r.figures } }
}

/** Trains and reads the seconds of each step. Only the two stamped steps tell stalls; the first one's draws the data too. */
const train = async (name, model, options, steps, seconds, env = {}) => {
  const log = path.join(out, 'steps', fileName(name))
  fs.mkdirSync(log, { recursive: true })
  const r = await spillway(
    name,
    ['train', ...model, '--device', 'cuda', '--steps', String(steps), '--seed', '1', '--log', log, ...options],
    seconds,
    env,
  )
  const file = path.join(log, 'steps.jsonl')
  const lines = fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trim().split('\n').filter(Boolean).map(JSON.parse) : []
  const steady = lines.slice(STEADY).map((l) => l.seconds)
  const { peakBytes, bytesOut, predictedSecondsPerStep, stallSeconds, deviceMemory } = r.json
  const secondsPerStep = median(steady)
  return {
    ...r,
    ok: r.json.error === undefined && lines.length === steps,
    secondsPerStep,
    seconds: lines.map((l) => l.seconds),
    figures: {
      secondsPerStep,
      predictedSecondsPerStep,
      stampedStallSeconds: stallSeconds,
      peakBytes,
      bytesOut,
      deviceMemory,
      ...(r.json.error ? { error: why(r) } : {}),
    },
  }
}

/** Runs beside others give no useful measurement. */
const APART = { XDG_CACHE_HOME: fs.mkdtempSync(path.join(os.tmpdir(), 'spillway-gpu-apart-')) }
process.on('exit', () => fs.rmSync(APART.XDG_CACHE_HOME, { recursive: true, force: true }))

/** One after the other where there are few cores, else all at once: not where time is measured. */
const each = async (list, f) => {
  if (CORES >= 8) return Promise.all(list.map(f))
  for (const one of list) await f(one)
}

// ---------------------------------------------------------------- sections

/** In a bundle they lie here; in a checkout, wherever they are built. */
const TESTS = process.env.SPILLWAY_GPU_TESTS ?? 'tests'

/** A rehearsal runs one random case in this number. */
const IMITATED_SHARE = '160'

const testPart = async (precision, part, parts, seconds) => {
  const report = path.join(out, `conformance-${precision}-${part}.jsonl`)
  const r = await run(`conformance ${precision} ${part}`, `${TESTS}/kernels_cuda`, [], {
    seconds,
    env: {
      SPILLWAY_TEST_DEVICE: 'cuda',
      SPILLWAY_TEST_PRECISION: precision,
      SPILLWAY_TEST_PART: `${part}/${parts}`,
      SPILLWAY_TEST_REPORT: report,
      SPILLWAY_TEST_SECONDS: String(Math.max(2, Math.floor(seconds * 0.8))),
      ...(imitated ? { SPILLWAY_TEST_SHARE: IMITATED_SHARE } : {}),
    },
  })
  const [, passed, failed] = /(\d+) passed, (\d+) failed/.exec(r.text)?.map(Number) ?? []
  const words = r.stdout
    .split('\n')
    .filter((line) => line.startsWith('FAILED'))
    .slice(0, 5)
  if (passed !== undefined) return { passed, failed, words }
  if (r.timedOut) return { passed: 0, failed: words.length, words, late: part }
  return { passed: 0, failed: 1, words: [...words, `part ${part}: ${r.outcome} ${r.text.slice(-200)}`] }
}

const conformance = async () => {
  const parts = NETWORKS.conformanceParts
  let [failures, rest] = [0, 0]
  for (const share of Object.values(CONFORMANCE)) rest += share
  for (const [precision, share] of Object.entries(CONFORMANCE)) {
    const seconds = Math.max(5, (left() * share) / rest)
    rest -= share
    const ran = await Promise.all(Array.from({ length: parts }, (_, i) => testPart(precision, i + 1, parts, seconds)))
    const sum = (of) => ran.reduce((n, t) => n + t[of], 0)
    const words = ran.flatMap((t) => t.words)
    const late = ran.flatMap((t) => t.late ?? [])
    if (late.length > 0) skipped(`conformance ${precision}: parts ${late.join(', ')} of ${parts} did not come to their end`)
    failures += sum('failed')
    result.conformanceFailures = failures
    check('conformance', precision, sum('failed') === 0 && sum('passed') > 0, {
      passed: sum('passed'),
      failed: sum('failed'),
      ...(words.length ? { words } : {}),
    })
  }
}

const sanitizer = async () => {
  const tool = imitated ? [] : ['compute-sanitizer', '--tool', 'memcheck', '--report-api-errors', 'no', '--error-exitcode', '9']
  const [program, ...args] = [...tool, `${TESTS}/kernels_cuda`]
  const seconds = Math.min(90, left())
  const r = await run('sanitizer', program, args, {
    seconds,
    env: {
      SPILLWAY_TEST_DEVICE: 'cuda',
      SPILLWAY_TEST_SHARE: imitated ? IMITATED_SHARE : '20',
      SPILLWAY_TEST_SECONDS: String(Math.floor(seconds * 0.6)),
    },
  })
  if (/ENOENT|Device not supported/.test(r.text) || r.timedOut) return skipped(`sanitizer: ${r.outcome}`)
  check(
    'sanitizer',
    'memcheck is clean',
    r.status === 0 && (imitated || /ERROR SUMMARY: 0 errors/.test(r.text)),
    r.status === 0 ? {} : { error: r.text.slice(-400) },
  )
}

/** The smallest budget of a strategy on a model. */
const smallest = async (model, strategy, seconds) =>
  (
    await spillway(
      `smallest ${baseOf(model[0])} ${strategy}`,
      ['plan', ...model, '--machine', 'cuda', '--strategy', strategy, '--budget', '2MiB', '--algorithms', 'fixed'],
      seconds,
    )
  ).json.error?.smallestBytes

const identity = async () => {
  for (const model of NETWORKS.identity) {
    const name = [baseOf(model[0]), ...model.slice(1)].filter((word) => !word.startsWith('--')).join(' ')
    let inCore
    const one = async (strategy) => {
      if (left() < 10) return skipped(`identity ${name} ${strategy}`)
      const least = inCore && (await smallest(model, strategy, 60))
      const budget = least && Math.floor((least + inCore.peakBytes) / 2 / 2 / MIB) * 2 * MIB
      const r = await train(
        `identity ${name} ${strategy}`,
        model,
        ['--strategy', strategy, '--algorithms', 'fixed', ...(budget ? ['--budget', String(budget)] : [])],
        5,
        90,
        APART,
      )
      const { weightsSha256, arenaPeakBytes, peakBytes, losses, bytesOut, recomputeSeconds, deviceMemory } = r.json
      inCore ??= r.json
      const same = r.ok && (strategy === 'tiled' || weightsSha256 === inCore.weightsSha256) && losses.every(Number.isFinite)
      // The driver counts tables of pages with the pool, in blocks of its own.
      const counted = !deviceMemory?.ofProcess || deviceMemory.poolBytes <= peakBytes + 32 * MIB
      const moved = { 'checkpoint:sqrt': recomputeSeconds > 0, 'swap:greedy': bytesOut > 0 }[strategy] ?? true
      const facts = { budget, peakBytes, arenaPeakBytes, deviceMemory, losses, bytesOut, recomputeSeconds, weightsSha256 }
      check(
        'identity',
        `${name} ${strategy}`,
        same && arenaPeakBytes === peakBytes && peakBytes <= (budget ?? Infinity) && counted && moved,
        { ...facts, ...(r.ok ? {} : { error: why(r) }) },
      )
    }
    await one('in-core')
    await each(['checkpoint:sqrt', 'swap:greedy', 'tiled'], one)
  }
}

/** Losses of another engine of the same network are near, within the rounding of a precision. */
const NEAR = { fp32: 1e-3, tf32: 1e-2, bf16: 5e-2 }

/** Every way of the products, not only the first: those that repeat give the same bits for any plan, all are near to the first. */
const ways = async () => {
  for (const model of NETWORKS.ways) {
    const name = [baseOf(model[0]), ...model.slice(1)].filter((word) => !word.startsWith('--')).join(' ')
    const precision = model[model.indexOf('--precision') + 1] ?? ''
    const near = NEAR[precision] ?? NEAR.fp32
    if (left() < 10) {
      skipped(`ways ${name}`)
      continue
    }
    const seconds = left() / (NETWORKS.ways.length - NETWORKS.ways.indexOf(model))
    const r = await run(`ways ${name}`, process.execPath, ['scripts/gpu/ways.js', '4', ...model], { seconds, env: APART })
    const lines = r.stdout.trim().split('\n').map(parsed).filter(Boolean)
    const [first] = lines
    if (r.timedOut) skipped(`ways ${name} beyond way ${lines.at(-1)?.way ?? 'none'} ${lines.at(-1)?.strategy ?? ''}`)
    for (const way of [...new Set(lines.map((l) => l.way))]) {
      const runs = lines.filter((l) => l.way === way)
      const isNear = (l) => l.losses?.every((x, i) => Math.abs(x - first.losses[i]) <= near * Math.abs(first.losses[i]))
      const holds = runs.every(
        (l) =>
          !l.error && isNear(l) && l.arenaPeakBytes === l.peakBytes && (!l.repeats || l.weightsSha256 === runs[0].weightsSha256),
      )
      check('ways', `${name} way ${way}`, holds, holds ? { runs: runs.length, calls: runs[0].calls } : { runs })
    }
    if (lines.length === 0) check('ways', name, false, { error: `${r.outcome} ${r.text.slice(-400)}` })
  }
}

/** Another process holds the card: that is refused in words, and the next run works. */
const faults = async () => {
  const cannot = imitated
    ? 'a rehearsal has no card'
    : result.torch === 'none'
      ? 'there is no PyTorch here to hold it'
      : undefined
  if (cannot) skipped(`faults: a card that another process holds: ${cannot}`)
  else await cardIsHeld(NETWORKS.faults)
  const after = await train('fault: after', NETWORKS.faults, [], 5, 60)
  check('faults', 'and the next run works', after.ok, after.ok ? {} : { error: why(after) })
}

const HOLDS_THE_CARD =
  "import torch, subprocess, sys; x = torch.empty(int(torch.cuda.mem_get_info()[0] * 0.995), dtype=torch.uint8, device='cuda'); sys.exit(subprocess.call(sys.argv[1:]))"
const cardIsHeld = async (model) => {
  const held = await run(
    'fault: memory',
    'python3',
    [
      '-c',
      HOLDS_THE_CARD,
      process.execPath,
      'dist/src/cli.js',
      'train',
      ...model,
      '--device',
      'cuda',
      '--budget',
      '8GiB',
      '--steps',
      '2',
      '--json',
    ],
    { seconds: 60 },
  )
  check(
    'faults',
    'no memory left is an error in words',
    held.status !== 0 && /memory/i.test(held.text) && !/core dumped/.test(held.text),
    { words: held.text.slice(-300), total: result.machine?.totalBytes },
  )
}

const carrierOf = async () => {
  const ask = "console.log(require('./dist/src/device/native').loadNative().carrier('cuda') ?? '')"
  const r = await run('ranks: carrier', process.execPath, ['-e', ask], { seconds: 60 })
  return r.status === 0 ? { name: r.stdout.trim() } : { error: r.text.slice(-300) }
}
const gpusHere = async () => {
  const r = await run('ranks: GPUs', 'nvidia-smi', ['-L'], { seconds: 30 })
  return r.status === 0 ? r.stdout.split('\n').filter((line) => line.startsWith('GPU ')).length : 1
}

/** NCCL: with one GPU a rank that sends to itself; with more, as many ranks twice, to the same bits. */
const ranks = async () => {
  const { name, error } = await carrierOf()
  if (!name) return skipped(`ranks: ${error ?? 'on this device the host carries'}`)
  const alone = await run('ranks: alone', process.execPath, ['scripts/gpu/alone.js'], {
    seconds: 90,
    env: { SPILLWAY_NCCL_ALONE: '1' },
  })
  check(
    'ranks',
    `${name}: one rank, which sends to itself`,
    alone.status === 0,
    parsed(alone.stdout) ?? { error: alone.text.slice(-400) },
  )
  const gpus = await gpusHere()
  if (gpus < 2) return skipped('ranks: several GPUs: there is one here')
  const among = () =>
    run(
      'ranks: several',
      'mpirun',
      [
        '--allow-run-as-root',
        '-n',
        String(gpus),
        process.execPath,
        'dist/src/cli.js',
        'train',
        ...NETWORKS.faults,
        '--batch',
        String(4 * gpus),
        '--device',
        'cuda',
        '--steps',
        '6',
        '--seed',
        '1',
        '--algorithms',
        'fixed',
        '--json',
      ],
      { seconds: 120 },
    )
  const told = [await among(), await among()]
  if (/ENOENT/.test(told[0].text)) return skipped('ranks: several GPUs: there is no mpirun here')
  const of = told.map((r) => parsed(r.stdout.slice(r.stdout.indexOf('{'))) ?? { error: r.text.slice(-400) })
  check(
    'ranks',
    `${gpus} GPUs, the same bits twice`,
    of.every((o) => o.ranks === gpus && o.weightsSha256 === of[0].weightsSha256),
    {
      runs: of.map(({ weightsSha256, commBytes, commSeconds, secondsPerStep, error: e }) => ({
        weightsSha256,
        commBytes,
        commSeconds,
        secondsPerStep,
        error: e,
      })),
    },
  )
}

/** PyTorch's modes so far: a line after each, so that one that takes too long costs itself alone. */
const peerOf = async (model, sizes, precision, steps, modes, seconds) => {
  const words = ['--model', baseOf(model), ...sizes, '--precision', precision, '--steps', String(steps), '--modes', modes]
  const { lines, outcome, log } = await pytorch.ask(words.join(' '), seconds)
  const answer = parsed(lines.at(-1) ?? '')
  const least = Math.min(...Object.values(answer?.modes ?? {}).map((m) => m.secondsPerStep ?? Infinity))
  return {
    answer: answer ?? { error: `${outcome} ${fs.existsSync(log) ? fs.readFileSync(log, 'utf8').slice(-400) : ''}` },
    seconds: Number.isFinite(least) ? least : undefined,
    peakBytes: answer?.modes?.eager?.peakBytes, // a graph has memory of its own, which is not counted when it runs
  }
}

/** A case without a peer is listed among the omissions; the reason is in its `peer`. */
const tellIfAlone = (name, peer) => {
  if (!peer?.seconds) skipped(`${name}: no time of PyTorch beside it`)
}

/** The mode that was quickest, to be asked again. */
const quickest = ({ modes = {} }) =>
  Object.keys(modes).reduce(
    (a, b) => ((modes[b].secondsPerStep ?? Infinity) < (modes[a]?.secondsPerStep ?? Infinity) ? b : a),
    'none',
  )

/** Seconds of the first turn of a case, mostly PyTorch's search for algorithms; of the second; of a plan for less memory, which measures calls. */
const CASE_SECONDS = imitated ? 10 : 28
const SECOND_TURN_SECONDS = 12
const LESS_SECONDS = 55

/** Our step and PyTorch's in turns, two of each where there is time, so that a slow minute meets both; PyTorch's best mode in its second. */
const versus = async (name, model, sizes, precision, steps, behind) => {
  const ours = (part) =>
    train(`${name} ${part}`, [model, ...sizes], ['--precision', precision, '--strategy', 'in-core', ...FIXED], steps, 60)
  const before = await ours('first')
  if (!before.ok) return check('incore', name, false, { error: why(before) })
  const peer = await peerOf(model, sizes, precision, steps, 'eager,graph', 60)
  const hasTime = left() > SECOND_TURN_SECONDS + CASE_SECONDS * behind
  const after = hasTime ? await ours('second') : undefined
  const again = hasTime && peer.seconds ? await peerOf(model, sizes, precision, steps, quickest(peer.answer), 60) : undefined
  const peerSeconds = peer.seconds && Math.min(peer.seconds, again?.seconds ?? Infinity)
  const best = Math.min(before.secondsPerStep, after?.secondsPerStep ?? Infinity)
  measured(name, {
    ...before.figures,
    secondsPerStep: best,
    predictedAfterSteps: after?.json.predictedSecondsPerStep,
    turns: { ours: [before.secondsPerStep, after?.secondsPerStep], peer: [peer.seconds, again?.seconds] },
    peerSecondsPerStep: peerSeconds,
    timeRatio: peerSeconds && best / peerSeconds,
    memoryRatio: peer.peakBytes && before.json.peakBytes / peer.peakBytes,
    peer: peer.answer,
  })
  tellIfAlone(name, peer)
  plotSteps(path.join(out, `${fileName(name)}.svg`), name, before.seconds, peerSeconds)
  return { peerSeconds, peerBytes: peer.peakBytes }
}

/** The share of PyTorch's memory that ours is to need. */
const LESS = 0.6

/** The same step in a fraction of PyTorch's memory, by the best plan. */
const inLess = async (name, model, sizes, precision, steps, { peerSeconds, peerBytes }) => {
  const budget = Math.floor((LESS * peerBytes) / 2 / MIB) * 2 * MIB
  const r = await stagedRun(
    `${name} in ${LESS} of its memory`,
    [model, ...sizes],
    ['--budget', String(budget), '--precision', precision, ...MEASURED],
    steps,
    90,
  )
  measured(`${name} in ${LESS} of PyTorch's memory`, {
    budget,
    ...r.figures,
    peerSecondsPerStep: peerSeconds,
    lessRatio: r.secondsPerStep && r.secondsPerStep / peerSeconds,
  })
}

const inCore = async (networks) => {
  for (const [i, [model, batch, image, precision, steps, less]] of networks.entries()) {
    const name = `${baseOf(model)} b${batch}@${image} ${precision}`
    if (left() < CASE_SECONDS) {
      skipped(`incore ${name}`)
      continue
    }
    const sizes = ['--batch', String(batch), '--image', String(image)]
    const peer = await versus(name, model, sizes, precision, steps, networks.length - 1 - i)
    if (less && peer?.peerBytes && left() > LESS_SECONDS + CASE_SECONDS * (networks.length - 1 - i))
      await inLess(name, model, sizes, precision, steps, peer)
    const ratios = result.cases.map((c) => c.timeRatio).filter(Number.isFinite)
    result.worstTimeRatio = ratios.length ? Math.max(...ratios) : null
  }
}

const incore = () => inCore(NETWORKS.incore)
const incoremore = () => inCore(NETWORKS.incoremore)

/** Planning measures for half of it; pinning tens of gigabytes and drawing a thousand images takes most of the rest. */
const BEYOND_SECONDS = imitated ? 20 : 90

/** Paper 1 on this card: batches beyond the in-core size of a budget. */
const outofcore = async () => {
  const { model, image, budget: budgetOf, batches, precision, steps, beyond } = NETWORKS.outofcore
  const sized = (batch) => [model, '--batch', String(batch), '--image', String(image)]
  const name = (batch, strategy) => `${baseOf(model)} ${precision} ${strategy} b${batch}`
  const [few, more] = batches
  const small = await smallest(sized(few), 'in-core', 60),
    large = await smallest(sized(more), 'in-core', 60)
  if (!small || !large) return check('outofcore', 'in-core sizes', false)
  const budget = budgetOf(small, large)
  const at = (batch, strategy) =>
    stagedRun(
      name(batch, strategy),
      sized(batch),
      ['--budget', String(budget), '--strategy', strategy, '--precision', precision, ...MEASURED],
      steps,
      100,
    )
  const fits = Math.floor((few + ((budget - small) * (more - few)) / (large - small)) * 0.98)
  const inCore = await at(fits, 'in-core')
  const best = inCore.ok ? fits / inCore.secondsPerStep : undefined
  measured(name(fits, 'in-core'), { imagesPerSecond: best, ...inCore.figures })
  const shares = []
  for (const [factor, strategy] of beyond) {
    if (left() < BEYOND_SECONDS) {
      skipped(`outofcore ${factor} ${strategy}`)
      continue
    }
    const batch = Math.floor(fits * factor)
    const r = await at(batch, strategy)
    const rate = r.ok ? batch / r.secondsPerStep : undefined
    if (strategy === 'auto' && rate && best) shares.push(rate / best)
    result.outOfCoreShare = shares.length ? Math.min(...shares) : null
    measured(name(batch, strategy), { imagesPerSecond: rate, share: rate && best && rate / best, ...r.figures })
  }
}

const LARGE_SECONDS = imitated ? 20 : 60

/** Paper 3: large images in a small budget, beside the same network on an image that is held in-core: the share of its pixels a second. */
const large = async () => {
  const { cases, held, budget } = NETWORKS.large
  const rates = {}
  const rateOf = async (model, batch, image, options) => {
    const sizes = ['--batch', String(batch), '--image', String(image)]
    const name = `${baseOf(model)} b${batch}@${image} tf32`
    const r = await stagedRun(name, [model, ...sizes], ['--precision', 'tf32', ...options], STEADY + 2, 150)
    return { name, r, pixels: r.ok ? (batch * image * image) / r.secondsPerStep : undefined }
  }
  for (const [model, batch, image, strategy] of cases) {
    if (left() < LARGE_SECONDS) {
      skipped(`large ${baseOf(model)} b${batch}@${image}`)
      continue
    }
    if (!(model in rates)) {
      const { name, r, pixels } = await rateOf(model, batch, held, ['--strategy', 'in-core', ...FIXED])
      rates[model] = pixels
      measured(`${name} in-core`, { pixelsPerSecond: pixels, ...r.figures })
    }
    const { name, r, pixels } = await rateOf(model, batch, image, [
      '--budget',
      String(budget),
      '--strategy',
      strategy,
      ...MEASURED,
    ])
    measured(`${name} in ${budget / MIB} MiB`, {
      pixelsPerSecond: pixels,
      largeShare: pixels && rates[model] && pixels / rates[model],
      ...r.figures,
    })
  }
}

const USUAL = { conformance, identity, ways, faults, ranks, sanitizer, incore, incoremore, outofcore, large }
const SECTIONS = {
  ...USUAL,
  ...proof({
    ...{ imitated, out, small: SMALL, left, run, planOf, train, smallest },
    ...{ check, measured, skipped, peerOf, lowerTier: LOWER_TIER, apart: APART },
  }),
}

const main = async () => {
  const names = wanted.length > 0 ? wanted : Object.keys(USUAL)
  const unknown = names.filter((n) => !SECTIONS[n])
  if (unknown.length > 0) {
    console.error(
      `no section ${unknown.join(', ')}; there are: ${[...Object.keys(SECTIONS), ...Object.keys(ALIASES)].join(', ')}`,
    )
    process.exit(2)
  }
  result.torch = (() => {
    try {
      return execFileSync('python3', ['-c', 'import torch; print(torch.__version__, torch.backends.cudnn.version())'], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'ignore'],
        timeout: 60_000,
      }).trim()
    } catch {
      return 'none'
    }
  })()
  for (const [i, name] of names.entries()) {
    if (deadline - now() < 5) {
      skipped(name)
      continue
    }
    const rest = names.slice(i).reduce((n, other) => n + WANTED[other], 0)
    const began = now()
    const given = ((deadline - began) * WANTED[name]) / rest
    sectionEnd = began + given
    const before = result.skipped.length
    console.log(`section ${name}: ${Math.round(given)} s, and it wants ${WANTED[name]}`)
    try {
      await SECTIONS[name]()
    } catch (e) {
      check(name, 'ran to its end', false, { error: String(e?.stack ?? e) })
    }
    const took = Math.round(now() - began)
    result.sectionSeconds[name] = took
    result.sections[name] = { wanted: WANTED[name], given: Math.round(given), took, skipped: result.skipped.slice(before) }
    save()
  }
  save()
  pytorch.end()
  const failed = result.checks.filter((c) => !c.holds).length
  console.log(
    `${result.checks.length - failed} passed, ${failed} failed; skipped: ${result.skipped.join(', ') || 'nothing'}; seconds: ${JSON.stringify(result.sectionSeconds)}`,
  )
  process.exitCode = failed > 0 ? 1 : 0
}

main()
