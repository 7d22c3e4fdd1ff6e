// The laboratory: the five papers' experiments on named machines in simulation. `npm run lab [-- SECTION …]` writes docs/lab/SECTION.json and its
// plots for the named sections (all by default), and docs/lab/README.md from all present files (`page` writes only that). SPILLWAY_FULL=1 takes every
// network, size and batch of the papers; otherwise a part of them. The page states the reason for each missing strategy or network.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ablation } from './ablation'
import { bars } from './bars'
import { causes } from './causes'
import { type Experiment, pageOf, type Report } from './page'
import { paper1 } from './paper1'
import { paper2 } from './paper2'
import { paper3 } from './paper3'
import { paper4 } from './paper4'
import { paper5 } from './paper5'
import { full } from './steps'

const FOLDER = join(__dirname, '../../docs/lab')

const experiments: Readonly<Record<string, Experiment>> = {
  paper1,
  paper2,
  paper3,
  paper4,
  paper5,
  causes,
  ablation,
  bars,
}

/** Only the page, from the reports that are there. */
const PAGE = 'page'

const run = (name: string, experiment: Experiment): void => {
  const began = performance.now()
  const plot = (file: string, svg: string): string => {
    writeFileSync(join(FOLDER, `${name}-${file}.svg`), svg)
    return `${name}-${file}.svg`
  }
  const report: Report = { scope: full ? 'whole' : 'part', ...experiment(plot) }
  writeFileSync(join(FOLDER, `${name}.json`), `${JSON.stringify(report, null, 1)}\n`)
  console.log(`${name}: ${((performance.now() - began) / 1000).toFixed(0)} s`)
}

const main = (): void => {
  const wanted = process.argv.slice(2)
  const unknown = wanted.find((w) => w !== PAGE && !experiments[w])
  if (unknown !== undefined)
    throw new Error(`there is no section '${unknown}'; allowed: ${[...Object.keys(experiments), PAGE].join(', ')}`)
  mkdirSync(FOLDER, { recursive: true })
  for (const [name, experiment] of Object.entries(experiments)) if (!wanted.length || wanted.includes(name)) run(name, experiment)
  const there = Object.keys(experiments).filter((name) => existsSync(join(FOLDER, `${name}.json`)))
  const reports = there.map((name) => JSON.parse(readFileSync(join(FOLDER, `${name}.json`), 'utf8')) as Report)
  writeFileSync(join(FOLDER, 'README.md'), pageOf(reports))
}

if (require.main === module) main()
