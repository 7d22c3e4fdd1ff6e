// A picture of one run's steps. In: seconds by step, and the peer's. Out: an SVG file. The first step, which draws its data and loads
// kernels, stands in words: beside it all others would lie on the axis.
'use strict'
const fs = require('node:fs')

const W = 640,
  H = 260,
  LEFT = 76,
  TOP = 34,
  BOTTOM = 38

const plotSteps = (file, title, [first, ...seconds], peer) => {
  const most = Math.max(0, ...seconds, peer ?? 0) * 1.1 || 1
  const x = (i) => LEFT + ((W - LEFT - 12) * i) / Math.max(1, seconds.length - 1)
  const y = (s) => TOP + (H - TOP - BOTTOM) * (1 - s / most)
  const dots = seconds.map((s, i) => `<circle cx="${x(i).toFixed(1)}" cy="${y(s).toFixed(1)}" r="3" fill="#1f5fa8"/>`).join('')
  const line = peer
    ? `<line x1="${LEFT}" x2="${W - 12}" y1="${y(peer).toFixed(1)}" y2="${y(peer).toFixed(1)}" stroke="#b5482a" stroke-dasharray="5 4"/><text x="${W - 14}" y="${(y(peer) - 5).toFixed(1)}" text-anchor="end" fill="#b5482a">PyTorch's best</text>`
    : ''
  const ticks = [0, 0.5, 1]
    .map(
      (f) =>
        `<text x="${LEFT - 8}" y="${(y(most * f) + 4).toFixed(1)}" text-anchor="end">${(most * f * 1000).toFixed(1)} ms</text><line x1="${LEFT}" x2="${W - 12}" y1="${y(most * f).toFixed(1)}" y2="${y(most * f).toFixed(1)}" stroke="#ddd"/>`,
    )
    .join('')
  const words = `steps 2 to ${seconds.length + 1}; the first took ${(first * 1000).toFixed(0)} ms`
  fs.writeFileSync(
    file,
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${W} ${H}" font-family="sans-serif" font-size="12"><title>${title}: milliseconds by step</title><rect width="${W}" height="${H}" fill="#fff"/><text x="${LEFT}" y="20" font-size="14">${title}: milliseconds by step</text><text x="${LEFT}" y="${H - 12}" fill="#555">${words}</text>${ticks}${line}${dots}</svg>\n`,
  )
}

module.exports = { plotSteps }
