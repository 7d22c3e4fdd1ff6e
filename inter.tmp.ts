import { CASES } from './bench/cpu/cases'
import { ours, sample, noSamples, median, type OurStep, type Told } from './bench/cpu/sides'
const [name, rounds, ...plans] = process.argv.slice(2)
const base = CASES.find(c => c.name === name)!
const o: any = { python: '', threads: 2, rounds: Number(rounds), keepBusy: false, modes: [], folder: '/tmp' }
;(async () => {
  const ws: any[] = []
  for (const p of plans) {
    const [strategy, budget] = p.split('=')
    const w = ours(budget ? { ...base, strategy, budgetBytes: Number(budget) } as any : base, o)
    ws.push({ p, w, told: await w.answer<Told>(), q: noSamples<OurStep>(), all: noSamples<OurStep>() })
    await w.ask('step')
  }
  for (let i = 0; i < Number(rounds); i++) for (const x of ws) await sample(x.w, x.q, o, x.all)
  for (const x of ws) {
    const of = (f: any) => median(x.all.kept.map(f))
    console.log(x.p, 'predicted', x.told.predictedSeconds.toFixed(3), 'compute', x.told.predictedComputeSeconds.toFixed(3), 'measured', of((s: any) => s.seconds).toFixed(3), 'kernels', of((s: any) => s.kernelSeconds).toFixed(3), 'stalls', of((s: any) => s.stallMemorySeconds + s.stallDataSeconds).toFixed(3), 'kept', x.q.kept.length, 'dropped', x.q.dropped, x.all.kept.map((s: any) => s.seconds.toFixed(2)).join(' '))
    await x.w.end()
  }
})()
