// The known times of this machine's devices, and their learning. In: the addon, a number of threads, true to measure first. Out: timers over kept
// profiles, and their use in plans. Invariant: one profile a process for each number of threads.
import { callShapes } from '../../staging/plan/callcosts'
import type { Link } from '../../staging/graph/machine'
import type { Call, Plan } from '../../staging/plan/plan'
import type { Native } from '../device/native'
import type { LocalMachine, Measuring } from './localmachine'
import { cacheFolder } from '../files/cache'
import { cpuBuild, type KeptProfile, openProfile } from './profile'
import { isQuiet } from './quiet'
import { comparedBy, type Elsewhere, type SlowestTimer } from './slowest'
import { statedSeconds } from './stated'
import { asInSteps, learn, mean } from './steptimes'
import { CPU_SAMPLES, type HowKnown, type RoughTimes, type Timer, timer } from './timing'

export interface Timed {
  readonly profile: KeptProfile
  readonly times: Timer
}
/** By cache folder, number of threads, and when it is measured. */
const timed = new Map<string, Timed>()

/** The machine is checked for other work once a process. */
export const roughOf = ({ rough }: KeptProfile): RoughTimes => {
  let quiet: boolean | undefined
  return { seconds: rough, mayBeBetter: () => (quiet ??= isQuiet()) }
}
const AS_IT_IS = ({ rough }: KeptProfile): RoughTimes => ({ seconds: rough, mayBeBetter: () => false })

/** Before the first plan of a machine: the calls that it asks for first are its networks' own, and bring the others to scale. */
const FIRST_PLAN_SECONDS = 1

/** One profile a process for each number of threads: a call is measured once, even with disturbance. */
const profiles = new Map<string, KeptProfile>()
export const profileOf = (native: Native, threads: number): KeptProfile => {
  const key = `${cacheFolder()} ${threads}`
  const known = profiles.get(key) ?? openProfile(cpuBuild(native.deviceInfo()), threads)
  profiles.set(key, known)
  return known
}

/** Called after each measurement of planning that measures first: calls measured, their seconds, and the most seconds. */
export type MeasuringListener = (calls: number, seconds: number, most: number) => void
let listener: MeasuringListener | undefined
let [calls, spent] = [0, 0]
/** Sets the listener of this process. */
export const hearMeasuring = (received: MeasuringListener | undefined): void => {
  listener = received
}

/** Reports a measurement. */
const reported = <A>(most: number, measure: () => A): A => {
  const began = performance.now()
  const measured = measure()
  calls++
  spent += (performance.now() - began) / 1000
  listener?.(calls, spent, most)
  return measured
}

export const timesOf = (native: Native, threads: number, measuring: Measuring): Timed => {
  const key = `${cacheFolder()} ${threads} ${measuring}`
  const known = timed.get(key)
  if (known) return known
  const profile = profileOf(native, threads)
  const isCold = profile.measurements.size + profile.rough.size === 0
  const patienceSeconds = measuring === 'first' ? CPU_SAMPLES.patienceSeconds : isCold ? FIRST_PLAN_SECONDS : -1
  const inSteps = (call: string): number | undefined => {
    const taken = profile.inSteps.get(call)
    return taken?.length ? mean(taken) : undefined
  }
  const times = timer(
    profile.measurements,
    (call, way, inPlace) => reported(patienceSeconds, () => native.measure({ device: 'cpu', ...call, way, threads, inPlace })),
    'f32',
    { ...CPU_SAMPLES, patienceSeconds },
    measuring === 'first' ? roughOf(profile) : AS_IT_IS(profile),
    { stated: statedSeconds(threads), isInScale: true, inSteps },
  )
  timed.set(key, { profile, times })
  return { profile, times }
}

type Taught = Pick<
  LocalMachine,
  'timesOf' | 'measuringSeconds' | 'measureMore' | 'asInSteps' | 'learnFromSteps' | 'saveProfile' | 'compared'
>

/** The kept facts of a measured machine; steps of `n` threads have a profile of their own. `timer`: of the slowest of all. */
export const taughtBy = (
  { profile, times }: Timed,
  timer: SlowestTimer,
  link: Link,
  elsewhere: Elsewhere | undefined,
  profileFor: (n?: number) => KeptProfile = () => profile,
): Taught => {
  const slower =
    ({ graph }: Plan) =>
    (c: Call): number =>
      timer.slower(c.kind, c.attrs, callShapes(graph, c.ins, c.outs), c.way)
  const saveProfile = (): void => {
    if (times.isNew() || profile.isNew()) profile.save()
  }
  let countedSeconds = 0
  return {
    timesOf: (plan) => {
      const known: Record<HowKnown, number> = { measured: 0, roughly: 0, estimated: 0 }
      for (const c of plan.calls) known[times.howKnown(c.kind, c.attrs, callShapes(plan.graph, c.ins, c.outs), c.way)]++
      return known
    },
    measuringSeconds: () => {
      const before = countedSeconds
      countedSeconds = times.spent() + profile.linkSeconds()
      return countedSeconds - before
    },
    measureMore: (seconds) => {
      profile.measureLinks(seconds)
      times.measureMore(seconds)
      saveProfile()
    },
    asInSteps: (plan) => asInSteps(profile.inSteps, plan, elsewhere && slower(plan)),
    learnFromSteps: (plan, seconds, n) => {
      if (learn(profileFor(n).inSteps, plan, seconds, link)) profileFor(n).save()
    },
    saveProfile,
    compared: comparedBy(profile.name, times, timer, link, elsewhere),
  }
}

/** Plans go by stated times. */
export const UNTAUGHT: Taught = {
  timesOf: () => undefined,
  measuringSeconds: () => 0,
  measureMore: () => {},
  asInSteps: (plan) => plan,
  learnFromSteps: () => {},
  saveProfile: () => {},
}
