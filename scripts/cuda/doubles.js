// `node scripts/cuda/doubles.js`: the FP64 instructions of the norm kernels in the compiled code, without a GPU. Most GPUs have one FP64 unit for
// 64 FP32 units. In: this checkout, nvcc, nvdisasm (of the toolkit, on PATH, or of Python's triton), the headers of cuDNN and cuBLAS. Out:
// bench/results/cuda-doubles.json, a row for each kernel, stored type and access width; exit code 0 if no row is above its ceiling.
// A loop is a backward branch of the code. Worked example: 16 terms of 8 channels end in 32 instructions: 32 / (16 · 8) = 0.25 an element.
'use strict'
const { execFileSync } = require('node:child_process')
const fs = require('node:fs')
const path = require('node:path')
const { compiled, demangled, kinds, rowOf } = require('./occupancy')
const { nvcc } = require('./toolkit')

const ROOT = path.join(__dirname, '..', '..')
const RESULT = path.join(ROOT, 'bench', 'results', 'cuda-doubles.json')
const CHIP = '90'

/** Kernels that read or write each element of an activation for a norm, by row of the occupancy table. */
const NORMS =
  /^(?:bn_stats|masked|GradientTerm|joined_norm_bwd_reduce|GroupMomentTerm|group_norm_bwd_reduce|GroupGradientTerm|MapByChannel|MapByImage|NormOfParts|GradientOfParts|ResidualSum|ResidualGradient|LayerNorm|LayerNormGradient|PutMoments|layer_norm_bwd_weights|SumTerm)\b/

/** Most FP64 instructions for an element, and in the code that a thread runs once. */
const CEILINGS = { element: 0.25, once: 140 }
/** Terms of a short sum in float, as in native/cuda/kernels/sums.hpp. */
const RUN_TERMS = 16

/** nvdisasm, or null. */
const disassembler = () => {
  const python = "import importlib.util as u; s = u.find_spec('triton'); print(s.submodule_search_locations[0] if s else '')"
  const triton = () => {
    try {
      return execFileSync('python3', ['-c', python], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
    } catch {
      return ''
    }
  }
  const toolkit = nvcc()
  const folders = [
    ...(toolkit ? [path.dirname(toolkit)] : []),
    ...(process.env.PATH ?? '').split(':').filter(Boolean),
    path.join(triton(), 'backends', 'nvidia', 'bin'),
  ]
  const folder = folders.find((at) => fs.existsSync(path.join(at, 'nvdisasm')))
  return folder ? path.join(folder, 'nvdisasm') : null
}

/** Why the compiled code cannot be read here; null if it can. */
const missingTool = () => {
  if (!nvcc()) return 'nvcc is missing'
  return disassembler() ? null : 'nvdisasm is missing'
}

const IS_DOUBLE = /^(?:DADD|DMUL|DFMA|DSETP|DMNMX|MUFU\.\w*64\w*|[FI]2[FI]\.[\w.]*64[\w.]*)\b/

/** The instructions of each function, and its loops as pairs of indexes: the first instruction and the branch back to it. */
const functionsOf = (text) =>
  text
    .split(/^\.text\./m)
    .slice(1)
    .map((part) => {
      const name = part.slice(0, part.indexOf(':'))
      const labels = new Map()
      const code = []
      for (const line of part.split('\n')) {
        const label = /^\s*(\.L_x_\d+):/.exec(line)?.[1]
        if (label) labels.set(label, code.length)
        const words = /^\s+\/\*[0-9a-f]{4,}\*\/\s+(?:@!?U?P\w+ )?\s*(.*?) *;/.exec(line)?.[1]
        if (words) code.push(words)
      }
      const loops = code.flatMap((words, i) => {
        const target = labels.get(/^BRA\b.*`\((\.L_x_\d+)\)/.exec(words)?.[1])
        return target !== undefined && target < i ? [{ from: target, to: i }] : []
      })
      return { name, code, loops }
    })

const count = (code, test) => code.filter((words) => test.test(words)).length
const within = (inner, outer) => inner !== outer && inner.from >= outer.from && inner.to <= outer.to

/**
 * FP64 instructions of a kernel: for an element, in loops over elements, and in all other code, which a thread runs once. A loop around the innermost
 * one ends a run of RUN_TERMS terms. `lanes`: elements of an access; `operands`: accesses of a term; `isSum`: later loops add up sums, not elements.
 */
const doublesOf = ({ code, loops }, { lanes, operands, isSum }) => {
  const inside = (l, test) => count(code.slice(l.from, l.to + 1), test)
  const reading = loops.filter((l) => inside(l, /^LDG\b/) > 0)
  const outermost = reading.filter((l) => !reading.some((other) => within(l, other))).sort((a, b) => a.from - b.from)
  const over = isSum ? outermost.slice(0, 1) : outermost
  const element = over.reduce((sum, l) => {
    const nested = reading.filter((other) => within(other, l))
    const innermost = nested.length === 0 ? [l] : nested.filter((n) => !nested.some((other) => within(other, n)))
    const each = innermost.map((n) => inside(n, IS_DOUBLE) / ((inside(n, /^LDG\b/) / operands) * lanes))
    const rest = inside(l, IS_DOUBLE) - innermost.reduce((n, i) => n + inside(i, IS_DOUBLE), 0)
    return sum + Math.max(...each) + rest / (RUN_TERMS * lanes)
  }, 0)
  const once = count(code, IS_DOUBLE) - over.reduce((n, l) => n + inside(l, IS_DOUBLE), 0)
  return { element: Number(element.toFixed(3)), once }
}

const operandsOf = (row) =>
  /Residual(?:Gate|Gradient)/.test(row)
    ? 3
    : /Gradient|bwd|ResidualSum|OfParts/.test(row) && !/NormOfParts|LayerNorm|Frozen/.test(row)
      ? 2
      : 1

/** Elements of an access, from the name of a kernel. */
const lanesOf = (name) => {
  const step = /ResidualSum<\w+, (\d+)>/.exec(name) ?? /(?:LayerNorm|LayerNormGradient|PutMoments)<[\w:]+, (\d+)>/.exec(name)
  return Number((step ?? /ColumnSums<\d+, (\d+)/.exec(name) ?? /ByChannels<(\d+)/.exec(name))?.[1] ?? 1)
}

/** The rows of the compiled code for CHIP. */
const measured = () => {
  const names = kinds()
  let text = ''
  compiled(CHIP, (file) => {
    text = execFileSync(disassembler(), ['-c', file], { encoding: 'utf8', maxBuffer: 2 ** 30 })
  })
  return rowsOf(functionsOf(text), names)
}

const rowsOf = (functions, names) => {
  const plain = demangled(functions.map((f) => f.name))
  const rows = functions.flatMap((f, i) => {
    const name = plain[i].replace(/spillway::(?:cuda::|ops::)?/g, '')
    const row = rowOf(plain[i], names)
    // The gradient of few channels is in double on purpose (native/cuda/kernels/layernorm.hpp).
    if (!NORMS.test(row) || !/run_phases</.test(name) || /LayerNormGradient<[^>]*double/.test(name)) return []
    const [lanes, isSum] = [lanesOf(name), /ColumnSums</.test(name)]
    return [[`${row} x${lanes}`, doublesOf(f, { lanes, operands: operandsOf(row), isSum })]]
  })
  const worst = new Map()
  for (const [row, { element, once }] of rows) {
    const before = worst.get(row) ?? { element: 0, once: 0 }
    worst.set(row, { element: Math.max(before.element, element), once: Math.max(before.once, once) })
  }
  return Object.fromEntries([...worst].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Rows above their ceiling, as sentences. */
const above = (rows) =>
  Object.entries(rows).flatMap(([row, r]) =>
    Object.entries(CEILINGS)
      .filter(([key, most]) => r[key] > most)
      .map(([key, most]) => `${row}: ${r[key]} FP64 instructions (${key}); allowed: ${most}`),
  )

const main = () => {
  const why = missingTool()
  if (why) {
    console.error(`skipped: ${why}`)
    return
  }
  const rows = measured()
  for (const [row, { element, once }] of Object.entries(rows)) console.log(`${row}: ${element} an element, ${once} once a thread`)
  const wrong = above(rows)
  for (const words of wrong) console.error(words)
  fs.writeFileSync(RESULT, `${JSON.stringify({ chip: `sm_${CHIP}`, ceilings: CEILINGS, rows }, null, 2)}\n`)
  process.exitCode = wrong.length > 0 ? 1 : 0
}

module.exports = { CEILINGS, RESULT, above, doublesOf, functionsOf, measured, missingTool, rowsOf }
if (require.main === module) main()
