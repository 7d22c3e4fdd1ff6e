// own process
// The cuda device's own sources on an imitated GPU of compute capability 7.5: it trains in fp32, the default there, and refuses other precisions in
// words. On one of 9.0 the default is tf32. Skipped in words where the headers of CUDA, cuDNN and cuBLAS are not.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { conv2d, model, relu, seq } from '../../dsl'
import { errorText } from '../../src/errors/errors'
import { loadNative } from '../../src/device/native'
import { openMachine } from '../../src/cli/phases'
import { machineNamed } from '../../src/machine/machine'
import { enginesOf } from '../../src/machine/ownkernels'
import { precisionOf } from '../../staging/plan/plan'
import { staged, trained } from './runs'

const { nativeLibrary } = require('../../scripts/testing/native') as {
  readonly nativeLibrary: (root: string, target: string) => Promise<string | null>
}
const ROOT = join(__dirname, '..', '..')
const root = mkdtempSync(join(tmpdir(), 'spillway-turing-'))
test.after(() => rmSync(root, { recursive: true }))
const net = model([2, 3, 12, 12], seq(conv2d('a', 8, 3), relu(), conv2d('b', 4, 1)))

const capability = (value: string): void => {
  process.env.SPILLWAY_HOST_CUDA_CAPABILITY = value
}

const refused = (precision: 'tf32' | 'bf16'): string => {
  const found = machineNamed('cuda', { precision })
  return isLeft(found) ? errorText(found.left) : ''
}

const tests = (): void => {
  // The process keeps one context for single calls: it opens with the first plan.
  capability('90')
  const on = (precision: 'tf32' | 'bf16') => staged(net, { machine: 'cuda', strategy: 'in-core', algorithms: 'fixed', precision })
  const ofHopper = { tf32: on('tf32'), bf16: on('bf16') }

  test('a GPU of 7.5 trains in fp32 by default, near to the ref device', async () => {
    capability('75')
    const plan = staged(net, { machine: 'cuda', strategy: 'in-core', algorithms: 'fixed' })
    assert.is(precisionOf(plan.plan), 'fp32')
    const { losses } = await trained(net, plan, { steps: 2 })
    const expected = await trained(net, staged(net, { machine: 'ref', strategy: 'in-core' }), { steps: 2 })
    losses.forEach((l, i) => assert.ok(Math.abs(l - expected.losses[i]!) <= 1e-5 * expected.losses[i]!, `${losses}`))
  })

  test('other precisions are refused before planning, and by the plugin', async () => {
    capability('75')
    for (const precision of ['tf32', 'bf16'] as const)
      assert.match(
        refused(precision),
        new RegExp(
          `precision '${precision}' is not allowed on machine 'cuda': this GPU has no ${precision} products; allowed: fp32`,
        ),
      )
    for (const [precision, plan] of Object.entries(ofHopper))
      await trained(net, plan, { steps: 1 }).then(
        () => assert.unreachable(precision),
        (e: Error) =>
          assert.match(e.message, new RegExp(`compute capability 7\\.5 has no ${precision} products: use fp16 or fp32`)),
      )
  })

  test('commands state the default precision in one line, and only the default', () => {
    const said = (precision?: 'fp32' | 'bf16'): string => {
      const { write } = process.stderr
      let text = ''
      process.stderr.write = ((part: string) => {
        text += part
        return true
      }) as typeof write
      try {
        assert.ok(isRight(openMachine('cuda', { algorithms: 'fixed', precision })))
      } finally {
        process.stderr.write = write
      }
      return text
    }
    capability('90')
    assert.match(said(), /^note: precision is tf32, as in PyTorch: [^\n]*--precision bf16 halves the memory of activations\n$/)
    assert.equal([said('fp32'), said('bf16')], ['', ''])
    capability('75')
    assert.match(
      said(),
      /^note: precision is fp32: this GPU has no tf32 or bf16 products; --precision fp16 uses its tensor cores\n$/,
    )
  })

  test('the doctor asks for engines in the precisions of the GPU', () => {
    capability('75')
    assert.equal(enginesOf(loadNative()), { asked: 6, own: [] })
    capability('90')
    assert.equal(enginesOf(loadNative()), { asked: 12, own: [] })
  })

  test('a GPU of capability 9.0 computes in tf32 by default, and in the other precisions by option', () => {
    capability('90')
    const found = machineNamed('cuda', { algorithms: 'fixed' })
    assert.ok(isRight(found) && found.right.precision === 'tf32')
    for (const precision of ['fp32', 'bf16'] as const) {
      const other = machineNamed('cuda', { algorithms: 'fixed', precision })
      assert.ok(isRight(other) && other.right.precision === precision)
    }
  })
}

void nativeLibrary(ROOT, 'spillway_host_cuda').then((library) => {
  if (library === null) test('skipped: the headers of CUDA, cuDNN and cuBLAS are not here', () => undefined)
  else {
    process.env.SPILLWAY_CUDA = library
    process.env.XDG_CACHE_HOME = join(root, 'cache')
    tests()
  }
  test.run()
})
