// Published weights by the name of their network. In: the text of `--weights`. Out: the open file, with a recipe; or the reason why there is none, with
// the file to download. Invariant: a file is looked for under the given path first; a published file counts only if its sha256 begins as its name says.
// Worked example: `--weights resnet50` opens resnet50.safetensors, resnet50.pth or resnet50-11ad3fa6.pth of the cache.
import { createHash } from 'node:crypto'
import { closeSync, openSync, readSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { nearest } from '../../staging/core/nearest'
import { IMAGENET, metadataOf } from '../data/description'
import { type FileKind, type SpillwayError, usage } from '../errors/errors'
import { onFile } from '../errors/exceptions'
import { cacheFolder } from '../files/cache'
import { openWeights } from '../files/pytorch'
import type { TensorFile } from '../files/safetensors'
import { statAt } from '../files/whole'

/** The files that torchvision publishes for networks of the zoo; a name ends in the first digits of the sha256. */
const PUBLISHED: Readonly<Record<string, string>> = {
  alexnet: 'alexnet-owt-7be5be79.pth',
  'convnext-base': 'convnext_base-6075fbad.pth',
  'convnext-large': 'convnext_large-ea097f82.pth',
  'convnext-small': 'convnext_small-0c510722.pth',
  'convnext-tiny': 'convnext_tiny-983f1562.pth',
  densenet121: 'densenet121-a639ec97.pth',
  densenet161: 'densenet161-8d451a50.pth',
  densenet169: 'densenet169-b2777c0a.pth',
  densenet201: 'densenet201-c1103571.pth',
  'efficientnet-b0': 'efficientnet_b0_rwightman-7f5810bc.pth',
  'efficientnet-b1': 'efficientnet_b1-c27df63c.pth',
  'efficientnet-b2': 'efficientnet_b2_rwightman-c35c1473.pth',
  'efficientnet-b3': 'efficientnet_b3_rwightman-b3899882.pth',
  'efficientnet-b4': 'efficientnet_b4_rwightman-23ab8bcd.pth',
  'efficientnet-b5': 'efficientnet_b5_lukemelas-1a07897c.pth',
  'efficientnet-b6': 'efficientnet_b6_lukemelas-24a108a5.pth',
  'efficientnet-b7': 'efficientnet_b7_lukemelas-c5b4e57e.pth',
  'efficientnet-v2-l': 'efficientnet_v2_l-59c71312.pth',
  'efficientnet-v2-m': 'efficientnet_v2_m-dc08266a.pth',
  'efficientnet-v2-s': 'efficientnet_v2_s-dd5fe13b.pth',
  googlenet: 'googlenet-1378be20.pth',
  inception3: 'inception_v3_google-0cc3c7bd.pth',
  'mnasnet0-5': 'mnasnet0.5_top1_67.823-3ffadce67e.pth',
  'mnasnet1-0': 'mnasnet1.0_top1_73.512-f206786ef8.pth',
  mobilenetv2: 'mobilenet_v2-7ebf99e0.pth',
  'mobilenetv3-large': 'mobilenet_v3_large-5c1a4163.pth',
  'mobilenetv3-small': 'mobilenet_v3_small-047dcff4.pth',
  'regnet-x-1-6gf': 'regnet_x_1_6gf-a12f2b72.pth',
  'regnet-x-3-2gf': 'regnet_x_3_2gf-7071aa85.pth',
  'regnet-x-8gf': 'regnet_x_8gf-2b70d774.pth',
  'regnet-x-16gf': 'regnet_x_16gf-ba3796d7.pth',
  'regnet-x-32gf': 'regnet_x_32gf-6eb8fdc6.pth',
  'regnet-x-400mf': 'regnet_x_400mf-62229a5f.pth',
  'regnet-x-800mf': 'regnet_x_800mf-94a99ebd.pth',
  'regnet-y-1-6gf': 'regnet_y_1_6gf-0d7bc02a.pth',
  'regnet-y-3-2gf': 'regnet_y_3_2gf-9180c971.pth',
  'regnet-y-8gf': 'regnet_y_8gf-dc2b1b54.pth',
  'regnet-y-16gf': 'regnet_y_16gf-3e4a00f9.pth',
  'regnet-y-32gf': 'regnet_y_32gf-8db6d4b5.pth',
  'regnet-y-400mf': 'regnet_y_400mf-e6988f5f.pth',
  'regnet-y-800mf': 'regnet_y_800mf-58fc7688.pth',
  resnet18: 'resnet18-f37072fd.pth',
  resnet34: 'resnet34-b627a593.pth',
  resnet50: 'resnet50-11ad3fa6.pth',
  resnet101: 'resnet101-cd907fc2.pth',
  resnet152: 'resnet152-f82ba261.pth',
  'resnext50-32x4d': 'resnext50_32x4d-1a0047aa.pth',
  'resnext101-32x8d': 'resnext101_32x8d-110c445d.pth',
  'resnext101-64x4d': 'resnext101_64x4d-173b62eb.pth',
  'shufflenetv2-x0-5': 'shufflenetv2_x0.5-f707e7126e.pth',
  'shufflenetv2-x1-0': 'shufflenetv2_x1-5666bf0f80.pth',
  'shufflenetv2-x1-5': 'shufflenetv2_x1_5-3c479a10.pth',
  'shufflenetv2-x2-0': 'shufflenetv2_x2_0-8be3c8ee.pth',
  'squeezenet1-0': 'squeezenet1_0-b66bff10.pth',
  'squeezenet1-1': 'squeezenet1_1-b8a52dc0.pth',
  'swin-t': 'swin_t-704ceda3.pth',
  vgg11: 'vgg11-8a719046.pth',
  'vgg11-bn': 'vgg11_bn-6002323d.pth',
  vgg13: 'vgg13-19584684.pth',
  'vgg13-bn': 'vgg13_bn-abd245e5.pth',
  vgg16: 'vgg16-397923af.pth',
  'vgg16-bn': 'vgg16_bn-6c64b313.pth',
  vgg19: 'vgg19-dcbb9e9d.pth',
  'vgg19-bn': 'vgg19_bn-c79401a0.pth',
  'wide-resnet50-2': 'wide_resnet50_2-9ba9bcbe.pth',
  'wide-resnet101-2': 'wide_resnet101_2-d733dc28.pth',
}
const DIGITS = 8

/** Height and width of a network's images, if they are not 224. */
const SIDES: Readonly<Record<string, number>> = {
  inception3: 299,
  'efficientnet-b1': 240,
  'efficientnet-b2': 288,
  'efficientnet-b3': 300,
  'efficientnet-b4': 380,
  'efficientnet-b5': 456,
  'efficientnet-b6': 528,
  'efficientnet-b7': 600,
  'efficientnet-v2-s': 384,
  'efficientnet-v2-m': 480,
  'efficientnet-v2-l': 480,
}
/** Networks of torchvision that normalise the images of ImageNet to this range. */
const CENTRED_NETWORKS = ['inception3', 'googlenet', 'efficientnet-v2-l']
const CENTRED = { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] }
/** The recipe of a published file. */
const recipeFor = (name: string): TensorFile['metadata'] => {
  const side = SIDES[name] ?? 224
  const numbers = CENTRED_NETWORKS.includes(name) ? CENTRED : IMAGENET
  return metadataOf({
    model: name,
    zoo: {},
    loss: { loss: 'cross-entropy' },
    input: [3, side, side],
    from: 'images',
    fit: 'cover',
    colours: 'RGB',
    ...numbers,
  })
}

/** The names of layers that torchvision changed after it had published the file. */
export const renamed = (name: string): string => name.replace(/(denselayer\d+\.(?:norm|conv))\.([12]\.)/, '$1$2')

const CHUNK = 4 * 2 ** 20
const digestOf = (file: string): string => {
  const [fd, hash, chunk] = [openSync(file, 'r'), createHash('sha256'), Buffer.alloc(CHUNK)]
  try {
    for (let n = readSync(fd, chunk); n > 0; n = readSync(fd, chunk)) hash.update(chunk.subarray(0, n))
    return hash.digest('hex')
  } finally {
    closeSync(fd)
  }
}

/** The first digits of the sha256 of a published file. */
const digitsOf = (file: string): string => /-([0-9a-f]+)\.pth$/.exec(basename(file))?.[1] ?? ''

/** Digests of files that did not change since. */
const digests = new Map<string, string>()
/** Checks that the sha256 of a published file begins as its name says. */
export const checkedDigest = (kind: FileKind, file: string): Either<SpillwayError, void> =>
  onFile(
    kind,
    file,
  )(() => {
    const expected = digitsOf(file)
    const { mtimeMs, size } = statSync(file)
    const key = `${file} ${mtimeMs} ${size}`
    const found = digests.get(key) ?? digestOf(file)
    digests.set(key, found)
    return found.startsWith(expected)
      ? E.right(undefined)
      : E.left({
          tag: 'FileRefused',
          kind,
          file,
          reason: `its sha256 begins with ${found.slice(0, DIGITS)}, but the published file's with ${expected}: download it again`,
        })
  })

/** A word without a place and an ending names a network. Callers without types may give anything. */
const isName = (text: unknown): text is string => typeof text === 'string' && /^[\w-]+$/.test(text) && statAt(text) === undefined

const missing = (name: string, folder: string): Either<SpillwayError, never> => {
  const file = PUBLISHED[name]
  if (file !== undefined)
    return E.left(
      usage(
        `no weights of '${name}' in ${folder}: put ${file} of torchvision there, whose sha256 begins with ${digitsOf(file)}, or a file ${name}.safetensors or ${name}.pth`,
      ),
    )
  const near = nearest(name, Object.keys(PUBLISHED), 3)
  return E.left(
    usage(
      `weights '${name}': no such file, and no ${name}.safetensors or ${name}.pth in ${folder}; published weights have names such as ${near.join(', ')}`,
    ),
  )
}

/** Opens weights by their path, or by the name of their network. */
export const openNamedWeights = (kind: FileKind, text: string): Either<SpillwayError, TensorFile> => {
  if (!isName(text)) return openWeights(kind, text)
  const folder = join(cacheFolder(), 'weights')
  const own = [`${text}.safetensors`, `${text}.pth`].map((name) => join(folder, name)).find((file) => statAt(file))
  if (own !== undefined) return openWeights(kind, own)
  const published = PUBLISHED[text] === undefined ? undefined : join(folder, PUBLISHED[text])
  if (published === undefined || !statAt(published)) return missing(text, folder)
  return pipe(
    checkedDigest(kind, published),
    E.flatMap(() => openWeights(kind, published)),
    E.map((file) => ({
      ...file,
      tensors: new Map([...file.tensors].map(([name, t]) => [renamed(name), t])),
      metadata: recipeFor(text),
    })),
  )
}
