// Random numbers as a function of their purpose. In: whole numbers (a seed, an epoch, a sample). Out: a generator of numbers in [0, 1), or a shuffled
// list. Invariant: the same words give the same numbers on every machine; nothing is kept between calls.

/** In [0, 1), 32 bits each. */
export type Random = () => number

const mixed = (h: number): number => {
  let x = h
  x = Math.imul(x ^ (x >>> 16), 0x85ebca6b)
  x = Math.imul(x ^ (x >>> 13), 0xc2b2ae35)
  return (x ^ (x >>> 16)) >>> 0
}

/** The low and the high half of a whole number of up to 53 bits. */
const halves = (n: number): readonly [number, number] => [n >>> 0, Math.floor(n / 2 ** 32) >>> 0]

/** Small fast counting generator (sfc32), its state mixed from the words. */
export const randomOf = (...words: readonly number[]): Random => {
  const state = [0x9e3779b9, 0x243f6a88, 0xb7e15162]
  let [a, b, c] = words
    .flatMap(halves)
    .reduce((s, word) => s.map((x, i) => mixed(x ^ mixed(word + Math.imul(i + 1, 0x9e3779b9)))), state) as [
    number,
    number,
    number,
  ]
  let counter = 1
  const next = (): number => {
    const t = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (c << 21) | (c >>> 11)
    c = (c + t) | 0
    return (t >>> 0) / 2 ** 32
  }
  for (let i = 0; i < 12; i++) next()
  return next
}

/** The same numbers in another order, every order as likely as any other (Fisher and Yates). */
export const shuffled = (list: Uint32Array, random: Random): Uint32Array => {
  const out = list.slice()
  for (let i = out.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1))
    ;[out[i], out[j]] = [out[j]!, out[i]!]
  }
  return out
}
