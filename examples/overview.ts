// Draws a run: the input picture, its target and the prediction, above the memory that the device holds during one step.
// In: pictures, a plan, labels. Out: one SVG file that needs no other file.
import { PAGE_BYTES, showBytes, type Staged } from 'spillway'
import sharp from 'sharp'
import type { Picture } from './tissue'

const MASK_COLOURS = [
  [236, 236, 240],
  [52, 60, 150],
  [226, 120, 44],
] as const

/** A PNG of `of` x `of` pixels as a data address, from colours of [3, side, side]. */
const png = async (rgb: Uint8Array, side: number, of: number): Promise<string> => {
  const small = await sharp(rgb, { raw: { width: side, height: side, channels: 3 } })
    .resize(of, of)
    .png({ palette: true, colours: 64 })
    .toBuffer()
  return `data:image/png;base64,${small.toString('base64')}`
}

export const miniature = ({ side, pixels }: Picture, of: number): Promise<string> => {
  const area = side * side
  return png(
    Uint8Array.from({ length: 3 * area }, (_, i) => 255 * pixels[(i % 3) * area + Math.floor(i / 3)]!),
    side,
    of,
  )
}

export const maskMiniature = (mask: ArrayLike<number>, side: number, of: number): Promise<string> =>
  png(
    Uint8Array.from({ length: 3 * side * side }, (_, i) => MASK_COLOURS[mask[Math.floor(i / 3)]!]![i % 3]!),
    side,
    of,
  )

const WIDTH = 1000
const [THUMB, GAP, TOP] = [320, 20, 34]
const [LEFT, CHART_TOP, CHART_HEIGHT] = [84, 420, 190]
const CHART_WIDTH = WIDTH - LEFT - 16

const text = (x: number, y: number, words: string, more = ''): string => `<text x="${x}" y="${y}" ${more}>${words}</text>`

const thumb = (n: number, [title, image]: readonly [title: string, image: string]): string => {
  const x = n * (THUMB + GAP)
  return `${text(x, 22, title)}<image x="${x}" y="${TOP}" width="${THUMB}" height="${THUMB}" href="${image}"/>`
}

/** Memory over time: the plan's samples as steps, the budget, and the memory of the same step without a plan. */
const chart = ({ plan, timeline, staging }: Staged): string => {
  const inCore = staging.inCore.peakBytes
  const most = 1.06 * Math.max(inCore, plan.budgetBytes)
  const x = (seconds: number): string => (LEFT + (CHART_WIDTH * seconds) / timeline.makespanSeconds).toFixed(1)
  const y = (bytes: number): string => (CHART_TOP + CHART_HEIGHT * (1 - bytes / most)).toFixed(1)
  const steps = timeline.memory.map(({ time, pages }) => `H${x(time)}V${y(pages * PAGE_BYTES)}`).join('')
  const floor = y(0)
  const level = (bytes: number, name: string, words: string): string =>
    `<path class="${name}" d="M${LEFT} ${y(bytes)}h${CHART_WIDTH}"/>` +
    text(LEFT + CHART_WIDTH - 6, Number(y(bytes)) - 6, words, `text-anchor="end" class="${name}"`)
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const at = share * timeline.makespanSeconds
    return text(Number(x(at)), CHART_TOP + CHART_HEIGHT + 20, `${at.toFixed(2)} s`, 'text-anchor="middle" class="soft"')
  })
  return [
    `<path class="area" d="M${LEFT} ${floor}${steps}H${x(timeline.makespanSeconds)}V${floor}Z"/>`,
    level(inCore, 'incore', `the same step without a plan: ${showBytes(inCore)}`),
    level(plan.budgetBytes, 'budget', `budget: ${showBytes(plan.budgetBytes)}`),
    text(LEFT - 8, Number(y(0)), '0', 'text-anchor="end" class="soft"'),
    text(0, CHART_TOP - 18, 'Memory held by the device during one training step'),
    ...ticks,
  ].join('\n')
}

const MARGIN = 18
const [ACROSS, DOWN] = [WIDTH + 2 * MARGIN, CHART_TOP + CHART_HEIGHT + 34 + 2 * MARGIN]

/** The drawing has a white ground of its own, so it looks the same on dark pages. */
export const overview = (thumbs: readonly (readonly [title: string, image: string])[], staged: Staged): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="${-MARGIN} ${-MARGIN} ${ACROSS} ${DOWN}" font-family="system-ui, sans-serif" font-size="15">
<style>
text{fill:#3a3f46}.soft{fill:#6c727b;font-size:13px}
.area{fill:#5b8def;fill-opacity:.75}.incore,.budget{fill:none;stroke-width:1.5;stroke-dasharray:6 4}
.incore{stroke:#8a8f98}.budget{stroke:#c93a33}text.incore{fill:#6c727b;stroke:none}text.budget{fill:#c93a33;stroke:none}
</style>
<rect x="${-MARGIN}" y="${-MARGIN}" width="${ACROSS}" height="${DOWN}" rx="10" fill="#fff"/>
${thumbs.map((t, n) => thumb(n, t)).join('\n')}
${chart(staged)}
</svg>
`
