// A plan that was worked out before, checked against its model while this compiles. Run with: npx ts-node examples/plan-module.ts
// Change a kernel in slides.ts, or the device below to mib(8): neither compiles any more, and says why.
import { device, mib, run } from 'spillway'
import net from './slides'
import plan from './slides.plan'

const { strategy, peak, segments } = plan.head
console.log(`${strategy}: ${segments.length} segments, ${peak / 2 ** 20} MiB at the peak`)
run(net, plan, { steps: 2, device: device('slide scanner', mib(64)) }).then(({ losses, arenaPeakBytes }) => {
  if (arenaPeakBytes !== peak) throw new Error(`${arenaPeakBytes} bytes were held`)
  console.log(losses.map((l) => l.toFixed(4)).join(' '))
})
