// A staged network: its plan with a machine, a timeline and facts. In: a plan, a machine. Out: Staged.
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { inspect } from 'node:util'
import type { PlanMode, Trainable } from '../../dsl'
import { lowerBoundOf } from '../../staging/bound/lowerbound'
import { outline } from '../../staging/compile'
import { bytesOf } from '../../staging/core/bytes'
import { certain } from '../../staging/core/certain'
import type { Graph } from '../../staging/graph/graph'
import { mappingOf } from '../../staging/memory/allocators/replay'
import { instructions } from '../../staging/plan/instructions'
import { type Algorithms, type Plan, precisionOf } from '../../staging/plan/plan'
import { explained } from '../../staging/search/explain'
import { simulate } from '../../staging/sim/simulate'
import type { Timeline } from '../../staging/sim/timeline'
import type { Origin } from '../data/description'
import { orThrow } from '../errors/exceptions'
import { checkedPlaces, writing } from '../files/places'
import { writeWholeText } from '../files/whole'
import type { LocalMachine, MachineOptions } from '../machine/localmachine'
import type { Rank } from '../ranks/rank'
import type { Staging } from '../report/facts'
import { reportHtml } from '../report/html'
import { summary } from '../report/summary'
import { modeOf } from './mode'
import { processMemory } from './process'

/**
 * A plan with everything known about it: simulated times, facts of the planning, the machine.
 *
 * @example const seconds = (s: Staged) => s.timeline.makespanSeconds
 */
export interface Staged<M extends Trainable = Trainable, K extends PlanMode = PlanMode> {
  /** The model or step of the plan; absent for a plan from a file. */
  readonly model?: M
  /** The purpose of the plan. */
  readonly mode: K
  readonly plan: Plan
  readonly timeline: Timeline
  readonly staging: Staging
  /** Bytes of the device at the peak of a step. */
  readonly peakBytes: number
  /** Writes the plan's page to a file. @example stage(net, { budget: gib(4) }).report('plan.html') */
  readonly report: (path: string) => void
  readonly machine: LocalMachine
  /** The rank that runs the plan; absent in a single process. */
  readonly rank?: Rank
  /** The plan of each band of rows, if ranks share one image. `plan` is the first. */
  readonly family?: readonly Plan[]
  /** Names of the model on the command line, for the recipe of its weights. */
  readonly origin?: Origin
}

/** No step needs more: everything kept, nothing tiled, room for all of it. */
export const UNBOUNDED_BYTES = 2 ** 50

const inCoreOf = (graph: Graph, plan: Plan, machine: LocalMachine, algorithms: Algorithms): Staging['inCore'] => {
  const whole =
    plan.strategy === 'in-core'
      ? plan
      : certain('a model with any plan has an in-core plan')(
          outline(graph, { strategy: 'in-core', budgetBytes: UNBOUNDED_BYTES, machine, algorithms }),
        )
  return {
    peakBytes: bytesOf(whole.peakPages),
    computeSeconds: machine.asInSteps(whole).calls.reduce((n, c) => n + c.seconds, 0),
  }
}

/** Writes the page of a plan, with the alternatives of its decisions. */
function report(this: Pick<Staged, 'plan' | 'timeline' | 'staging' | 'machine'>, path: string): void {
  const { plan, timeline, staging, machine } = this
  const explanation = explained(plan, machine)
  const text = (): string => reportHtml(plan, timeline, explanation ? { ...staging, explanation } : staging)
  pipe(
    checkedPlaces([], writing('report', 'report', path)),
    E.flatMap(() => writeWholeText(path, text())),
    orThrow,
  )
}

/** `console.log` of a plan prints its summary. */
const PRINTED: object = {
  [inspect.custom](this: Staged): string {
    return summary(this.plan, this.timeline, this.staging)
  },
}

/** Completes a staged plan with its mode, its peak, its report and its printed form. */
export const withFacts = <S extends Omit<Staged, 'mode' | 'peakBytes' | 'report'>>(s: S): S & Staged => ({
  ...PRINTED,
  ...s,
  mode: modeOf(s.plan.graph),
  peakBytes: bytesOf(s.plan.peakPages),
  report,
})

type PlanningTimes = Pick<Staging, 'planningSeconds' | 'measuringSeconds'>

const NOT_PLANNED: PlanningTimes = { planningSeconds: 0, measuringSeconds: 0 }

/**
 * Returns a plan with its simulated times and facts, e.g. for a plan from a file.
 *
 * @param chosen The plan.
 * @param machine The machine.
 * @param allocator Allocator to simulate. Default 'pages'.
 * @param times Seconds of planning and measuring. Default 0.
 * @example const { timeline } = describePlan(loadPlan('plan.json'), plan.machine)
 */
export const describePlan = (chosen: Plan, machine: LocalMachine, allocator = 'pages', times = NOT_PLANNED): Staged => {
  const plan = machine.asInSteps(chosen)
  return withFacts({
    plan,
    machine,
    timeline: simulate(plan, machine.link, mappingOf(plan, allocator)),
    staging: {
      allocator,
      ...times,
      callTimes: machine.timesOf(chosen),
      link: machine.link,
      inCore: inCoreOf(plan.graph.inParts?.whole ?? plan.graph, plan, machine, plan.algorithms),
      bound: lowerBoundOf(plan.graph, machine, plan.budgetBytes),
      tier: machine.tier.kind,
      process: processMemory(plan, machine),
      instructions: instructions(plan).length,
    },
  })
}

/** A plan's options beside its machine's name. */
export const machineOptionsIn = ({ plan }: Pick<Staged, 'plan'>): MachineOptions => {
  const { ranks, bands, norms, shard } = plan.graph
  return {
    precision: precisionOf(plan),
    ranks,
    bands: bands?.of,
    band: bands?.at,
    norms,
    shard,
    network: undefined,
    over: plan.network,
  }
}

/** The same of one for each band, where there are several. */
export const describePlans = (
  plans: readonly Plan[],
  machine: LocalMachine,
  allocator = 'pages',
  times = NOT_PLANNED,
): Staged => ({
  ...describePlan(plans[0]!, machine, allocator, times),
  ...(plans.length > 1 ? { family: plans } : {}),
})
