// Sections of the page of a run: classes, and samples with high losses.
import { showCount } from './format'
import { escapeHtml, scrolling } from './page'
import { metricText, numberText, section, tableOf } from './runcharts'
import type { Picture, PoorSample, RunView } from './runview'

const MOST_CLASSES = 200

const MOST_CROSSED = 24

const MOST_PAIRS = 30

const crossed = (confusion: readonly (readonly number[])[], name: (c: number) => string): string => {
  const sums = confusion.map((row) => row.reduce((n, x) => n + x, 0))
  const cell = (x: number, sum: number): string =>
    `<td class="n" style="--share:${sum > 0 ? Math.round((x / sum) * 100) : 0}%">${showCount(x)}</td>`
  const rows = confusion.map((row, c) => `<tr><th scope="row">${name(c)}</th>${row.map((x) => cell(x, sums[c]!)).join('')}</tr>`)
  return scrolling(
    'Confusion',
    `<table class="crossed"><caption>Confusion: labels (rows) and predicted classes (columns)</caption>` +
      `<thead><tr><td></td>${confusion.map((_, c) => `<th scope="col" class="n">${name(c)}</th>`).join('')}</tr></thead><tbody>${rows.join('')}</tbody></table>`,
    ' numbers',
  )
}

/** With many classes, the most frequent confusions. */
const pairs = (confusion: readonly (readonly number[])[], name: (c: number) => string): string => {
  const wrong = confusion.flatMap((row, label) =>
    row.flatMap((times, is) => (is === label || times === 0 ? [] : [{ label, is, times }])),
  )
  return tableOf(
    'Confusion: the labels with most errors',
    ['label', 'became', '#times'],
    [...wrong]
      .sort((a, b) => b.times - a.times)
      .slice(0, MOST_PAIRS)
      .map((w) => [name(w.label), name(w.is), showCount(w.times)]),
  )
}

export const classes = ({ details }: RunView): string => {
  const lists = Object.entries(details?.perClass ?? {})
  const { confusion, classes: names } = details ?? {}
  const count = confusion?.length ?? lists[0]?.[1].length ?? 0
  if (count === 0) return ''
  const name = (c: number): string => escapeHtml(names?.[c] ?? String(c))
  const labelled = confusion?.map((row) => row.reduce((n, x) => n + x, 0))
  const rows = Array.from({ length: Math.min(count, MOST_CLASSES) }, (_, c) => [
    name(c),
    ...(labelled ? [showCount(labelled[c]!)] : []),
    ...lists.map(([, list]) => metricText('', list[c]!)),
  ])
  return section(
    'classes',
    'Classes',
    `From the last evaluation.${count > rows.length ? ` ${showCount(count - rows.length)} more classes are not shown.` : ''}`,
    lists.length > 0
      ? tableOf('Metrics per class', ['class', ...(labelled ? ['#labels'] : []), ...lists.map(([n]) => `#${n}`)], rows)
      : '',
    confusion === undefined ? '' : count <= MOST_CROSSED ? crossed(confusion, name) : pairs(confusion, name),
  )
}

/** Pixels of the screen along the longer side, or nearly. */
const SHOWN = 144

const pictureHtml = ({ what, png, width, height }: Picture): string => {
  const scale = Math.max(1, Math.floor(SHOWN / Math.max(width, height)))
  return `<img src="data:image/png;base64,${png.toString('base64')}" width="${width * scale}" height="${height * scale}" alt="${escapeHtml(what)}">`
}

export const worst = ({ details }: RunView): string => {
  if (!details || details.worst.length === 0) return ''
  const one = ({ name, loss, label, answer, pictures }: PoorSample): string =>
    `<li><figure><div class="pictures">${pictures.map(pictureHtml).join('')}</div><figcaption><b>${escapeHtml(name)}</b>` +
    `<span>loss ${numberText(loss)}</span>${label === undefined ? '' : `<span>label ${escapeHtml(label)}</span>`}` +
    `${answer === undefined ? '' : `<span>answer ${escapeHtml(answer)}</span>`}` +
    `${pictures.length > 1 ? `<span>shown: ${pictures.map((p) => escapeHtml(p.what)).join('; ')}</span>` : ''}</figcaption></figure></li>`
  return section(
    'worst',
    'Worst samples',
    `From the last evaluation, by ${escapeHtml(details.worstBy)}, worst first.`,
    `<ol class="worst">${details.worst.map(one).join('')}</ol>`,
  )
}
