// The benchmark as a picture: a bar a side for each case, in milliseconds a step. In: results. Out: SVG.

export interface Plotted {
  readonly name: string
  readonly secondsPerStep: number
  readonly peers: Readonly<Record<string, { readonly secondsPerStep: number }>>
}

const WIDTH = 760
const LABEL = 210
const BAR = 16
const GAP = 14
const COLOURS = ['#1f6f8b', '#c9c4b8', '#a8a294', '#878071', '#66604f']

interface Bar {
  readonly label: string
  readonly seconds: number
}

const barsOf = (p: Plotted): readonly Bar[] => [
  { label: 'spillway', seconds: p.secondsPerStep },
  ...Object.entries(p.peers).map(([mode, m]) => ({ label: `pytorch ${mode}`, seconds: m.secondsPerStep })),
]

/** Bars of a case are drawn to the case's own longest: what matters is their ratio. */
export const plot = (cases: readonly Plotted[]): string => {
  let y = 24
  const rows: string[] = []
  for (const c of cases) {
    const bars = barsOf(c)
    const longest = Math.max(...bars.map((b) => b.seconds))
    rows.push(`<text x="8" y="${y}" font-weight="bold">${c.name}</text>`)
    y += 8
    bars.forEach((b, i) => {
      const width = ((WIDTH - LABEL - 90) * b.seconds) / longest
      rows.push(
        `<text x="${LABEL - 8}" y="${y + 12}" text-anchor="end">${b.label}</text>`,
        `<rect x="${LABEL}" y="${y}" width="${width.toFixed(1)}" height="${BAR - 3}" fill="${COLOURS[Math.min(i, COLOURS.length - 1)]}"/>`,
        `<text x="${(LABEL + width + 6).toFixed(1)}" y="${y + 12}">${(b.seconds * 1000).toFixed(0)} ms</text>`,
      )
      y += BAR
    })
    y += GAP + 10
  }
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${y}" font-family="sans-serif" font-size="12"><title>Seconds of a training step</title>` +
    `<rect width="100%" height="100%" fill="white"/>\n${rows.join('\n')}\n</svg>\n`
  )
}
