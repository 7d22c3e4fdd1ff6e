// Pictures of stained tissue, drawn by chance, each with a mask of its cells: the material of examples/big-picture.ts.
// In: the side in pixels, a seed. Out: colours from 0 to 1 as [3, side, side], and the class of each pixel. The same seed draws the same.

export const CLASSES = ['tissue', 'round cell', 'large cell'] as const

export interface Picture {
  readonly side: number
  readonly pixels: Float32Array
  readonly mask: Int32Array
}

type Colour = readonly [red: number, green: number, blue: number]

const TISSUE: Colour = [0.93, 0.72, 0.83]
const FIBRE: Colour = [0.86, 0.55, 0.72]
const GAP: Colour = [0.97, 0.95, 0.97]
const BLOOD: Colour = [0.86, 0.36, 0.44]
const ROUND: Colour = [0.25, 0.17, 0.47]
const LARGE: Colour = [0.55, 0.38, 0.68]

/** A generator of numbers from 0 to 1 (mulberry32). */
const randomOf = (seed: number) => {
  let state = seed >>> 0
  return (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}
type Random = () => number

/** Smooth noise from 0 to 1: random values on a grid of `cell` pixels, with smooth steps between them. */
const noiseOf = (random: Random, side: number, cell: number) => {
  const across = Math.ceil(side / cell) + 2
  const grid = Float32Array.from({ length: across * across }, random)
  const ease = (t: number): number => t * t * (3 - 2 * t)
  return (x: number, y: number): number => {
    const [column, row] = [Math.floor(x / cell), Math.floor(y / cell)]
    const [u, v] = [ease(x / cell - column), ease(y / cell - row)]
    const at = row * across + column
    const above = grid[at]! * (1 - u) + grid[at + 1]! * u
    const below = grid[at + across]! * (1 - u) + grid[at + across + 1]! * u
    return above * (1 - v) + below * v
  }
}
type Noise = (x: number, y: number) => number

const mix = (a: Colour, b: Colour, share: number): Colour => [
  a[0] + (b[0] - a[0]) * share,
  a[1] + (b[1] - a[1]) * share,
  a[2] + (b[2] - a[2]) * share,
]

interface Cell {
  readonly x: number
  readonly y: number
  readonly radius: number
  /** Length over width. */
  readonly stretch: number
  readonly turn: number
  readonly colour: Colour
  readonly label: number
}

/** Calls `paint` for each pixel of a cell: `depth` is 1 in the centre and 0 on the border. */
const eachPixel = (cell: Cell, side: number, paint: (at: number, depth: number) => void): void => {
  const reach = Math.ceil(cell.radius * cell.stretch) + 1
  const [cos, sin] = [Math.cos(cell.turn), Math.sin(cell.turn)]
  for (let y = Math.max(0, Math.floor(cell.y - reach)); y <= Math.min(side - 1, cell.y + reach); y++)
    for (let x = Math.max(0, Math.floor(cell.x - reach)); x <= Math.min(side - 1, cell.x + reach); x++) {
      const [dx, dy] = [x - cell.x, y - cell.y]
      const along = (dx * cos + dy * sin) / cell.stretch
      const across = dy * cos - dx * sin
      const depth = 1 - Math.hypot(along, across) / cell.radius
      if (depth > 0) paint(y * side + x, depth)
    }
}

const cellsOf = (random: Random, side: number, tumour: Noise): readonly Cell[] => {
  const count = Math.round((side * side) / 900)
  return Array.from({ length: count }, () => {
    const [x, y] = [random() * side, random() * side]
    const turn = random() * Math.PI
    const kind = random()
    if (kind < 0.12) return { x, y, turn, radius: 5 + 3 * random(), stretch: 1.1, colour: BLOOD, label: 0 }
    return tumour(x, y) > 0.52 && kind < 0.85
      ? { x, y, turn, radius: 8 + 5 * random(), stretch: 1.1 + 0.5 * random(), colour: LARGE, label: 2 }
      : { x, y, turn, radius: 4.5 + 2.5 * random(), stretch: 1 + 0.2 * random(), colour: ROUND, label: 1 }
  })
}

export const tissue = (side: number, seed: number): Picture => {
  const random = randomOf(seed)
  const [tumour, gap, fibre] = [noiseOf(random, side, 220), noiseOf(random, side, 130), noiseOf(random, side, 18)]
  const area = side * side
  const pixels = new Float32Array(3 * area)
  const mask = new Int32Array(area)
  const set = (at: number, colour: Colour): void => colour.forEach((value, c) => (pixels[c * area + at] = value))
  for (let at = 0; at < area; at++) {
    const [x, y] = [at % side, Math.floor(at / side)]
    const ground = mix(TISSUE, FIBRE, fibre(x, y))
    set(at, mix(ground, GAP, Math.min(1, Math.max(0, (gap(x, y) - 0.74) * 12))))
  }
  for (const cell of cellsOf(random, side, tumour))
    eachPixel(cell, side, (at, depth) => {
      const shade = 0.8 + 0.4 * random()
      const under: Colour = [pixels[at]!, pixels[area + at]!, pixels[2 * area + at]!]
      set(
        at,
        mix(under, mix(cell.colour, [0.2, 0.1, 0.4], cell.label === 2 && depth < 0.18 ? 0.6 : 0), Math.min(1, depth * 6) * shade),
      )
      if (depth > 0.08) mask[at] = cell.label
    })
  for (let i = 0; i < pixels.length; i++) pixels[i] = Math.min(1, Math.max(0, pixels[i]! + (random() - 0.5) * 0.08))
  return { side, pixels, mask }
}
