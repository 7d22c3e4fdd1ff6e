// Traps of oneDNN that no comparison of numbers shows: implementations that are a thousand times too slow, scratch that is many times the
// convolution's operands, memory in small pages. Wrong numbers are among the cases of test/native/kernels.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { release } from 'node:os'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { hasBf16 } from '../../src/machine/machine'
import { nativeCall } from '../../src/machine/operands'
import { loadNative } from '../../src/device/native'
import { elementsOf } from '../../staging/core/box'
import { classifierTape } from './tapes'
import { gateTest } from '../full'

const native = loadNative()
const loader = join(__dirname, '../../scripts/testing/typescript.js')

gateTest('no convolution runs a reference implementation', () => {
  const said = execFileSync(process.execPath, ['-r', loader, join(__dirname, 'convolution-calls.ts')], {
    encoding: 'utf8',
    env: { ...process.env, DNNL_VERBOSE: '1' },
    maxBuffer: 2 ** 28,
  })
  const executed = said
    .split('\n')
    // oneDNN 3 says more before it, from 3.3 on.
    .flatMap((line) => /_verbose,(?:.*,)?exec,cpu,(.*)$/.exec(line)?.[1] ?? [])
    .map((line) => line.split(','))
  const convolutions = executed.filter(([kind]) => kind === 'convolution')
  assert.ok(new Set(convolutions.map((f) => f[2])).size === 3, 'all three directions are said to have run')
  assert.equal([...new Set(executed.filter((f) => /ref/.test(f[1]!)).map((f) => f.slice(0, 4).join()))], [])
})

const scratchOf = (way: string, dilation: number, bf16: boolean): { readonly scratch: number; readonly operands: number } => {
  const attrs = {
    strideH: 1,
    strideW: 1,
    padTop: dilation,
    padLeft: dilation,
    padBottom: dilation,
    padRight: dilation,
    dilationH: dilation,
    dilationW: dilation,
    groups: 1,
  }
  const [x, w] = [
    [2, 512, 32, 32],
    [256, 512, 3, 3],
  ]
  const y = [2, 256, 32, 32]
  const c = nativeCall('conv2d_bwd_weights', attrs, { ins: [x, y], outs: [w], ...(bf16 ? { half: 'bf16' as const } : {}) }, 'f32')
  return {
    scratch: native.ways({ device: 'cpu', ...c }).find((w) => w.name === way)!.workspace,
    operands: 4 * elementsOf(w) + (bf16 ? 2 : 4) * (elementsOf(x) + elementsOf(y)),
  }
}

test('a dilated weight gradient has an algorithm with scratch below twice its operands', () => {
  for (const bf16 of hasBf16(native, 'cpu') ? [false, true] : [false])
    for (const dilation of [12, 24, 36]) {
      const { scratch, operands } = scratchOf('taps', dilation, bf16)
      assert.ok(
        scratch >= 0 && scratch < 2 * operands,
        `dilation ${dilation}${bf16 ? ' in bf16' : ''}: ${scratch} of ${operands}`,
      )
    }
})

/** Linux collapses pages of a memory file since 6.1. */
const collapses = (): boolean => {
  const [major = 0, minor = 0] = release().split('.').map(Number)
  return (major > 6 || (major === 6 && minor >= 1)) && existsSync('/sys/kernel/mm/transparent_hugepage/shmem_enabled')
}
const hugeBytesOfPool = (): number => {
  const pool = readFileSync('/proc/self/smaps', 'utf8')
    .split(/\n(?=[0-9a-f]+-)/)
    .filter((m) => m.includes('memfd:spillway-pool'))
  return pool.reduce((n, m) => n + Number(/^ShmemPmdMapped:\s+(\d+) kB/m.exec(m)?.[1] ?? 0) * 1024, 0)
}

test('the pool uses huge pages if the system can collapse them', () => {
  if (!collapses()) return
  const session = new native.Session(classifierTape(), { device: 'cpu' })
  assert.ok(hugeBytesOfPool() >= session.facts().peakBytes / 2, `${hugeBytesOfPool()} of ${session.facts().peakBytes}`)
  session.dispose()
})

test.run()
