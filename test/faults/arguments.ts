// Arguments that are out of range, misspelt or of no file. Invariant: each is answered at once, with 2 and words that quote it, as JSON too.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as assert from 'uvu/assert'
import { ended, spillway } from '../e2e/processes'
import { FULL } from '../full'
import type { Counts, Family } from './family'

const MODEL = 'resnet20-cifar'
const flag = (command: string, name: string, ...values: readonly string[]): readonly (readonly string[])[] =>
  values.map((v) => [command, MODEL, `${name}=${v}`])

const wrong = (file: string): readonly (readonly string[])[] => [
  ...flag('train', '--steps', '0', '-1', '1.5', 'ten', '', '9999999999999999'),
  ...flag('train', '--batch', '0', '-3', '1e3', '1000000000', '99999999999999999', 'Infinity'),
  ...flag('plan', '--image', '0', '-64', '1x0', '9999999', '99999999', '64x', 'x64', '64x64x64', '1e2'),
  ...flag('train', '--threads', '0', '-1', '1000', '999999999999999', 'all', '0x4'),
  ...flag('train', '--samples', '0', '-1', 'NaN'),
  ...flag('train', '--layout', 'NHWC', 'chw', '', 'nhwc'),
  ...flag('train', '--seed', '-1', '0.5', '1e99'),
  ...flag('train', '--budget', '-1', 'much', '12XiB', '1e30GiB', '', '0x10'),
  ...flag('train', '--throttle', '0', '-5', 'NaN', 'Infinity'),
  ...flag('train', '--host-memory', '-1', 'half'),
  ...flag('plan', '--spill-writes-per-step', '-1', 'few', '20GiB'),
  ...flag('train', '--time-limit', '3', '-3h', '1.5h', 'soon', '', '1h'),
  ...flag('train', '--checkpoint-every', '0', '-1', '2'),
  ...flag('train', '--on-nonfinite', 'stop', ''),
  ...flag('train', '--precision', 'fp8', 'FP32', ''),
  ...flag('plan', '--algorithms', 'best', 'Fixed'),
  ...flag('plan', '--measure', 'never'),
  ...flag('plan', '--strategy', 'magic', 'swap:', 'checkpoint', 'AUTO'),
  ...flag('plan', '--machine', 'moon', 'v100', '../cpu'),
  ...flag('train', '--device', 'gpu', 'v100-pcie-16g'),
  ...flag('plan', '--allocator', 'malloc', 'va:', 'va:x'),
  ...flag('train', '--lr', '-1', 'NaN', 'Infinity', 'fast'),
  ...flag('train', '--loss', 'hinge', 'mse+', 'mse+2*', 'cross-entropy+mse', '-1*mse', '0.5*0.5*mse'),
  ...flag('train', '--optimizer', 'newton'),
  ...flag('train', '--ignore-index', '1.5'),
  ...flag('train', '--class-weights', '1,-1', '', '1,,2', 'many'),
  ...flag('train', '--label-smoothing', '-0.5', 'much'),
  ...flag('train', '--freeze', 'cf.*', '', 'fc'),
  ...flag('train', '--clip-norm', '0', '-1', 'much'),
  ...flag('train', '--accumulate', '0', '1.5', 'all'),
  ...flag('train', '--average', '1', '-0.5', '1e9'),
  ...flag('plan', '--mode', 'predikt', ''),
  ...flag('plan', '--as', 'classes'),
  ['train', MODEL, '--evaluate-average'],
  ['train', MODEL, '--epochs=1', `--evaluate=${file}`, '--evaluate-average'],
  ['plan', MODEL, '--mode=predict', '--emit=x.ts'],
  ...flag('compare', '--budgets', '0', '-8', '1.5'),
  ...flag('compare', '--strategies', 'auto,magic'),
  ...flag('compare', '--allocators', 'pages,malloc'),
  ...flag('compare', '--plot', join(file, 'plot.svg'), '/dev/null', ''),
  ...flag('train', '--save', join(file, 'w.safetensors'), '/dev/null', ''),
  ...flag('train', '--log', file),
  ...flag('train', '--report', join(file, 'r.html')),
  ...flag('train', '--checkpoint-dir', file, join(file, 'x')),
  ...flag('train', '--spill', file, '/dev/null/x'),
  ...flag('train', '--data', join(file, 'nowhere'), file),
  ...flag('train', '--weights', `${file}.nowhere`, file),
  ...flag('train', '--classes', '0', '-1', 'ten'),
  ...flag('train', '--weights-skip', 'fc.*', ''),
  ...flag('evaluate', '--weights-strip', 'module.'),
  ...flag('plan', '--emit', join(file, 'x.ts')),
  ['train', MODEL, '--resume'],
  ['train', MODEL, '--resume-ranks'],
  ['train', MODEL, '--network=ethernet-25g'],
  ...flag('plan', '--network', 'ethernet-25g', 'token-ring'),
  ['train', MODEL, '--norms=local'],
  ...flag('plan', '--norms', 'local', 'global'),
  ...flag('plan', '--shard', 'gradients', 'weights'),
  ...flag('plan', '--ranks', '0', '3'),
  ...flag('plan', '--bands', '0', '2'),
  ...flag('train', '--bands', '0', '2'),
  ['plan', MODEL, '--ranks=4', '--bands=2'],
  ['plan', MODEL, '--ranks=64', '--bands=64'],
  ['plan', MODEL, '--ranks=2', '--bands=2', '--save=x.json'],
  ['plan', MODEL, '--ranks=2', '--mode=predict'],
  ['plan', MODEL, '--ranks=2', '--emit=x.plan.ts'],
  ...flag('train', '--engine', 'mpi', 'threads', 'nccl'),
  ...flag('train', '--ranks', '0', '2'),
  ['train', MODEL, '--engine=threads', '--ranks=3', '--batch=8'],
  ['train', MODEL, '--device=cpu', '--machine=ref'],
  ['train', 'resnet21'],
  ['train', 'vgg16-features', '--classes=10'],
  ['plan', 'pix2pixhd', '--classes=2'],
  ['plan'],
  ['plan', './nowhere.ts'],
  ['verify', `${file}.nowhere`],
  ['check', file],
  ['completion', 'csh'],
  ['fly'],
  ['train', MODEL, '--stepz=3'],
]

/** Each is answered before anything is measured or planned. */
const SECONDS = 60

const run = async (cases: number): Promise<Counts> => {
  const root = mkdtempSync(join(tmpdir(), 'spillway-arguments-'))
  const file = join(root, 'file')
  writeFileSync(file, 'no folder, no tensors')
  const all = wrong(file)
  assert.ok(all.length >= 100, String(all.length))
  const every = Math.max(1, Math.floor(all.length / cases))
  const tried = all.filter((_, i) => i % every === 0)
  let slowest = 0
  for (const args of tried) {
    const began = performance.now()
    const { code, out } = await ended(spillway([...args, '--json']), undefined, SECONDS)
    slowest = Math.max(slowest, performance.now() - began)
    assert.is(code, 2, args.join(' '))
    assert.ok(JSON.parse(out).error.message.length > 10, args.join(' '))
  }
  rmSync(root, { recursive: true })
  return { tried: tried.length, slowestSeconds: Math.round(slowest / 100) / 10 }
}

export const family: Family = {
  what: 'arguments out of range are answered at once, with 2',
  few: FULL ? 12 : 6,
  all: 110,
  seconds: 1800,
  run,
}
