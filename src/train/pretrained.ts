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
  'convnext-tiny': 'convnext_tiny-983f1562.pth',
  densenet121: 'densenet121-a639ec97.pth',
  densenet161: 'densenet161-8d451a50.pth',
  densenet169: 'densenet169-b2777c0a.pth',
  densenet201: 'densenet201-c1103571.pth',
  'efficientnet-b0': 'efficientnet_b0_rwightman-7f5810bc.pth',
  googlenet: 'googlenet-1378be20.pth',
  inception3: 'inception_v3_google-0cc3c7bd.pth',
  mobilenetv2: 'mobilenet_v2-7ebf99e0.pth',
  resnet18: 'resnet18-f37072fd.pth',
  resnet34: 'resnet34-b627a593.pth',
  resnet50: 'resnet50-11ad3fa6.pth',
  resnet101: 'resnet101-cd907fc2.pth',
  resnet152: 'resnet152-f82ba261.pth',
  vgg11: 'vgg11-8a719046.pth',
  'vgg11-bn': 'vgg11_bn-6002323d.pth',
  vgg13: 'vgg13-19584684.pth',
  'vgg13-bn': 'vgg13_bn-abd245e5.pth',
  vgg16: 'vgg16-397923af.pth',
  'vgg16-bn': 'vgg16_bn-6c64b313.pth',
  vgg19: 'vgg19-dcbb9e9d.pth',
  'vgg19-bn': 'vgg19_bn-c79401a0.pth',
}
const DIGITS = 8

/** Two networks of torchvision normalise the images of ImageNet again, to this range. */
const CENTRED = { mean: [0.5, 0.5, 0.5], std: [0.5, 0.5, 0.5] }
/** The recipe of a published file. */
const recipeFor = (name: string): TensorFile['metadata'] => {
  const side = name === 'inception3' ? 299 : 224
  const numbers = name === 'inception3' || name === 'googlenet' ? CENTRED : IMAGENET
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

/** Digests of files that did not change since. */
const digests = new Map<string, string>()
/** Checks that the sha256 of a published file begins as its name says. */
export const checkedDigest = (kind: FileKind, file: string): Either<SpillwayError, void> =>
  onFile(
    kind,
    file,
  )(() => {
    const expected = /-([0-9a-f]+)\.pth$/.exec(basename(file))?.[1] ?? ''
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
        `no weights of '${name}' in ${folder}: put ${file} of torchvision there, whose sha256 begins with ${file.slice(-4 - DIGITS, -4)}, or a file ${name}.safetensors or ${name}.pth`,
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
