// A tiled plan against the untiled one: one step of each, gradients compared tensor by tensor. With momentum, a parameter's momentum after the first
// step is its gradient. In: a random network under a random tiling. Out: the largest difference in units of the tolerance, or undefined if the grids
// do not suit the network.
import { isLeft } from 'fp-ts/Either'
import * as assert from 'uvu/assert'
import { loadNative } from '../../src/device/native'
import { machineNamed } from '../../src/machine/machine'
import type { DeviceName } from '../../staging/devices'
import type { Graph } from '../../staging/graph/graph'
import type { Machine } from '../../staging/graph/machine'
import { type Plan, UNTILED } from '../../staging/plan/plan'
import { toTape } from '../../staging/plan/tape'
import { forwardOps } from '../../staging/tile/segments'
import { verify } from '../../staging/verify/verify'
import { type Case, groupsOf, planOf, trainingOf } from './plans'

/** The images are too small to share among cores. */
const THREADS = 1
const native = loadNative()

/** The device's workspaces; times are made up, for it is not speed that is tested. */
export const machine = (name: string): Machine => {
  const m = machineNamed(name, { algorithms: 'fixed', threads: THREADS })
  if (isLeft(m)) throw new Error(JSON.stringify(m.left))
  return { ...m.right, seconds: () => 1e-5 }
}

const machines = { ref: machine('ref'), cpu: machine('cpu') }

/** The results of one step: each parameter's gradient, each running statistic, the loss. */
export const stepOn = async (
  device: DeviceName,
  plan: Plan,
): Promise<{ readonly loss: number; readonly tensors: ReadonlyMap<string, ArrayLike<number>> }> => {
  const session = new native.Session(toTape(plan), { device, threads: THREADS })
  try {
    const states = session.bindings().filter((b) => b.role === 'param' || b.role === 'state')
    for (const b of states) session.init(b.name, 7)
    const ran = await session.run({ steps: 1, seed: 7, source: { kind: 'synthetic', seed: 7, samples: 2, classes: 3 } })
    assert.is(ran.arenaPeakBytes, session.facts().peakBytes)
    const tensors = new Map(
      states
        .filter((b) => b.role === 'state')
        .map((b) => {
          const bytes = session.read(b.name)
          return [
            b.name,
            b.dtype === 'f64' ? new Float64Array(bytes.slice().buffer) : new Float32Array(bytes.slice().buffer),
          ] as const
        }),
    )
    return { loss: ran.steps[0]!.loss, tensors }
  } finally {
    session.dispose()
  }
}

const norm = (a: ArrayLike<number>): number => Math.hypot(...Array.from(a))
const apart = (a: ArrayLike<number>, b: ArrayLike<number>): number => Math.hypot(...Array.from(a, (x, i) => x - b[i]!))

type Outcome = Awaited<ReturnType<typeof stepOn>>

const whole = (graph: Graph, m: Machine): Plan | undefined =>
  planOf(graph, [{ ops: forwardOps(graph).map((o) => o.id), grid: UNTILED }], 0, m)

/**
 * The largest difference, in units of the tolerance; NaN counts as infinite. If a network is ill-conditioned (a norm of values that hardly vary),
 * single precision has errors by itself: there tiles may have some times these errors.
 */
export const worstOf = (
  a: Outcome,
  b: Outcome,
  tolerance: number,
  off: (name: string) => number,
): { readonly worst: number; readonly name: string } => {
  const most = Math.max(...[...a.tensors.values()].map(norm))
  let worst = { worst: Math.abs(a.loss - b.loss) / (Math.abs(a.loss) * tolerance + 1e-30), name: 'loss' }
  for (const [name, x] of a.tensors) {
    // Behind a norm and a global mean a gradient is zero in truth, and rounding in practice.
    const allowed = Math.max(tolerance * Math.max(norm(x), 0.02 * most), off(name))
    const d = apart(x, b.tensors.get(name)!) / allowed
    if (!(d <= worst.worst)) worst = { worst: Number.isNaN(d) ? Infinity : d, name }
  }
  return worst
}

export const compare = async (device: 'ref' | 'cpu', c: Case, tolerance: number): Promise<number | undefined> =>
  compareWith(device, c.recipe, tolerance, (graph, m) => planOf(graph, groupsOf(graph, c.tiling), c.tiling.squeeze, m))

/** The same of any other plan of the network. */
export const compareWith = async (
  device: 'ref' | 'cpu',
  recipe: Case['recipe'],
  tolerance: number,
  other: (graph: Graph, machine: Machine) => Plan | undefined,
): Promise<number | undefined> => {
  const graph = trainingOf(recipe, device === 'ref' ? 'f64' : 'f32')
  const plans = [whole(graph, machines[device]), other(graph, machines[device])] as const
  if (!plans[0] || !plans[1]) return undefined
  for (const plan of plans) {
    const sound = verify(plan!)
    if (isLeft(sound)) throw new Error(JSON.stringify(sound.left))
  }
  const [a, b] = [await stepOn(device, plans[0]), await stepOn(device, plans[1])]
  const first = worstOf(a, b, tolerance, () => 0)
  if (first.worst <= 1 || device === 'ref') return first.worst
  const truth = await stepOn('ref', whole(trainingOf(recipe, 'f64'), machines.ref)!)
  const off = (name: string): number => 8 * apart(a.tensors.get(name)!, truth.tensors.get(name)!)
  return worstOf(a, b, tolerance, off).worst
}
