// `node scripts/cuda/occupancy.js`: the compiler's facts of the own kernels, without a GPU: registers, shared memory and spills of each, and the
// warps of a multiprocessor that they fill. In: this checkout, nvcc, the headers of cuDNN and cuBLAS. Out: bench/results/cuda-occupancy.json, for
// each architecture a row for each operator (and stored type) with its worst kernel; exit code 0 if none spills much, and none outside ALLOWED, which
// has reasons, fills less than half.
'use strict'
const { spawnSync } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const { includes, nvcc } = require('./toolkit')

const ROOT = path.join(__dirname, '..', '..')
const RESULT = path.join(ROOT, 'bench', 'results', 'cuda-occupancy.json')
const LEAST_SHARE = 0.5
const BLOCK_WARPS = 8

/** Limits of a multiprocessor, from the CUDA programming guide: warps, blocks, registers, bytes of shared memory. The system takes `kept` bytes
 * per block. A warp receives registers in units of 256. */
const CHIPS = {
  75: { warps: 32, blocks: 16, registers: 65536, shared: 64 * 1024, kept: 0 },
  80: { warps: 64, blocks: 32, registers: 65536, shared: 164 * 1024, kept: 1024 },
  90: { warps: 64, blocks: 32, registers: 65536, shared: 228 * 1024, kept: 1024 },
}

/** Kernels that fill less, or spill up to `spilled` bytes, by row and architecture, and the reason. */
const ALLOWED = [
  {
    row: /^(?:GradientOfParts|joined_norm_bwd_reduce)\b/,
    chips: ['80', '90'],
    why: 'an item has the coefficients of its channels, the place of their part, and four reads of each operand in registers',
  },
  {
    row: /^SumOfWindows\b/,
    chips: ['80', '90'],
    why: 'an item looks at all windows that reach a pixel for 16 bytes of channels, in max_pool_bwd at all pixels of each',
  },
  { row: /^upsample\b/, chips: ['80', '90'], why: 'an item computes places and weights of four pixels in double' },
  { row: /^attend/, chips: ['75', '80', '90'], spilled: 512, why: 'an item has rows of a head in registers' },
]
/** Bytes that a thread stores and reads again: the compiler itself takes a few for the sake of more blocks. */
const MOST_SPILLED = 64

const run = (program, args) => {
  const r = spawnSync(program, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 2 ** 28 })
  if (r.status !== 0) {
    console.error(`${program} ${args.join(' ')}\n${`${r.stdout ?? ''}${r.stderr ?? r.error}`.slice(-3000)}`)
    process.exit(1)
  }
  return `${r.stdout}${r.stderr}`
}

/** The output of ptxas for each kernel, when it compiles for `chip`. `read`, if given, receives the path of the compiled code first. */
const compiled = (chip, read = () => {}) => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'spillway-occupancy-'))
  try {
    const found = includes()
    const headers = [found.cudnn, found.cublas].flatMap((at) => ['-isystem', at])
    const flags = ['-O3', '-std=c++17', '--extended-lambda', '--expt-relaxed-constexpr', '-Xcudafe=--diag_suppress=1675', '-w']
    const told = run(nvcc(), [
      ...['-cubin', `-arch=sm_${chip}`, '-Xptxas=-v', ...flags, '-Inative', ...headers],
      ...['-o', path.join(folder, 'kernels.cubin'), 'native/cuda/own_kernels.cu'],
    ])
    read(path.join(folder, 'kernels.cubin'))
    return [...told.matchAll(/Compiling entry function '(\w+)'[\s\S]*?Used (\d+) registers.*/g)].map(
      ([text, name, registers]) => ({
        name,
        registers: Number(registers),
        shared: Number(/(\d+) bytes smem/.exec(text)?.[1] ?? 0),
        stack: Number(/(\d+) bytes stack frame/.exec(text)?.[1] ?? 0),
        spilled: Number(/(\d+) bytes spill stores/.exec(text)?.[1] ?? 0) + Number(/(\d+) bytes spill loads/.exec(text)?.[1] ?? 0),
      }),
    )
  } finally {
    fs.rmSync(folder, { recursive: true })
  }
}

const demangled = (names) =>
  spawnSync('c++filt', { input: names.join('\n'), encoding: 'utf8', maxBuffer: 2 ** 28 }).stdout.split('\n')

/** The share of a multiprocessor's warps that kernels of 256 threads fill. */
const occupancy = (of, { registers, shared }) => {
  const ofWarp = Math.ceil((registers * 32) / 256) * 256
  const byRegisters = Math.floor(Math.floor(of.registers / ofWarp) / BLOCK_WARPS)
  const byShared = shared === 0 ? of.blocks : Math.floor(of.shared / (Math.ceil(shared / 128) * 128 + of.kept))
  const blocks = Math.min(of.blocks, Math.floor(of.warps / BLOCK_WARPS), byRegisters, byShared)
  return (blocks * BLOCK_WARPS) / of.warps
}

const kinds = () => {
  const text = fs.readFileSync(path.join(ROOT, 'native', 'gen', 'ops.h'), 'utf8')
  return new Map([...text.matchAll(/X\((\w+), (\d+)\)/g)].map(([, name, wire]) => [wire, name]))
}

/** The operator (or its part) and the stored type of a kernel: its name contains the launcher. */
const rowOf = (name, names) => {
  const kind = names.get(/\(spillway::OpKind\)(\d+)/.exec(name)?.[1])
  const plain = name.replace(/spillway::(?:cuda::|ops::)?|\(anonymous namespace\)::/g, '')
  const parts =
    /(?:each_by_channels|ByChannels|each_lanes|sum_columns|ColumnSums)<(?:float, |StoredBf16, )?(?:\d+, )*(?:GpuExec, )?(\w+)<\w+(?:, \d+)?(?:, (\w+))?/
      .exec(plain)
      ?.slice(1)
  const of = kind ?? (parts ? parts.filter(Boolean).join(' ') : /run_\w+<(\w+)/.exec(plain)?.[1]) ?? plain.slice(0, 60)
  return `${of}${/StoredBf16/.test(name) ? ' bf16' : ''}`
}

const measured = (chip, names) => {
  const kernels = compiled(chip)
  const plain = demangled(kernels.map((k) => k.name))
  const rows = new Map()
  kernels.forEach((k, i) => {
    const row = rowOf(plain[i], names)
    const before = rows.get(row) ?? { kernels: 0, registers: 0, shared: 0, stack: 0, spilled: 0, occupancy: 1 }
    rows.set(row, {
      kernels: before.kernels + 1,
      registers: Math.max(before.registers, k.registers),
      shared: Math.max(before.shared, k.shared),
      stack: Math.max(before.stack, k.stack),
      spilled: Math.max(before.spilled, k.spilled),
      occupancy: Math.min(before.occupancy, occupancy(CHIPS[chip], k)),
    })
  })
  return Object.fromEntries([...rows].sort(([a], [b]) => (a < b ? -1 : 1)))
}

const main = () => {
  const names = kinds()
  const chips = {}
  let wrong = 0
  for (const chip of Object.keys(CHIPS)) {
    const rows = measured(chip, names)
    chips[`sm_${chip}`] = rows
    const all = Object.entries(rows)
    console.log(
      `sm_${chip}: ${all.reduce((n, [, r]) => n + r.kernels, 0)} kernels, ${all.filter(([, r]) => r.occupancy === 1).length} of ${all.length} rows fill it`,
    )
    for (const [row, r] of all) {
      const allowed = ALLOWED.find((a) => a.chips.includes(chip) && a.row.test(row))
      const reason = allowed?.why
      const bad = r.spilled > (allowed?.spilled ?? MOST_SPILLED) || (r.occupancy < LEAST_SHARE && !reason)
      if (bad) wrong++
      if (bad || r.spilled > 0 || (reason && r.occupancy < LEAST_SHARE))
        console.log(
          `  ${bad ? 'BAD ' : ''}${row}: ${r.registers} registers, ${r.shared} B shared, ${r.stack} B stack, ${r.spilled} B spilled, ${r.occupancy}${reason ? `: ${reason}` : ''}`,
        )
    }
  }
  const version = /release [\d.]+, (V[\d.]+)/.exec(run(nvcc(), ['--version']))?.[1]
  fs.writeFileSync(
    RESULT,
    `${JSON.stringify({ compiler: `nvcc ${version}`, allowed: ALLOWED.map(({ row, chips: on, why }) => ({ row: String(row), chips: on, why })), chips }, null, 2)}\n`,
  )
  process.exitCode = wrong > 0 ? 1 : 0
}

module.exports = { compiled, demangled, kinds, rowOf }
if (require.main === module) main()
