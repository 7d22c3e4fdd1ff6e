// timeout 900
// each of models
// Every network against PyTorch in double precision, on `ref`: the first step's loss, and the norm of every gradient.
// The gradients are read out of the checkpoint after step 1, where each momentum is its gradient.
// VGG-16's classifier is left out: its checkpoint is two gigabytes, and its trunk and its losses are compared.
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { openTensors, readTensor } from '../../src/files/safetensors'
import { fewOrAll } from '../full'
import { done, type Fixture, fixtures, inFolder, stagedFor, trained } from './networks'

const norm = (bytes: Uint8Array): number => Math.sqrt(new Float64Array(bytes.slice().buffer).reduce((n, x) => n + x * x, 0))

/** A gradient that is nothing but rounding (a bias in front of a norm) is measured against the largest one. */
const closeGradients = (file: string, f: Fixture): void => {
  const tensors = done(openTensors('checkpoint', file))
  const most = Math.max(...Object.values(f.gradientNorms))
  for (const [name, expected] of Object.entries(f.gradientNorms)) {
    const got = norm(done(readTensor(tensors, tensors.tensors.get(`${name}.momentum`)!)))
    assert.ok(Math.abs(got - expected) <= 1e-7 * expected + 1e-10 * most, `gradient of ${name}: norm ${got}, PyTorch ${expected}`)
  }
}

const firstStep = (name: string): Promise<void> =>
  inFolder(async (folder) => {
    const f = fixtures[name]!
    const checkpointDir = join(folder, 'checkpoints')
    const { losses } = await trained(folder, done(stagedFor(name, 'ref', 'in-core')), name, { steps: 1, checkpointDir })
    assert.ok(Math.abs(losses[0]! - f.losses[0]!) <= 1e-9 * f.losses[0]!, `loss ${losses[0]}, PyTorch ${f.losses[0]}`)
    closeGradients(join(checkpointDir, 'step-000000001.safetensors'), f)
  })

const COMPARED = Object.keys(fixtures).filter((n) => n !== 'vgg16')
for (const name of fewOrAll(['resnet18'], COMPARED))
  test(`${name}: the first loss and all gradients are PyTorch's in double precision`, () => firstStep(name))

test.run()
