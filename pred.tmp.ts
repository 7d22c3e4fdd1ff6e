// usage: pred.ts CASE threads strategy budgetBytes|- STEPS TOP [agg]
import { CASES, stagedCase } from './bench/cpu/cases'
import { toTape } from './staging/plan/tape'
import { callShapes } from './staging/plan/expand'
import { loadNative } from './src/native'
import { learnFromSteps } from './src/machine'
const [name, thr, strategy, budget, steps, top, learnIt] = process.argv.slice(2)
const base = CASES.find(c => c.name === name)!
const c: any = { ...base, strategy: strategy === '-' ? undefined : strategy, budgetBytes: budget === '-' ? undefined : Number(budget) }
const t0 = performance.now()
const { plan, timeline } = stagedCase(c, Number(thr)).staged
console.log('staged in', ((performance.now() - t0) / 1000).toFixed(1), 'peak MiB', plan.peakPages * 2)
const native = loadNative()
native.forget()
const source = { kind: 'synthetic', samples: c.batch, classes: plan.graph.values.find((v: any) => v.role === 'target')?.dtype === 'i32' ? 10 : 1 } as const
const session = new native.Session(toTape(plan), { device: 'cpu', threads: Number(thr) })
for (const v of plan.graph.values) if (v.role === 'param' || v.role === 'state' || (v as any).persistent) try { session.init(v.name, 1) } catch {}
;(async () => {
  const ms: number[] = []
  const per: number[][] = plan.calls.map(() => [])
  const all: number[][] = plan.calls.map(() => [])
  for (let i = 0; i < Number(steps); i++) {
    const run: any = await session.run({ steps: 2, firstStep: 1 + 2 * i, seed: 1, source })
    ms.push(run.steps[1].seconds)
    if (run.quietCallSeconds) run.quietCallSeconds.forEach((s: number, k: number) => per[k]!.push(s))
    if (run.quietCallSeconds && learnIt) learnFromSteps(native, plan, run.quietCallSeconds, Number(thr))
  }
  const med = (x: number[]) => x.length ? [...x].sort((a, b) => a - b)[x.length >> 1]! : NaN
  console.log('predicted', timeline.makespanSeconds.toFixed(3), 'compute', timeline.computeSeconds.toFixed(3), 'measured', med(ms).toFixed(3), ms.map(m => m.toFixed(3)).join(' '))
  const sums = new Map<string, { p: number; m: number; n: number }>()
  const kinds = new Map<string, { p: number; m: number; n: number }>()
  plan.calls.forEach((call: any, k: number) => {
    const s = callShapes(plan.graph, call.ins, call.outs)
    const key = `${call.kind} ${call.algorithm ?? ''} ${s.ins.map(x => x.join('x')).join(',')}>${s.outs.map(x => x.join('x')).join(',')}`
    for (const [map, kk] of [[sums, key], [kinds, call.kind]] as const) {
      const e = map.get(kk) ?? { p: 0, m: 0, n: 0 }
      map.set(kk, { p: e.p + call.seconds, m: e.m + med(per[k]!), n: e.n + 1 })
    }
  })
  const show = (m: Map<string, { p: number; m: number; n: number }>, t: number) => [...m].sort((a, b) => Math.abs(b[1].m - b[1].p) - Math.abs(a[1].m - a[1].p)).slice(0, t).forEach(([k, e]) => console.log(`${(e.p * 1e3).toFixed(2)} -> ${(e.m * 1e3).toFixed(2)} ms x${e.n} ${(e.p / e.m).toFixed(2)} ${k}`))
  show(kinds, 14); console.log('--'); show(sums, Number(top))
  session.dispose()
})()
