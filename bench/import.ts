// `npm run bench:import -- --python PATH [NAME …]`: the number of people's networks that `spillway import` takes. In: networks of torchvision, timm and
// segmentation-models-pytorch, as both exporters of PyTorch write them, untrained and trained (bench/import/networks.py). Out: "N of M" for each, and
// the first reason of each refusal; without names, into bench/results/import.json. Invariant: a network that PyTorch cannot export does not count.
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
  options: { python: { type: 'string', default: 'python3' } },
  allowPositionals: true,
})

interface Exported {
  readonly name: string
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

const measured = async (exporter: string, state: string): Promise<Result> => {
  const folder = mkdtempSync(join(tmpdir(), 'spillway-import-'))
  const refused: Record<string, string> = {}
  const notExported: string[] = []
  let of = 0
  try {
    const script = join(__dirname, 'import/networks.py')
    const python = spawn(given.python, [script, folder, exporter, state, ...names], { stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = new Promise<number | null>((resolve, reject) => python.on('error', reject).on('close', resolve))
    for await (const line of createInterface({ input: python.stdout })) {
      const { name, file } = JSON.parse(line) as Exported
      if (file === undefined) {
        notExported.push(name)
        continue
      }
      of++
      const why = refusal(file)
      rmSync(file)
      if (why !== undefined) refused[name] = why
      console.log(`${exporter}, ${state}: ${name} ${why ?? 'is imported'}`)
    }
    const code = await ended
    if (code !== 0)
      throw new Error(`${given.python} ${script} ended with ${code}: install the packages that its first lines name`)
  } finally {
    rmSync(folder, { recursive: true })
  }
  return { exporter, state, taken: of - Object.keys(refused).length, of, refused, notExported }
}

const main = async (): Promise<void> => {
  const results: Result[] = []
  for (const exporter of EXPORTERS) for (const state of STATES) results.push(await measured(exporter, state))
  for (const { exporter, state, taken, of } of results) console.log(`${exporter}, ${state}: ${taken} of ${of} networks import`)
  if (names.length === 0) record('import', { results })
}

void main()
