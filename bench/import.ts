// `npm run bench:import -- --python PATH [--keep FOLDER] [NAME …]`: the number of people's networks that `spillway import` takes. In: networks of torchvision, timm and
// segmentation-models-pytorch, as both exporters of PyTorch write them, untrained and trained (bench/import/networks.py). Out: "N of M" for each, and
// the first reason of each refusal; without names, into bench/results/import.json. `--keep` keeps the files for the next run: the export takes most of
// the time. Invariant: a network that PyTorch cannot export does not count.
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import { isLeft } from 'fp-ts/Either'
import { errorText } from '../src/errors/errors'
import { importedFrom } from '../src/exchange/import'
import { readOnnx } from '../src/exchange/read'
import { sourceText } from '../src/exchange/source'
import { record } from './sides'

const EXPORTERS = ['dynamo', 'legacy'] as const
const STATES = ['trained', 'untrained'] as const

const { values: given, positionals: names } = parseArgs({
  options: { python: { type: 'string', default: 'python3' }, keep: { type: 'string' } },
  allowPositionals: true,
})

interface Exported {
  readonly name: string
  readonly exporter: string
  readonly state: string
  readonly file?: string
  readonly error?: string
}

/** Why the file is refused; undefined if it is taken. */
const refusal = (path: string): string | undefined => {
  const file = readOnnx(path)
  const made = isLeft(file) ? file : importedFrom(file.right, {})
  if (isLeft(made)) return errorText(made.left).replace(/^.*?\.onnx is refused: /, '')
  sourceText({ input: made.right.model.input, nets: made.right.nets, head: [] })
  return undefined
}

interface Result {
  readonly exporter: string
  readonly state: string
  readonly taken: number
  readonly of: number
  readonly refused: Readonly<Record<string, string>>
  readonly notExported: readonly string[]
}

/** A file that was exported, and the reason if the import refuses it. */
interface Tried extends Exported {
  readonly why?: string | undefined
}

const triedIn = async (folder: string): Promise<readonly Tried[]> => {
  const tried: Tried[] = []
  const script = join(__dirname, 'import/networks.py')
  const python = spawn(given.python, [script, folder, ...names], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = new Promise<number | null>((resolve, reject) => python.on('error', reject).on('close', resolve))
  for await (const line of createInterface({ input: python.stdout })) {
    const one = JSON.parse(line) as Exported
    const why = one.file === undefined ? undefined : refusal(one.file)
    if (one.file !== undefined && given.keep === undefined) rmSync(one.file)
    tried.push({ ...one, why })
    console.log(`${one.exporter}, ${one.state}: ${one.name} ${one.error ?? why ?? 'is imported'}`)
  }
  const code = await ended
  if (code !== 0) throw new Error(`${given.python} ${script} ended with ${code}: install the packages that its first lines name`)
  return tried
}

const resultOf = (tried: readonly Tried[], exporter: string, state: string): Result => {
  const mine = tried.filter((t) => t.exporter === exporter && t.state === state)
  const exported = mine.filter((t) => t.file !== undefined)
  const refused = exported.flatMap((t) => (t.why === undefined ? [] : [[t.name, t.why] as const]))
  const notExported = mine.filter((t) => t.file === undefined).map((t) => t.name)
  return {
    exporter,
    state,
    taken: exported.length - refused.length,
    of: exported.length,
    refused: Object.fromEntries(refused),
    notExported,
  }
}

const main = async (): Promise<void> => {
  const folder = given.keep ?? mkdtempSync(join(tmpdir(), 'spillway-import-'))
  const tried = await triedIn(folder).finally(() => given.keep === undefined && rmSync(folder, { recursive: true }))
  const results = EXPORTERS.flatMap((exporter) => STATES.map((state) => resultOf(tried, exporter, state)))
  for (const { exporter, state, taken, of } of results) console.log(`${exporter}, ${state}: ${taken} of ${of} networks import`)
  if (names.length === 0) record('import', { results })
}

void main()
