// A picture larger than its budget: the class of each pixel of 6000 x 4496, in 256 MiB, by weights that learnt from 64 x 64.
// Run with: npx ts-node examples/predict-page.ts (two minutes or less on two cores; it trains examples/segment.ts first, where that has not run)
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { mib, model, predict, showBytes, stage } from 'spillway'
import { page, RUNS } from './digits'
import { body, trained, WEIGHTS } from './segment'

const net = model([1, 1, 4496, 6000], body)
export default net

export const plan = stage(net, { mode: 'predict', as: 'classes', budget: mib(256) })

const main = async (): Promise<void> => {
  if (!existsSync(WEIGHTS)) await trained()
  console.log(
    `${showBytes(plan.staging.inCore.peakBytes)} whole; ${showBytes(mib(256))} here, in ${plan.plan.segments.length} segments`,
  )
  const began = performance.now()
  const { files } = await predict(net, plan, {
    weights: WEIGHTS,
    data: await page('page', 6000, 4496),
    out: join(RUNS, 'page-classes'),
    format: 'png',
  })
  console.log(`${files.join(', ')} in ${((performance.now() - began) / 1000).toFixed(0)} s`)
}

if (require.main === module) main()
