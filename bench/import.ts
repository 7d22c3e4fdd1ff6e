// `npm run bench -- import`: the number of people's networks that `spillway import` takes. In: networks of torchvision, timm and
// segmentation-models-pytorch, as ONNX or as programs of torch.export. Out: "N of M" and the reasons of refusals; without names, into bench/results.
// `--survey`: programs of more families, for inference. `--losses`: a sample trains 20 steps on `cpu` and on `ref`, and the losses are compared with
// PyTorch's in single and in double precision. `--keep` keeps the files: the export takes most of the time. Invariant: a network that PyTorch cannot
// export does not count.
import { execFileSync, spawn } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { isLeft } from 'fp-ts/Either'
import { errorText } from '../src/errors/errors'
import { importedFrom, openModel } from '../src/exchange/import'
import { sourceText } from '../src/exchange/source'
import { begin, inFolder, record } from './sides'
import { argumentsOf, BENCHES } from './table'

const { given, named: names } = argumentsOf(BENCHES.import.networks)

const { script, exporters, states, result } = given.survey
  ? { script: 'programs.py', exporters: ['export'], states: ['eval'], result: 'survey' }
  : given.programs
    ? { script: 'programs.py', exporters: ['export'], states: ['train', 'eval'], result: 'programs' }
    : { script: 'networks.py', exporters: ['dynamo', 'legacy'], states: ['trained', 'untrained'], result: 'import' }

interface Exported {
  readonly name: string
  readonly exporter: string
  readonly state: string
  readonly file?: string
  readonly error?: string
}

/** Why the file is refused; undefined if it is taken. */
const refusal = (path: string): string | undefined => {
  const file = openModel(path)
  const made = isLeft(file) ? file : importedFrom(file.right, {})
  if (isLeft(made)) return errorText(made.left).replace(/^.*?\.(onnx|pt2) is refused: /, '')
  sourceText({ input: made.right.model.input, nets: made.right.nets, head: [] })
  return undefined
}

/** A file that was exported, and the reason if the import refuses it. */
interface Tried extends Exported {
  readonly why?: string | undefined
}

const triedIn = async (folder: string): Promise<readonly Tried[]> => {
  const tried: Tried[] = []
  const python = spawn(
    given.python,
    [join(__dirname, 'import', script), ...(given.survey ? ['--survey'] : []), folder, ...names],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
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

const resultOf = (tried: readonly Tried[], exporter: string, state: string) => {
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

// ---------------------------------------------------------------- losses

interface Sample {
  readonly name: string
  readonly folder: string
  readonly lr: number
  readonly steps: number
}

/** The largest difference of losses, relative to them. */
const apart = (a: readonly number[], b: readonly number[]): number =>
  Math.max(...b.map((w, i) => Math.abs((a[i] ?? NaN) - w) / Math.abs(w)))

const comparedIn = ({ name, folder, lr, steps }: Sample) => {
  const at = (file: string): string => join(folder, file)
  const spillway = (...args: readonly string[]): string =>
    execFileSync(process.execPath, [join(__dirname, '../scripts/spillway.js'), ...args], {
      cwd: folder,
      encoding: 'utf8',
      stdio: 'pipe',
    })
  spillway('import', at('net.pt2'), '--out', at('net.ts'), '--batch', '4')
  const training = ['--data', at('data'), '--steps', `${steps}`, '--lr', `${lr}`, '--momentum', '0.9']
  const lossesOn = (device: 'cpu' | 'ref'): readonly number[] => {
    const save = device === 'cpu' ? ['--save', at('trained.safetensors')] : []
    const options = ['--weights', at('net.safetensors'), '--loss', 'cross-entropy', '--device', device, '--json', ...save]
    return (JSON.parse(spillway('train', at('net.ts'), ...options, ...training)) as { readonly losses: readonly number[] }).losses
  }
  const { single, double } = JSON.parse(readFileSync(at('losses.json'), 'utf8')) as Readonly<Record<string, readonly number[]>>
  return {
    name,
    difference: apart(lossesOn('cpu'), single!),
    exact: apart(lossesOn('ref'), double!),
    own: apart(single!, double!),
    fall: 1 - double![steps - 1]! / double![0]!,
  }
}

const compared = (folder: string): void => {
  const lines = execFileSync(given.python, [join(__dirname, 'import/programs.py'), '--losses', folder, ...names], {
    encoding: 'utf8',
  })
  const samples = lines
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Sample)
  const results = samples.map((sample) => {
    const result = comparedIn(sample)
    const { name, difference, exact, own, fall } = result
    console.log(
      `${name}: ${sample.steps} losses differ from PyTorch's by at most ${difference.toExponential(1)} in single precision, by ` +
        `${exact.toExponential(1)} in double; PyTorch's own in single and in double by ${own.toExponential(1)}; they fall by ` +
        `${(100 * fall).toFixed(1)} %`,
    )
    return result
  })
  const strict = execFileSync(given.python, [join(__dirname, 'import/programs.py'), '--strict', folder, ...names], {
    encoding: 'utf8',
  })
  console.log(`trained weights in PyTorch, strict=True:\n${strict}`)
  if (names.length === 0) record('programs-losses', { results })
}

const counted = async (folder: string): Promise<void> => {
  const tried = await triedIn(folder)
  const results = exporters.flatMap((exporter) => states.map((state) => resultOf(tried, exporter, state)))
  for (const { exporter, state, taken, of } of results) console.log(`${exporter}, ${state}: ${taken} of ${of} networks import`)
  if (names.length === 0) record(result, { results })
}

const main = (folder: string): void | Promise<void> => (given.losses ? compared(folder) : counted(folder))

void begin(() => (given.keep === undefined ? inFolder('import', main) : main(given.keep)))
