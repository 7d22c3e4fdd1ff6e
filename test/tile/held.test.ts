// timeout 600
// What stretches of a forward pass hold and what crosses their borders; and that plans which predict move a skip once, however deep
// what lies inside it.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { gib, mib, PAGE_BYTES } from '../../staging/core/bytes'
import { tilesOf } from '../../staging/plan/plan'
import { opCosts } from '../../staging/schedule/chain'
import { machines } from '../../staging/sim/machines'
import { piecesOf } from '../../staging/tile/pieces'
import { segmentCost } from '../../staging/tile/segmentation'
import { type Model, stage, zooEntry } from '../../src'
import { Sketch } from '../graph/sketch'

const machine = machines['v100-pcie-16g']!
const LAUNCH = 6e-6

/** c0 r0 [pool c1 r1 up], beside r0: values of 4, 4, 1, 2, 2, 8 and 12 planes of a channel. */
const skipping = () => {
  const s = new Sketch([1, 1, 16, 16])
  const before = s.relu(s.conv(s.image, 'c0', 4), 'r0')
  const below = s.relu(s.conv(s.maxPool(before, 'pool', 2), 'c1', 8), 'r1')
  const up = s.op('upsample', { mode: 0, inH: 8, inW: 8, outH: 16, outW: 16 }, [below], 'up')
  s.op('concat', {}, [before, up], 'join')
  const graph = s.b.build()
  return piecesOf(graph, opCosts(graph, machine), LAUNCH)
}
const planes = (bytes: number): number => bytes / 1024

test('a skip leaves after its op and returns before its reader; ops between do not hold it', () => {
  const p = skipping()
  const crossing = (i: number, j: number): number => planes(p.span(i, j).crossingBytes)
  const layers = p.ops.map((ops) => ops.map((o) => o.layer).join())
  assert.equal(layers, ['c0', 'r0', 'pool', 'c1', 'r1', 'up', 'join'])
  // r0 of 4 planes leaves once; pool reads it, a plane of 4 quarters leaves.
  assert.is(crossing(0, 1), 2)
  assert.is(crossing(0, 2), (4 + 1) / 2)
  assert.is(crossing(2, 2), (4 + 1) / 2)
  assert.is(crossing(3, 4), (1 + 2) / 2)
  assert.is(crossing(5, 6), (2 + 4) / 2)
  assert.is(crossing(0, 6), 0)
})

test('a rectifier works in place on values of its tile, not on values from outside', () => {
  const p = skipping()
  const held = (i: number, j: number): readonly number[] => {
    const s = p.span(i, j)
    return [planes(s.workBytes), planes(s.bandBytes)]
  }
  // c0: the image and what it makes, which leaves as r0.
  assert.equal(held(0, 1), [1 + 4 + 4, 1 + 4])
  assert.equal(held(1, 1), [4 + 4 + 4, 4 + 4])
  assert.equal(held(3, 4), [1 + 2 + 2, 1 + 2])
})

test('tiles side by side share bands of values that outlive them, so narrow tiles can be high', () => {
  const p = skipping()
  const s = p.span(0, 2)
  const limitBytes = s.bandBytes / 4
  const found = segmentCost(p, 0, 2, { limitBytes, secondsPerCrossingByte: 0, bandsOnly: false })!
  const { H, W } = found.grid
  assert.ok(tilesOf(found.grid) > 4)
  assert.ok(s.bandBytes / H + (s.workBytes - s.bandBytes) / (H * W) <= limitBytes)
})

const whereAll = process.env['SPILLWAY_FULL'] ? test : test.skip

whereAll('U-Net of 8192 x 8192 predicts in 512 MiB, and moves what is 62 GiB in-core at most once each way', () => {
  const net = zooEntry('unet')!.build([1, 3, 8192, 8192], 'predict')
  if (isLeft(net)) throw new Error('no U-Net of 8192 x 8192')
  const { plan } = stage(net.right as Model, { mode: 'predict', as: 'classes', machine: 'v100-pcie-16g', budget: mib(512) })
  const pages = plan.residencies.reduce((n, r) => n + (r.swapIn?.from === 'tier' ? r.to - r.from : 0), 0)
  assert.ok(plan.peakPages * PAGE_BYTES <= mib(512))
  assert.ok(pages * PAGE_BYTES <= gib(62))
})

test.run()
