// The place of an image on the earth, as GeoTIFF states it (OGC GeoTIFF 1.1, annexes B and C). In: the numbers of the tags. Out: those of the
// same image at another size. Worked example: an image of 512 pixels at 10 m each, at half the size, has 256 pixels at 20 m.
export interface Georeference {
  /** ModelPixelScale: units per pixel along x, y and z. */
  readonly pixelScale?: readonly number[]
  /** ModelTiepoint: column, row, z of the image, then x, y, z of the model. */
  readonly tiepoints?: readonly number[]
  /** ModelTransformation: 4 × 4, row by row. */
  readonly matrix?: readonly number[]
  /** GeoKeyDirectory, GeoDoubleParams and GeoAsciiParams: the coordinate system. */
  readonly keys: readonly number[]
  readonly doubles?: readonly number[]
  readonly text?: string
}

export const GEO_TAGS = { pixelScale: 33550, tiepoints: 33922, matrix: 34264, keys: 34735, doubles: 34736, text: 34737 } as const

const RASTER_TYPE = 1025
const POINTS = 2
/** Coordinates of pixels are those of their centres, not of their corners. */
const arePoints = ({ keys }: Georeference): boolean =>
  keys.some((key, i) => i >= 4 && i % 4 === 0 && key === RASTER_TYPE && keys[i + 3] === POINTS)

/** The georeference of the image with pixels that are `across` and `down` times as large. */
export const resizedGeoreference = (g: Georeference, across: number, down: number): Georeference => {
  if (across === 1 && down === 1) return g
  const centre = arePoints(g) ? 0.5 : 0
  const factors = [across, down, 1]
  const placed = (v: number, i: number): number => (i % 6 < 2 ? (v + centre) / factors[i % 6]! - centre : v)
  // A point of the resized image is a point of the image: its coordinates times the factors, about the first corner.
  const moved = (m: readonly number[]): readonly number[] =>
    m.map((v, i) => {
      const row = i - (i % 4)
      const shift = centre * (m[row]! * (across - 1) + m[row + 1]! * (down - 1))
      return i % 4 < 3 ? v * factors[i % 4]! : row < 12 ? v + shift : v
    })
  return {
    ...g,
    ...(g.pixelScale ? { pixelScale: g.pixelScale.map((v, i) => v * factors[i]!) } : {}),
    ...(g.tiepoints ? { tiepoints: g.tiepoints.map(placed) } : {}),
    ...(g.matrix ? { matrix: moved(g.matrix) } : {}),
  }
}
