// gate
// own process
// timeout 900
// Identity in every way that products have, as a GPU box is asked for it (scripts/gpu/ways.js), on the imitated CUDA: the ways that repeat
// give the same bits in-core, recomputed and swapped, by captured graphs or without them; all are near to the first; one convolution has no
// engine and runs on an own kernel. With SPILLWAY_FULL=1 all ways in three precisions, else two in fp32. Skipped in words where the headers
// of CUDA, cuDNN and cuBLAS are not.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { FULL, fewOrAll } from '../full'

// Before the cache is another one: it has the headers.
const { nativeLibrary } = require('../../scripts/testing/native') as {
  readonly nativeLibrary: (root: string, target: string) => Promise<string | null>
}
const ROOT = join(__dirname, '..', '..')
const root = mkdtempSync(join(tmpdir(), 'spillway-cuda-ways-'))
test.after(() => rmSync(root, { recursive: true }))

interface Line {
  readonly way: number
  readonly strategy: string
  readonly repeats: boolean
  readonly error?: string
  readonly losses: readonly number[]
  readonly weightsSha256: string
  readonly peakBytes: number
  readonly arenaPeakBytes: number
  readonly ownKernels: { readonly calls: number; readonly of: number }
  readonly withoutGraphs?: string
}

/** The first two steps run call by call, then there is a graph for each of two input buffers. */
const STEPS = '4'
const SIDE = '12'
const NEAR = { fp32: 1e-4, tf32: 1e-2, bf16: 5e-2 } as const

const ran = (
  library: string,
  precision: keyof typeof NEAR,
  ways: string,
  more: Readonly<Record<string, string>> = {},
): readonly Line[] => {
  const args = ['scripts/gpu/ways.js', STEPS, 'scripts/gpu/small.js', '--image', SIDE, '--precision', precision, '--ways', ways]
  const env = { ...process.env, SPILLWAY_CUDA: library, XDG_CACHE_HOME: join(root, precision), ...more }
  const { stdout, stderr } = spawnSync(process.execPath, args, { cwd: ROOT, encoding: 'utf8', env })
  assert.ok(stdout.length > 0, stderr)
  return stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line)
}

const holds = (lines: readonly Line[], precision: keyof typeof NEAR): void => {
  const [first] = lines
  for (const l of lines) {
    assert.ok(!l.error, JSON.stringify(l))
    assert.is(l.arenaPeakBytes, l.peakBytes)
    assert.ok(l.ownKernels.calls > 0 && l.ownKernels.of > l.ownKernels.calls, JSON.stringify(l.ownKernels))
    l.losses.forEach((x, i) =>
      assert.ok(Math.abs(x - first!.losses[i]!) <= NEAR[precision] * Math.abs(first!.losses[i]!), JSON.stringify(l)),
    )
    if (l.repeats) assert.is(l.weightsSha256, lines.find((other) => other.way === l.way)!.weightsSha256, `${l.way} ${l.strategy}`)
  }
}

const main = async (): Promise<void> => {
  const library = await nativeLibrary(ROOT, 'spillway_host_cuda')
  if (library === null) test('skipped: the headers of CUDA, cuDNN and cuBLAS are not here', () => undefined)
  else {
    let byGraphs: Line | undefined
    for (const precision of fewOrAll(['fp32'] as const, ['tf32', 'bf16', 'fp32'] as const))
      test(`every way in ${precision}, whatever the plan`, () => {
        const lines = ran(library, precision, FULL ? '0,1,2,3,16,17,18' : '0,16')
        holds(lines, precision)
        byGraphs = lines[0]
        assert.ok(lines.length >= 6 && lines.every((l) => l.withoutGraphs === undefined), JSON.stringify(lines))
      })
    test('the same bits without graphs', () => {
      const without = ran(library, 'fp32', '0', { SPILLWAY_GRAPHS: 'off' })
      holds(without, 'fp32')
      assert.match(without[0]!.withoutGraphs!, /SPILLWAY_GRAPHS=off/)
      byGraphs ??= ran(library, 'fp32', '0')[0]! // a pattern may select this test alone
      assert.is(without[0]!.weightsSha256, byGraphs.weightsSha256)
    })
  }
  test.run()
}
main()
