// `npm run bench -- memory --suite spill`: how fast a spill file in the folder is read and written, by one request at a time (as a loop of pread and
// pwrite does it), by threads, and by io_uring with several under way. In: a folder, default the system's for temporary files. Out: a table and
// bench/results/spill.json: medians of three rounds in turns, in bytes a second. Invariant: requests go past the page cache, to a file that was set
// aside before; the disk may be shared: the spread is told.
import { execFileSync } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { median, record, ROOT } from './sides'

const BUILD = join(ROOT, 'build/addon')
const ROUNDS = 3
const RATES = ['firstWrite', 'write', 'read', 'bothWrite', 'bothRead'] as const

type Row = { readonly way: string; readonly depth: number; readonly requestBytes: number } & Readonly<
  Record<(typeof RATES)[number], number>
>

const folder = process.argv[2] ?? tmpdir()
execFileSync('cmake', ['--build', BUILD, '--target', 'spill_rate'], { stdio: 'ignore' })
const rounds = Array.from({ length: ROUNDS }, () =>
  execFileSync(join(BUILD, 'spill_rate'), [folder], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Row),
)
const ways = rounds[0]!.map(({ way, depth, requestBytes }, i) => {
  const of = (r: (typeof RATES)[number]) => rounds.map((rows) => rows[i]![r])
  const rates = Object.fromEntries(
    RATES.map((r) => [r, { median: median(of(r)), least: Math.min(...of(r)), most: Math.max(...of(r)) }]),
  )
  const shown = RATES.map((r) => `${r} ${(rates[r]!.median / 1e9).toFixed(2)}`).join('  ')
  console.log(`${way.padEnd(14)} ${depth} x ${requestBytes / 2 ** 20} MiB  GB/s: ${shown}`)
  return { way, depth, requestBytes, ...rates }
})
record('spill', { ways })
