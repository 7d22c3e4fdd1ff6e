// A suite as a picture: groups of bars that are compared with each other. In: groups. Out: SVG.

export interface Bar {
  readonly label: string
  readonly value: number
  /** The value with its unit. */
  readonly text: string
}
export interface Group {
  readonly name: string
  readonly bars: readonly Bar[]
}

/** A case of steps that were taken in turns. */
export interface Timed {
  readonly name: string
  readonly secondsPerStep: number
  /** By PyTorch's mode, or ours with our name before it. */
  readonly peers: Readonly<Record<string, { readonly secondsPerStep: number }>>
}

export const milliseconds = (seconds: number): string => `${(seconds * 1000).toFixed(0)} ms`

/** A bar for each value. */
export const compared = (name: string, values: Readonly<Record<string, number>>, text = milliseconds): readonly Group[] => [
  { name, bars: Object.entries(values).map(([label, value]) => ({ label, value, text: text(value) })) },
]

/** The steps of a case, ours first. */
export const timesOf = ({ name, secondsPerStep, peers }: Timed): readonly Group[] => {
  const others = Object.entries(peers).map(([mode, p]) => [
    mode.startsWith('spillway') ? mode : `pytorch ${mode}`,
    p.secondsPerStep,
  ])
  return compared(name, { spillway: secondsPerStep, ...Object.fromEntries(others) })
}

const WIDTH = 760
const LABEL = 220
const BAR = 16
const GAP = 14
const COLOURS = ['#1f6f8b', '#c9c4b8', '#a8a294', '#878071', '#66604f']

/** Bars of a group are drawn to the group's own longest: only their ratio matters. */
export const plot = (title: string, groups: readonly Group[]): string => {
  let y = 24
  const rows: string[] = []
  for (const { name, bars } of groups) {
    const longest = Math.max(...bars.map((b) => b.value))
    rows.push(`<text x="8" y="${y}" font-weight="bold">${name}</text>`)
    y += 8
    bars.forEach((b, i) => {
      const width = ((WIDTH - LABEL - 90) * b.value) / longest
      rows.push(
        `<text x="${LABEL - 8}" y="${y + 12}" text-anchor="end">${b.label}</text>`,
        `<rect x="${LABEL}" y="${y}" width="${width.toFixed(1)}" height="${BAR - 3}" fill="${COLOURS[Math.min(i, COLOURS.length - 1)]}"/>`,
        `<text x="${(LABEL + width + 6).toFixed(1)}" y="${y + 12}">${b.text}</text>`,
      )
      y += BAR
    })
    y += GAP + 10
  }
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${y}" font-family="sans-serif" font-size="12"><title>${title}</title>` +
    `<rect width="100%" height="100%" fill="white"/>\n${rows.join('\n')}\n</svg>\n`
  )
}
