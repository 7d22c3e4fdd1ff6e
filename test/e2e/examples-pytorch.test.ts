// timeout 400
// The examples that learn, beside PyTorch: from the same weights and the same batches, the losses of the first steps. Rounding differences of two
// processors grow from step to step: `fine-tune`, at a rate of 0.1 with momentum, is 1e-5 away after ten steps and 4e-4 after twenty. `npm run
// bench -- learning` compares the results of ten trainings.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { EXAMPLES } from '../../bench/examples'
import { fit } from '../../src'
import { fewOrAll } from '../full'

const fixture = JSON.parse(readFileSync(join(__dirname, '../fixtures/examples.json'), 'utf8')) as Readonly<
  Record<string, { readonly losses: readonly number[] }>
>

test('every example that learns has its losses', () => {
  assert.equal(Object.keys(fixture).sort(), Object.keys(EXAMPLES).sort())
})

const examples = Object.entries(EXAMPLES)
const few = examples.filter(([name]) => ['fine-tune', 'segment'].includes(name))
for (const [name, open] of fewOrAll(few, examples))
  test(`${name} learns as PyTorch does`, async () => {
    const { net, plan, how, data } = await open()
    const { losses } = fixture[name]!
    const ours: number[] = []
    for await (const event of fit(net, plan, { ...how, data, seed: 1 })) {
      if (event.kind === 'step') ours.push(event.loss)
      if (ours.length === losses.length) break
    }
    for (const [step, loss] of losses.entries()) {
      const most = (step < 10 ? 5e-5 : 1e-3) * Math.max(1, loss)
      assert.ok(Math.abs(ours[step]! - loss) <= most, `step ${step + 1}: ${ours[step]}, PyTorch's ${loss}`)
    }
  })

test.run()
