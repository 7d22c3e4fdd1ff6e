// Bayesian optimisation of a costly function with few parameters. In: points tried and their values, points that could be
// tried next. Out: the one whose expected improvement over the least value is greatest.
// A Gaussian process with a squared-exponential kernel on values scaled to mean 0 and deviation 1.
// Worked example: values 3 at x = 0 and 1 at x = 1: of 0.1 and 0.9, 0.9 is worth trying.

type Point = readonly number[]

const LENGTH = 0.3
const NOISE = 1e-4

const kernel = (a: Point, b: Point): number => Math.exp(-a.reduce((d, x, i) => d + (x - b[i]!) ** 2, 0) / (2 * LENGTH ** 2))

/** The lower triangle L with L Lᵀ = K. */
const cholesky = (k: readonly (readonly number[])[]): number[][] => {
  const l = k.map((row) => row.map(() => 0))
  for (let i = 0; i < k.length; i++)
    for (let j = 0; j <= i; j++) {
      let sum = k[i]![j]!
      for (let m = 0; m < j; m++) sum -= l[i]![m]! * l[j]![m]!
      l[i]![j] = i === j ? Math.sqrt(Math.max(sum, NOISE)) : sum / l[j]![j]!
    }
  return l
}

/** x with L x = b. */
const forward = (l: readonly (readonly number[])[], b: readonly number[]): number[] => {
  const x: number[] = []
  for (let i = 0; i < b.length; i++) {
    let sum = b[i]!
    for (let j = 0; j < i; j++) sum -= l[i]![j]! * x[j]!
    x.push(sum / l[i]![i]!)
  }
  return x
}

const dot = (a: Point, b: Point): number => a.reduce((n, x, i) => n + x * b[i]!, 0)

/** The standard normal distribution: density, and probability below (Abramowitz and Stegun 26.2.17). */
const density = (z: number): number => Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI)
const below = (z: number): number => {
  const t = 1 / (1 + 0.2316419 * Math.abs(z))
  const tail = density(z) * t * (0.31938153 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
  return z > 0 ? 1 - tail : tail
}

export const mostPromising = (tried: readonly Point[], values: readonly number[], options: readonly Point[]): Point => {
  const mean = values.reduce((a, b) => a + b, 0) / values.length
  const scale = Math.sqrt(values.reduce((n, v) => n + (v - mean) ** 2, 0) / values.length) || 1
  const y = values.map((v) => (v - mean) / scale)
  const l = cholesky(tried.map((a, i) => tried.map((b, j) => kernel(a, b) + (i === j ? NOISE : 0))))
  const weighted = forward(l, y)
  const least = Math.min(...y)
  const improvement = (x: Point): number => {
    const k = forward(
      l,
      tried.map((t) => kernel(t, x)),
    )
    const mu = dot(k, weighted)
    const sigma = Math.sqrt(Math.max(1 + NOISE - dot(k, k), 1e-12))
    const z = (least - mu) / sigma
    return (least - mu) * below(z) + sigma * density(z)
  }
  return options.reduce((best, x) => (improvement(x) > improvement(best) ? x : best))
}
