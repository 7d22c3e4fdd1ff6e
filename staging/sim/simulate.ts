// Runs a plan's instructions on a machine's clock (DESIGN 7): one compute stream, one link out, one link in. In: a plan and
// a link. Out: the timeline. Calls carry their seconds; copies take latency plus bytes over bandwidth, and share the link
// where it is not full duplex: what overlaps the other direction then runs after it.
// Worked example: call a (1 s), copy out 3 s, call b (1 s), wait: the step takes 1 + 3 s, of which 2 s are a stall.
import { PAGE_BYTES } from '../core/bytes'
import type { Link } from '../graph/machine'
import { instructions, isForEver } from '../plan/instructions'
import type { Plan } from '../plan/plan'
import type { MemorySample, Span, Timeline } from './timeline'

export const simulate = (plan: Plan, link: Link): Timeline => {
  const spans: Span[] = []
  const memory: MemorySample[] = []
  const doneAt = new Map<string, number>()
  const stall = { memory: 0, data: 0 }
  const free = { out: 0, in: 0 }
  let now = 0
  let compute = 0
  let held = 0
  for (const r of plan.residencies) if (isForEver(plan, r)) held += r.to - r.from
  memory.push({ time: 0, pages: held })
  const hold = (pages: number): void => {
    held += pages
    const last = memory[memory.length - 1]!
    if (last.time === now) memory[memory.length - 1] = { time: now, pages: held }
    else memory.push({ time: now, pages: held })
  }
  const copy = (stream: 'out' | 'in', residency: number): void => {
    const r = plan.residencies[residency]!
    const rate = stream === 'out' ? link.outBytesPerSecond : link.inBytesPerSecond
    const start = Math.max(now, free[stream], link.fullDuplex ? 0 : Math.max(free.out, free.in))
    const end = start + link.latencySeconds + ((r.to - r.from) * PAGE_BYTES) / rate
    free[stream] = end
    doneAt.set(`${stream}${residency}`, end)
    spans.push({ stream, start, end, residency, label: plan.storages[r.storage]!.label })
  }
  const wait = (key: string, cause: 'memory' | 'data'): void => {
    const end = doneAt.get(key) ?? 0
    if (end > now) {
      stall[cause] += end - now
      now = end
    }
  }
  for (const i of instructions(plan)) {
    switch (i.tag) {
      case 'call': {
        const call = plan.calls[i.call]!
        const label = call.op >= 0 ? plan.graph.ops[call.op]!.layer : call.kind
        spans.push({ stream: 'compute', start: now, end: now + call.seconds, call: i.call, label })
        now += call.seconds
        compute += call.seconds
        break
      }
      case 'acquire': hold(plan.residencies[i.residency]!.to - plan.residencies[i.residency]!.from); break
      case 'release': hold(plan.residencies[i.residency]!.from - plan.residencies[i.residency]!.to); break
      case 'copyOut': copy('out', i.residency); break
      case 'copyIn': copy('in', i.residency); break
      case 'waitOut': wait(`out${i.residency}`, 'memory'); break
      case 'waitIn': wait(`in${i.residency}`, 'data'); break
      case 'mark': break
    }
  }
  return { makespanSeconds: now, computeSeconds: compute, stallSeconds: stall, spans, memory }
}
