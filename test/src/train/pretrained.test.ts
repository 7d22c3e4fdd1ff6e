// Weights by the name of their network: the places, the digest, the recipe and the names that changed.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as E from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { createHash } from 'node:crypto'
import { errorText } from '../../../src/errors/errors'
import { writeTensors } from '../../../src/files/safetensors'
import { checkedDigest, openNamedWeights, renamed } from '../../../src/train/pretrained'
import { spillwayHere } from '../../e2e/processes'
import { DEVICE } from '../../e2e/runs'

const root = mkdtempSync(join(tmpdir(), 'spillway-pretrained-'))
test.after(() => rmSync(root, { recursive: true }))
process.env['XDG_CACHE_HOME'] = root
const weights = join(root, 'spillway', 'weights')
mkdirSync(weights, { recursive: true })
const words = (text: string): string => {
  const opened = openNamedWeights('weights', text)
  return E.isLeft(opened) ? errorText(opened.left) : 'opened'
}

test('a missing file is named, with its digest and its place', () => {
  assert.is(
    words('resnet50'),
    `no weights of 'resnet50' in ${weights}: put resnet50-11ad3fa6.pth of torchvision there, whose sha256 begins with 11ad3fa6, or a file resnet50.safetensors or resnet50.pth`,
  )
  assert.match(
    words('mnasnet1-0'),
    'put mnasnet1.0_top1_73.512-f206786ef8.pth of torchvision there, whose sha256 begins with f206786ef8,',
  )
  assert.match(
    words('resnet51'),
    /^weights 'resnet51': no such file, and no resnet51\.safetensors .*have names such as resnet50, /,
  )
  assert.match(words('resnet50.pth'), /weights file resnet50\.pth: no such file/)
})

test('a published file is valid if its sha256 begins with the digits in its name', () => {
  const content = Buffer.from('weights')
  const digest = createHash('sha256').update(content).digest('hex')
  const right = join(root, `net-${digest.slice(0, 8)}.pth`)
  writeFileSync(right, content)
  assert.ok(E.isRight(checkedDigest('weights', right)))
  writeFileSync(join(weights, 'resnet18-f37072fd.pth'), content)
  assert.match(
    words('resnet18'),
    new RegExp(`its sha256 begins with ${digest.slice(0, 8)}, but the published file's with f37072fd`),
  )
})

test('names of layers are those of today', () => {
  assert.is(renamed('features.denseblock1.denselayer1.norm.1.weight'), 'features.denseblock1.denselayer1.norm1.weight')
  assert.is(renamed('features.denseblock1.denselayer2.conv.2.weight'), 'features.denseblock1.denselayer2.conv2.weight')
  assert.is(renamed('layer1.0.conv1.weight'), 'layer1.0.conv1.weight')
})

test('commands take weights of the cache by name', async () => {
  const trained = ['train', 'resnet20-cifar', '--steps', '1', '--algorithms', 'fixed', '--device', DEVICE, '--no-save']
  const first = await spillwayHere(...trained, '--save', join(weights, 'resnet20-cifar.safetensors'))
  assert.is(first.code, 0, first.err)
  const again = await spillwayHere(...trained, '--weights', 'resnet20-cifar', '--json')
  assert.is(again.code, 0, again.err)
  const missing = await spillwayHere(...trained, '--weights', 'resnet20')
  assert.is(missing.code, 2)
  assert.match(missing.err, /weights 'resnet20': no such file, and no resnet20\.safetensors or resnet20\.pth in/)
  writeTensors(join(weights, 'empty.safetensors'), [], { format: 'pt' })
  const opened = openNamedWeights('weights', 'empty')
  assert.ok(E.isRight(opened))
})

test.run()
