// What `plan` and `train` share: from the command line's words to a staged plan. In: MODEL and options. Out: the plan, staged
// now or read from a file, and its model.
import { type Either, isLeft, left, right } from 'fp-ts/Either'
import type { Loss } from '../../dsl'
import { ALLOCATORS, allocatorNamed } from '../../staging/memory/allocators/replay'
import type { Precision } from '../../staging/devices'
import { type Algorithms, precisionOf } from '../../staging/plan/plan'
import { type SpillwayError, unknownName, usage } from '../errors/errors'
import { modelMismatch } from '../stage/identity'
import { machineNamed, type MachineOptions } from '../machine/machine'
import { tryLoadPlan } from '../stage/planfile'
import { describePlan, type StagedPlan, stageGraph, trainingGraph } from '../stage/stage'
import { modelNamed, type NamedModel } from './model'
import { type InputOptions, type OptimizerOptions, optimizerOf, overrideOf } from './options'

export interface StagingOptions extends InputOptions, OptimizerOptions {
  readonly budget?: number
  readonly strategy?: string
  readonly machine?: string
  readonly allocator?: string
  readonly algorithms?: Algorithms
  readonly loss?: Loss
  readonly spill?: string
  readonly threads?: number
  readonly throttle?: number
  readonly precision?: Precision
  readonly plan?: string
}

export interface StagedModel {
  readonly named: NamedModel
  readonly staged: StagedPlan
}

/** What a plan file has decided already. */
const DECIDED = [
  'image',
  'batch',
  'budget',
  'strategy',
  'allocator',
  'algorithms',
  'precision',
  'loss',
  'optimizer',
  'lr',
  'momentum',
  'weightDecay',
] as const
/** What a step says itself. */
const STEPS_OWN = ['loss', 'optimizer', 'lr', 'momentum', 'weightDecay'] as const
const flagOf = (name: string): string => `--${name.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`

const machineOptions = (o: StagingOptions): MachineOptions => ({
  spill: o.spill,
  threads: o.threads,
  throttle: o.throttle,
  algorithms: o.algorithms,
  precision: o.precision,
})

const fromFile = (file: string, modelText: string, o: StagingOptions): Either<SpillwayError, StagedModel> => {
  const given = DECIDED.filter((k) => o[k] !== undefined)
  if (given.length) return left(usage(`${given.map(flagOf).join(', ')} cannot be given with --plan: the plan has decided it`))
  const loaded = tryLoadPlan(file)
  if (isLeft(loaded)) return loaded
  const plan = loaded.right
  const machine = machineNamed(plan.machine, { ...machineOptions(o), precision: precisionOf(plan) })
  if (isLeft(machine)) return machine
  const [b, , h, w] = plan.graph.values.find((v) => v.role === 'input')!.shape
  const named = modelNamed(modelText, { batch: b!, height: h!, width: w! })
  if (isLeft(named)) return named
  const mismatch = modelMismatch(named.right.model, plan)
  if (mismatch) return left(mismatch)
  return right({ named: named.right, staged: describePlan(plan, machine.right, o.spill ?? 'ram', 'pages', 0) })
}

export const stageNamed = (modelText: string, o: StagingOptions): Either<SpillwayError, StagedModel> => {
  if (o.plan !== undefined) return fromFile(o.plan, modelText, o)
  if (o.allocator !== undefined && isLeft(allocatorNamed(o.allocator)))
    return left(unknownName('allocator', o.allocator, ALLOCATORS))
  const named = modelNamed(modelText, overrideOf(o))
  if (isLeft(named)) return named
  const machine = machineNamed(o.machine ?? 'cpu', machineOptions(o))
  if (isLeft(machine)) return machine
  const { name, model, loss } = named.right
  const given = model.kind === 'step' ? STEPS_OWN.filter((k) => o[k] !== undefined) : []
  if (given.length)
    return left(usage(`${given.map(flagOf).join(', ')} cannot be given for a step: it has its own losses and optimizers`))
  const graph = trainingGraph(model, name, o.loss ?? loss, optimizerOf(o), machine.right)
  if (isLeft(graph)) return graph
  const { budget, strategy, allocator, algorithms, spill } = o
  const staged = stageGraph(graph.right, machine.right, { budget, strategy, allocator, algorithms, spill })
  return isLeft(staged) ? staged : right({ named: named.right, staged: staged.right })
}
