// The common part of `plan` and `train`: from the command line's words to a staged plan. In: MODEL and options. Out: the plan, staged now or read
// from a file, and its model.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Graph } from '../../staging/graph/graph'
import { asOne, ranksOf } from '../../staging/graph/ranks'
import { updatesOf } from '../../staging/ops/updates'
import { type SpillwayError, usage } from '../errors/errors'
import { belonging } from '../stage/identity'
import type { LocalMachine, MachineOptions } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import { showSize } from '../report/format'
import { tryLoadPlans } from '../stage/planfile'
import { smallerOf, type Subject } from '../stage/largest'
import { type Named, prepare, type Prepared, prepareEvaluation, preparePrediction } from '../stage/prepare'
import type { StageAsked } from '../stage/stageoptions'
import { describePlans, machineOptionsIn, type Staged } from '../stage/staged'
import { stagedOverRanks, stagePrepared } from '../stage/stage'
import { modelNamed, type NamedModel } from './model'
import { flagOf, type InputOptions, knownAllocator, overrideOf } from './options'
import { lossOf, OWN_OPTIONS, type OwnOptions, optimizerOf, suggestingLoss } from './own'
import { quoted } from './output'
import { openMachine, planShown, readModel } from './phases'

export interface StagingOptions
  extends InputOptions,
    OwnOptions,
    MachineOptions,
    Pick<StageAsked, 'budget' | 'strategy' | 'effort' | 'machine' | 'allocator' | 'resumes' | 'mode' | 'as'> {
  readonly plan?: string
}

export interface StagedModel {
  readonly named: NamedModel
  readonly staged: Staged
}

/** The options that a plan file sets. */
const DECIDED = [
  'image',
  'batch',
  'budget',
  'strategy',
  'effort',
  'allocator',
  'algorithms',
  'precision',
  'network',
  'bands',
  'norms',
  'shard',
  ...OWN_OPTIONS,
] as const

/** Checks of a step before it is planned. */
type Beforehand = (graph: Graph) => Either<SpillwayError, void>
const NOTHING: Beforehand = () => E.right(undefined)

const fromFile = (
  file: string,
  modelText: string,
  o: StagingOptions,
  beforehand: Beforehand,
): Either<SpillwayError, StagedModel> => {
  const given = DECIDED.filter((k) => o[k] !== undefined)
  if (given.length) return E.left(usage(`${given.map(flagOf).join(', ')} cannot be used with --plan: the plan sets it already`))
  return pipe(
    tryLoadPlans(file),
    E.map((plans) => ({ plans, plan: plans[0]! })),
    E.filterOrElseW(
      ({ plan }) => ranksOf(plan.graph) === (o.ranks ?? 1),
      ({ plan }) => usage(`the plan is for ${ranksOf(plan.graph)} ranks, but this run has ${o.ranks ?? 1}`),
    ),
    E.bind('machine', ({ plan }) => machineNamed(plan.machine, { ...o, ...machineOptionsIn({ plan }) })),
    E.bind('named', ({ plan }) => {
      const [batch, , height, width] = asOne(plan.graph).values.find((v) => v.role === 'input')!.shape
      return modelNamed(modelText, { ...overrideOf({ classes: o.classes }), batch, height, width })
    }),
    E.tap(({ named, plan, machine }) => belonging(named.model, plan, machine)),
    E.tap(({ plan }) => beforehand(plan.graph)),
    E.map(({ named, plans, machine }) => ({ named, staged: describePlans(plans, machine) })),
  )
}

/** Training, prediction, or evaluation. */
const PREPARING = { train: prepare, predict: preparePrediction, evaluate: prepareEvaluation } as const

const trainsAs = ({ mode = 'train', as, ranks, bands }: StagingOptions): Either<SpillwayError, void> =>
  mode !== 'train' && (ranks ?? bands) !== undefined
    ? E.left(usage(`${ranks === undefined ? '--bands' : '--ranks'} applies to training; --mode ${mode} does not train`))
    : mode === 'train' && as !== undefined
      ? E.left(usage(`--as ${as} needs --mode predict or --mode evaluate`))
      : E.right(undefined)

/** A model, its machine, and the options of its step. */
export interface NamedStep {
  readonly named: NamedModel
  readonly machine: LocalMachine
  readonly own: Named
}

export interface PreparedModel extends NamedStep {
  readonly prepared: Prepared
}

/** Checks the words of the command line, and builds the model. */
export const namedStep = (modelText: string, o: StagingOptions): Either<SpillwayError, NamedStep> => {
  const { mode = 'train' } = o
  return pipe(
    knownAllocator(o.allocator ?? 'pages'),
    E.flatMap(() => trainsAs(o)),
    E.flatMap(() => readModel(modelText, { ...overrideOf(o), ...(mode === 'train' ? {} : { mode: 'predict' }) })),
    E.bindTo('named'),
    E.bind('loss', ({ named }) => lossOf(o, named.loss)),
    E.bind('optimizer', () => optimizerOf(o)),
    E.bind('machine', () => openMachine(o.machine, o)),
    E.map(({ named, loss, optimizer, machine }) => ({
      named,
      machine,
      own: {
        ...(mode === 'predict' ? {} : { loss }),
        optimizer,
        ...updatesOf(o),
        name: named.name,
        beside: OWN_OPTIONS.filter((k) => o[k] !== undefined).map(flagOf),
      },
    })),
  )
}

/** Everything that comes before planning. */
export const prepareNamed = (modelText: string, o: StagingOptions): Either<SpillwayError, PreparedModel> => {
  const { mode = 'train', as } = o
  return pipe(
    namedStep(modelText, o),
    E.bind('prepared', ({ named, machine, own }) =>
      PREPARING[mode](named.model, machine, { ...own, ...(as === undefined ? {} : { as }) }),
    ),
  )
}

/** The model at any size, with the options of its step. */
export const subjectOf = (
  text: string,
  o: Pick<StagingOptions, 'classes'>,
  { machine, own }: NamedStep,
  { graph }: Prepared,
): Subject => ({
  at: ([batch, , height, width]) =>
    pipe(
      modelNamed(text, { ...overrideOf({ classes: o.classes }), batch, height, width }),
      E.map(({ model }) => model),
    ),
  base: graph.values.find((v) => v.role === 'input')!.shape as Subject['base'],
  own,
  machine,
})

/** The options of a refused step that change the answers of `fits`. */
const OF_FITS = [...OWN_OPTIONS, 'classes', 'precision', 'machine', 'spill'] as const

const flagsFor = (name: string, value: unknown): readonly string[] => {
  if (value === undefined) return []
  if (value === true) return [flagOf(name)]
  const numbers = Array.isArray(value) && typeof value[0] === 'number'
  return (numbers ? [value.join(',')] : [value].flat()).map((each) => `${flagOf(name)} ${quoted(String(each))}`)
}

const sizeFlag = (name: string, bytes: number | undefined): readonly string[] =>
  flagsFor(name, bytes === undefined ? undefined : showSize(bytes).replaceAll(' ', ''))

/** Adds a smaller batch and image that fit to the refusal of a training step, and the command that finds the largest ones. */
const withSizes =
  (text: string, o: StagingOptions, step: NamedStep, prepared: Prepared) =>
  (e: SpillwayError): SpillwayError => {
    const { mode = 'train', image, batch, hostMemory, strategy = 'auto' } = o
    if (e.tag !== 'BudgetInfeasible' || e.reason !== undefined || mode !== 'train' || step.named.model.kind !== 'model') return e
    const flags = [
      ...flagsFor('image', image?.join('x')),
      ...flagsFor('batch', batch),
      ...OF_FITS.flatMap((name) => flagsFor(name, o[name])),
      ...sizeFlag('hostMemory', hostMemory),
      ...sizeFlag('in', e.budgetBytes),
    ]
    const smaller = strategy === 'auto' ? smallerOf(subjectOf(text, o, step, prepared), e.budgetBytes) : {}
    const sizes = [
      ...flagsFor('batch', smaller.batch?.[0]),
      ...flagsFor('image', smaller.image && [...new Set(smaller.image.slice(2))].join('x')),
    ]
    return { ...e, ...(sizes.length > 0 ? { sizes } : {}), sizesBy: ['spillway fits', quoted(text), ...flags].join(' ') }
  }

export const stageNamed = (modelText: string, o: StagingOptions, beforehand = NOTHING): Either<SpillwayError, StagedModel> => {
  const { plan, budget, strategy, effort, allocator, algorithms, spill, resumes } = o
  return plan !== undefined
    ? fromFile(plan, modelText, o, beforehand)
    : pipe(
        prepareNamed(modelText, o),
        E.tap(({ named, prepared }) => suggestingLoss(o, named.loss)(beforehand(prepared.graph))),
        E.bind('staged', (step) =>
          pipe(
            planShown(step.named.name, () =>
              (o.shard === undefined ? stagedOverRanks : stagePrepared)(step.prepared, {
                budget,
                strategy,
                effort,
                allocator,
                algorithms,
                spill,
                resumes,
              }),
            ),
            E.mapLeft(withSizes(modelText, o, step, step.prepared)),
          ),
        ),
      )
}
