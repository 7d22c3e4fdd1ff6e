// Greys and hues of pixels. In: numbers, channels last. Out: the grey of a pixel; colours of another hue.

/** Grey of a pixel, as ITU-R 601 weighs colours. */
export const greyAt = (p: ArrayLike<number>, i: number, channels: number): number =>
  channels === 3 ? 0.299 * p[i]! + 0.587 * p[i + 1]! + 0.114 * p[i + 2]! : p[i]!

/** Turns the hue of each pixel by a share of the colour circle. In place. */
export const turnHues = (p: Float32Array, turn: number): void => {
  for (let i = 0; i < p.length; i += 3) {
    const [r, g, b] = [p[i]!, p[i + 1]!, p[i + 2]!]
    const [high, low] = [Math.max(r, g, b), Math.min(r, g, b)]
    const range = high - low
    if (range === 0) continue
    const sixth = high === r ? (g - b) / range : high === g ? 2 + (b - r) / range : 4 + (r - g) / range
    const hue = (((sixth + 6 * turn) % 6) + 6) % 6
    // Each channel is high near its own hue: red at 0, green at 2, blue at 4.
    for (let c = 0; c < 3; c++) {
      const away = Math.abs(((hue - 2 * c + 9) % 6) - 3)
      p[i + c] = low + range * Math.min(1, Math.max(0, 2 - away))
    }
  }
}
