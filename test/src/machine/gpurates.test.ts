// The stated rates of the GPU at hand, beside data sheets; and the precisions of named machines and GPUs, refused in words.
import { isLeft, isRight } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { gpus as properties } from '../../../scripts/cuda/answers'
import type { DeviceFacts } from '../../../src/device/native'
import { errorText } from '../../../src/errors/errors'
import { acceleratorOf, hasOnGpu, linkBytesPerSecond } from '../../../src/machine/gpurates'
import { machineNamed } from '../../../src/machine/machine'
import {
  A100_PCIE,
  type Accelerator,
  B200,
  H200_SXM,
  L4,
  RTX_2080TI,
  RTX_3090,
  RTX_4090,
  T4,
} from '../../../staging/sim/accelerators'

/** As the driver reports them: name, generation, processors, clocks in MHz, bus. */
const facts = (
  device: string,
  capability: number,
  processors: number,
  mhz: number,
  memoryMhz: number,
  busBits: number,
): DeviceFacts => ({
  device,
  driver: '',
  libraries: '',
  build: '',
  totalBytes: 1,
  freeBytes: 1,
  processors,
  capability,
  clockHz: mhz * 1e6,
  memoryClockHz: memoryMhz * 1e6,
  busBits,
  pci: '0000:65:00.0',
})
const ofGpu = (name: 'h200' | 'a100' | '2080ti'): DeviceFacts => {
  const p = properties[name] as Readonly<Record<string, number>> & { readonly deviceName: string }
  return facts(
    p.deviceName,
    p.deviceVer! / 10,
    p.multiProcessorCount!,
    p.smClockRateKHz! / 1e3,
    p.memClockRateKHz! / 1e3,
    p.memoryBusWidth!,
  )
}

const SHEETS: readonly (readonly [Accelerator, DeviceFacts])[] = [
  [H200_SXM, ofGpu('h200')],
  [A100_PCIE, ofGpu('a100')],
  [RTX_2080TI, ofGpu('2080ti')],
  [B200, facts('NVIDIA B200', 100, 148, 1965, 3996, 8192)],
  [RTX_4090, facts('NVIDIA GeForce RTX 4090', 89, 128, 2520, 10501, 384)],
  [RTX_3090, facts('NVIDIA GeForce RTX 3090', 86, 82, 1695, 9751, 384)],
  [L4, facts('NVIDIA L4', 89, 58, 2040, 6251, 192)],
  [T4, facts('Tesla T4', 75, 40, 1590, 5001, 256)],
]

test('rates from the clocks of the driver are within a tenth of the data sheet', () => {
  for (const [sheet, own] of SHEETS) {
    const found = acceleratorOf(own)
    assert.equal(Object.keys(found.flopsPerSecond), Object.keys(sheet.flopsPerSecond), own.device)
    for (const [precision, rate] of Object.entries(sheet.flopsPerSecond)) {
      const ratio = (found.flopsPerSecond as Readonly<Record<string, number>>)[precision]! / rate
      assert.ok(Math.abs(ratio - 1) < 0.1, `${own.device} ${precision}: ${ratio}`)
    }
    assert.ok(Math.abs(found.bytesPerSecond / sheet.bytesPerSecond - 1) < 0.1, own.device)
  }
})

test('clocks that the driver does not report are stated', () => {
  const [, l4] = SHEETS.find(([sheet]) => sheet === L4)!
  assert.equal(acceleratorOf({ ...l4, clockHz: 0, memoryClockHz: 0, busBits: 0 }), acceleratorOf(l4))
})

test('the link is that of the slot, or of the generation if the kernel reports none', () => {
  const t4 = SHEETS.at(-1)![1]
  const slot = (width: string, speed: string) => (_: string, file: string) => (file === 'current_link_width' ? width : speed)
  assert.is(linkBytesPerSecond(t4, slot('8\n', '16.0 GT/s PCIe\n')), 12.2e9)
  assert.is(linkBytesPerSecond(t4, slot('16\n', '32.0 GT/s PCIe\n')), 48.8e9)
  assert.is(
    linkBytesPerSecond(t4, () => undefined),
    12.2e9,
  )
  assert.is(
    linkBytesPerSecond({ ...t4, capability: 121 }, () => undefined),
    48.8e9,
  )
})

test('a GPU has the precisions of its generation', () => {
  const of = (capability: number) => (['fp32', 'tf32', 'bf16'] as const).filter((p) => hasOnGpu({ capability }, p))
  assert.equal(of(75), ['fp32'])
  for (const later of [80, 87, 90, 103, 120]) assert.equal(of(later), ['fp32', 'tf32', 'bf16'])
})

test('a named machine is planned for in the precisions that it has', () => {
  for (const name of ['h100-sxm-80g', 'h200-sxm-141g', 'a100-sxm-80g', 'b200', 'rtx-4090-24g', 'l4-24g', 'rtx-3090-24g'])
    for (const precision of ['fp32', 'tf32', 'bf16'] as const) {
      const found = machineNamed(name, { precision })
      assert.ok(isRight(found) && found.right.precision === precision, `${name} ${precision}`)
    }
  const refused = (name: string, precision: 'tf32' | 'bf16'): string => {
    const found = machineNamed(name, { precision })
    return isLeft(found) ? errorText(found.left) : ''
  }
  assert.match(
    refused('t4-16g', 'bf16'),
    /precision 'bf16' is not allowed on machine 't4-16g': this GPU has no bf16 products; allowed: fp32/,
  )
  assert.match(refused('v100-pcie-16g', 'tf32'), /this GPU has no tf32 products/)
})

test('a name without its form is answered with the near ones', () => {
  const answer = (name: string): string => {
    const found = machineNamed(name)
    return isLeft(found) ? errorText(found.left) : ''
  }
  for (const [typed, meant] of [
    ['h100', 'h100-sxm-80g'],
    ['rtx4090', 'rtx-4090-24g'],
    ['4090', 'rtx-4090-24g'],
    ['t4', 't4-16g'],
  ])
    assert.match(answer(typed!), new RegExp(`machine '${typed}' is not known; nearest: ${meant},`))
})

test.run()
