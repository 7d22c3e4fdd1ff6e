// Random changes of samples: the used part of them, the results, the refusals; always the same for the same seed, epoch and sample.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { errorText } from '../../../src/errors/errors'
import type { Augment } from '../../../src/data/augment'
import { type Chance, chanceFits, sampleByChance } from '../../../src/data/augmented'
import type { Sample } from '../../../src/data/data'
import { arrayFor, type FedValue } from '../../../src/data/places'
import { ownReader, streamReader } from '../../../src/data/readers'
import { resampled } from '../../../src/data/resample'

const [H, W, N] = [6, 8, 5]
const input: FedValue = { name: 'image', key: 'input', batch: 1, shape: [3, H, W], isInput: true }
const mask: FedValue = { name: 't', key: 'target', batch: 1, shape: [1, H, W], isInput: false, labels: { classes: 256 } }
const label: FedValue = { ...mask, shape: [1, 1, 1], labels: { classes: 4 } }
const shares: FedValue = { name: 't', key: 'target', batch: 1, shape: [4, 1, 1], isInput: false, shares: { classes: 4 } }
const floats: FedValue = { name: 't', key: 'target', batch: 1, shape: [3, H, W], isInput: false }

/** Channels last: each pixel's number in every channel, and as its label. */
const last = (i: number): Uint8Array => Uint8Array.from({ length: 3 * H * W }, (_, k) => 4 * Math.floor(k / 3) + i)
const labels = (i: number): Uint8Array => Uint8Array.from({ length: H * W }, (_, k) => 4 * k + i)
const first = <A extends Uint8Array | Float32Array>(pixels: A): A => {
  const out = pixels.slice() as A
  pixels.forEach((p, k) => (out[(k % 3) * H * W + Math.floor(k / 3)] = p))
  return out
}

const chanceOf = (augment: Augment, o: Partial<Chance> = {}): Chance => ({
  augment,
  seed: 7,
  layout: 'NHWC',
  fit: 'cover',
  fill: [0.5, 0.5, 0.5],
  others: Uint32Array.from({ length: N }, (_, i) => i),
  ...o,
})
const taken = async (
  values: readonly FedValue[],
  chance: Chance,
  read: (i: number) => Sample,
  index = 0,
  epoch = 0,
): Promise<readonly (readonly number[])[]> => {
  const reader = ownReader({ kind: 'own', length: N, read }, values, chance)
  const types = await reader.types({ epoch, index }, 0)
  const arrays = values.map((v, i) => arrayFor(v, types[i]!, 1))
  await reader.read({ epoch, index }, 0, arrays, 0)
  return arrays.map((a) => [...a])
}
const paired = (i: number): Sample => ({ input: last(i), target: labels(i) })

test('a mask is flipped, turned and cropped with its image; another epoch or seed gives another change', async () => {
  for (const augment of [{ flip: 'both' }, { turns: true }, { flip: 'both', turns: true }] as const) {
    const all: string[] = []
    for (let index = 0; index < N; index++) {
      const [pixels, target] = await taken([input, mask], chanceOf(augment), paired, index)
      assert.equal(
        target,
        pixels!.filter((_, k) => k % 3 === 0),
      )
      assert.equal(
        [...target!].sort((a, b) => a - b),
        [...labels(index)],
      )
      assert.equal(await taken([input, mask], chanceOf(augment), paired, index), [pixels, target])
      all.push(String(target!.map((t) => t - index)))
    }
    assert.ok(new Set(all).size > 1)
  }
  const crop = chanceOf({ crop: { area: [0.4, 0.6] } })
  const [pixels, target] = await taken([input, mask], crop, paired)
  // Steps of 4 and of 32: interpolated values are near the nearest label.
  assert.ok(pixels!.every((p, k) => Math.abs(p - target![Math.floor(k / 3)]!) <= 24))
  assert.not.equal(await taken([input, mask], crop, paired, 0, 1), [pixels, target])
  assert.not.equal(await taken([input, mask], { ...crop, seed: 8 }, paired), [pixels, target])
})

test('channels first and last, bytes and floats, labels and numbers are the same', async () => {
  const augment = { flip: 'both', crop: true } as const
  const [pixels] = await taken([input, mask], chanceOf(augment), paired)
  const asFirst = (i: number): Sample => ({ input: Buffer.from(first(last(i))), target: labels(i) })
  assert.equal((await taken([input, mask], chanceOf(augment, { layout: 'NCHW' }), asFirst))[0], pixels)
  const asFloats = (i: number): Sample => ({ input: [...last(i)], target: Float32Array.from(last(i)) })
  const [of, to] = await taken([input, floats], chanceOf(augment), asFloats)
  assert.equal(of, to)
  assert.ok(of!.every((x, k) => Math.abs(x - pixels![k]!) <= 0.5))
})

test("erased pixels have the mean, and the user's sample is unchanged", async () => {
  const owned = last(0)
  const [pixels] = await taken([input, label], chanceOf({ cutout: 0.5, jitter: true }), () => ({ input: owned, target: 2 }))
  assert.is(pixels!.filter((p) => p === 128).length % 3, 0)
  assert.equal(owned, last(0))
  const [whole] = await taken([input, label], chanceOf({ cutout: 1 }), () => ({ input: new Uint8Array(3 * H * W), target: 2 }))
  assert.ok(whole!.filter((p) => p === 128).length >= 27)
})

test('samples are mixed with others of the run, classes by the same shares', async () => {
  const read = (i: number): Sample => ({ input: new Uint8Array(3 * H * W).fill(i), target: i % 4 })
  for (const augment of [{ mixup: 1 }, { cutmix: true }] as const)
    for (let index = 0; index < N; index++) {
      const [pixels, target] = await taken([input, shares], chanceOf(augment), read, index)
      assert.ok(Math.abs(target!.reduce((a, b) => a + b) - 1) < 1e-6)
      const own = pixels!.filter((p) => p === index).length / pixels!.length
      if ('cutmix' in augment && target!.filter((t) => t > 0).length > 1)
        assert.ok(Math.abs(target![index % 4]! - own) < 1e-6, `${target} ${own}`)
    }
  const [pixels, target] = await taken([input, mask], chanceOf({ cutmix: true }), paired, 1)
  assert.equal(
    target,
    pixels!.filter((_, k) => k % 3 === 0),
  )
  const one = await taken([input, shares], chanceOf({ mixup: true }), read, 1)
  const list = await taken([input, shares], chanceOf({ mixup: true }), (i) => ({ ...read(i), target: [i % 4] }), 1)
  assert.equal(list, one)
})

test('a region that is read alone equals the crop of the whole image, for any request', async () => {
  const [rows, columns] = [23, 31]
  const all = Uint8Array.from({ length: 3 * rows * columns }, (_, k) => (k * 7 + (k >> 5)) % 251)
  const marks = Uint8Array.from({ length: rows * columns }, (_, k) => k % 5)
  const whole = { top: 0, left: 0, height: rows, width: columns }
  const cut = (from: Uint8Array, c: number, r: typeof whole): Uint8Array =>
    Uint8Array.from({ length: c * r.height * r.width }, (_, k) => {
      const [p, z] = [Math.floor(k / c), k % c]
      return from[((r.top + Math.floor(p / r.width)) * columns + r.left + (p % r.width)) * c + z]!
    })
  const masked: FedValue = { ...mask, labels: { classes: 5, ignored: 200 } }
  const augments: readonly Augment[] = [
    {},
    { crop: true },
    { crop: { area: [0.3, 0.5] }, flip: 'both', turns: true, jitter: true, cutout: true, cutmix: true },
    { crop: true, elastic: true, randAugment: true, jitter: { hue: 0.5 }, blur: true },
  ]
  for (const fit of ['crop', 'cover', 'stretch', 'pad'] as const)
    for (const augment of augments)
      for (let index = 0; index < N; index++) {
        const chance = chanceOf(augment, { fit })
        let read = 0
        const regions = ownReader(
          {
            kind: 'own',
            length: N,
            size: [rows, columns],
            read: (_, r) => {
              read += r.height * r.width
              return { input: cut(all, 3, r), target: cut(marks, 1, r) }
            },
          },
          [input, masked],
          chance,
        )
        const arrays = [input, masked].map((v) => arrayFor(v, 'u8', 1))
        await regions.read({ epoch: 0, index }, 0, arrays, 0)
        const picture = {
          size: whole,
          read: () => Promise.resolve({ sample: { input: all, target: marks }, window: whole, name: 'all' }),
        }
        const expected = await sampleByChance([input, masked], chance, { epoch: 0, index }, () => Promise.resolve(picture))
        assert.equal([...arrays[0]!], [...(expected['input'] as Uint8Array)], `${fit} ${JSON.stringify(augment)}`)
        assert.equal([...arrays[1]!], [...(expected['target'] as Uint8Array)])
        if (fit === 'crop' && !augment.cutmix) assert.is(read, H * W)
      }
})

test('a border around an image is the mean, and ignored', async () => {
  const tiny = {
    kind: 'own',
    length: N,
    size: [2, 4],
    read: () => ({ input: new Uint8Array(24).fill(9), target: new Uint8Array(8).fill(3) }),
  } as const
  for (const [ignored, type] of [
    [200, 'u8'],
    [-100, 'i32'],
  ] as const) {
    const masked: FedValue = { ...mask, labels: { classes: 5, ignored } }
    const arrays = [arrayFor(input, 'u8', 1), arrayFor(masked, type, 1)]
    const reader = ownReader(tiny, [input, masked], chanceOf({}, { fit: 'crop' }))
    assert.equal(await reader.types({ epoch: 0, index: 0 }, 0), ['u8', type])
    await reader.read({ epoch: 0, index: 0 }, 0, arrays, 0)
    assert.is(arrays[0]!.filter((p) => p === 128).length, 3 * (H * W - 8))
    assert.is(arrays[1]!.filter((p) => p === ignored).length, H * W - 8)
    assert.is(arrays[1]![2 * W + 2], 3)
  }
})

test('samples in turn are numbered by their place', async () => {
  const values = [input, mask]
  const samples = Array.from({ length: N }, (_, i) => paired(i))
  const chance = chanceOf({ flip: 'both', turns: true })
  const reader = streamReader({ kind: 'stream', open: () => samples, once: false }, values, chance)
  const types = await reader.types({ epoch: 0, index: 0 }, 0)
  const arrays = values.map((v, i) => arrayFor(v, types[i]!, 1))
  for (let i = 0; i < N; i++) {
    await reader.read({ epoch: 0, index: i }, i, arrays, 0)
    assert.equal(
      arrays.map((a) => [...a]),
      await taken(values, chance, paired, i),
    )
  }
})

test('impossible augmentations are refused, before the run or at their sample', async () => {
  const words = (augment: Augment, values: readonly FedValue[], inTurn = false): string => {
    const fits = chanceFits(augment, values, { isInTurn: inTurn, isOfRegions: false })
    return isLeft(fits) ? errorText(fits.left) : 'it fits'
  }
  assert.is(words({ flip: 'both' }, [input, mask]), 'it fits')
  assert.match(words({ mixup: true }, [input, label]), /augment\.mixup needs a loss with class probabilities/)
  assert.match(words({ cutmix: true }, [input, label]), /augment\.cutmix needs a loss with class probabilities/)
  assert.match(words({ mixup: true }, [input, shares], true), /mixing needs samples in any order: pass \{ length, read \}/)
  assert.match(words({ flip: 'both' }, [input, { ...mask, shape: [1, 3, 4] }]), /'target' is 3 x 4, but 'input' is 6 x 8/)
  assert.match(words({ jitter: true }, [{ ...input, shape: [2, H, W] }, label]), /jitter needs 1 or 3 channels; 'input' has 2/)
  assert.match(words({ flip: 'both' }, [input, { ...input, key: 'more' }, label]), /a model with one input/)
  const problem = async (augment: Augment, sample: Sample, target: FedValue): Promise<string> => {
    try {
      await taken([input, target], chanceOf(augment), () => sample)
    } catch (e) {
      return (e as Error).message
    }
    return 'nothing was thrown'
  }
  assert.match(
    await problem({ flip: 'both' }, { input: new Uint8Array(5), target: 1 }, label),
    /5 numbers, but the model takes \[3,6,8\]/,
  )
  assert.match(await problem({ flip: 'both' }, { input: last(0), target: 4 }, label), /4 is not one of 4 classes/)
  assert.match(await problem({ mixup: true }, { input: last(0), target: 7 }, shares), /7 is not one of 4 classes/)
  const wide = { input: new Float32Array(3 * H * W).fill(1.5), target: 1 }
  assert.match(await problem({ randAugment: true }, wide, label), /augment\.randAugment needs bytes: pass a Uint8Array/)
  assert.match(words({ elastic: true }, [input, { ...mask, shape: [1, 3, 4] }]), /both must have one size to be changed together/)
  assert.match(await problem({ jitter: true }, wide, label), /jitter needs bytes, or numbers from 0 to 1; found 1\.5/)
})

test("resizing equals PyTorch's bicubic filter with antialias", () => {
  const image = (h: number, w: number, c: number): Float32Array =>
    Float32Array.from({ length: h * w * c }, (_, i) => {
      const [k, x, y] = [i % c, Math.floor(i / c) % w, Math.floor(i / c / w)]
      return ((y * 7 + x * 13 + k * 5 + y * x) % 97) / 97
    })
  // F.interpolate(x, size, mode='bicubic', antialias=True), in double, channels last.
  // biome-ignore format: numbers
  const smaller = [0.11377, 0.165316, 0.40853, 0.460076, 0.759833, 0.811379, 0.478704, 0.53025, 0.226299, 0.276613, 0.578058, 0.639831,
    0.651149, 0.712923, 0.239691, 0.290005, 0.351019, 0.413658, 0.74614, 0.705643, 0.347851, 0.307354, 0.426825, 0.489464, 0.484224,
    0.547491, 0.716434, 0.670725, 0.343931, 0.298221, 0.665998, 0.729265]
  const larger = [-0.016567, 0.026428, 0.111305, 0.186679, 0.260681, 0.334683, 0.410057, 0.494934, 0.537929]
  const near = (got: ArrayLike<number>, expected: readonly number[]): void =>
    expected.forEach((e, i) => assert.ok(Math.abs(got[i]! - e) < 2e-6, `${i}: ${got[i]} is not near ${e}`))
  near(resampled(image(6, 9, 2), 9, { left: 0, top: 0, width: 9, height: 6 }, { width: 4, height: 4 }, 2), smaller)
  near(resampled(image(4, 5, 1), 5, { left: 0, top: 0, width: 5, height: 4 }, { width: 9, height: 7 }, 1), larger)
  const part = resampled(image(6, 9, 2), 9, { left: 2, top: 1, width: 3, height: 2 }, { width: 3, height: 2 }, 2)
  near(
    part,
    [...image(6, 9, 2)].filter(
      (_, i) => Math.floor(i / 18) % 6 >= 1 && Math.floor(i / 18) < 3 && Math.floor(i / 2) % 9 >= 2 && Math.floor(i / 2) % 9 < 5,
    ),
  )
})

test.run()
