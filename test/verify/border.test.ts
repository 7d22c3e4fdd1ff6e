// Pages that are loaded for the next step: their pairs, their owners, and the reader's own refusals of tapes.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { loadNative } from '../../src/device/native'
import { compile } from '../../staging/compile'
import { mib } from '../../staging/core/bytes'
import { renderError } from '../../staging/core/errors'
import { isForNext } from '../../staging/plan/ahead'
import { toTape } from '../../staging/plan/tape'
import { machines } from '../../staging/sim/machines'
import { trainingGraph } from '../golden/golden'
import type { MutablePlan } from './draft'
import { refuses } from './refused'

const compiled = compile(trainingGraph('resnet18', [4, 3, 64, 64]), {
  strategy: 'auto',
  machine: machines['v100-pcie-16g']!,
  budgetBytes: mib(1000),
})
if (isLeft(compiled)) throw new Error(renderError(compiled.left))
const { right: plan } = compiled
const overlapped = (): MutablePlan => structuredClone(plan) as MutablePlan
type Residency = MutablePlan['residencies'][number]

/** The next images. Images are fed again for the gradients of weights; labels are not. */
const forNext = (p: MutablePlan): Residency =>
  p.residencies.find((r) => isForNext(r, p.calls.length) && p.storages[r.storage]!.label === 'input')!
/** The same pages when the step begins, and when they are fed again. */
const ofStep = (p: MutablePlan): readonly [Residency, Residency] => {
  const { storage, from } = forNext(p)
  const [first, again] = p.residencies.filter((r) => r.storage === storage && r.from === from)
  return [first!, again!]
}
const without = (p: MutablePlan, r: Residency): void => void p.residencies.splice(p.residencies.indexOf(r), 1)

refuses('no step loads the first input', 'arriving', overlapped, (p) => without(p, forNext(p)), /the step before does not load/)
refuses('an input is loaded, and read again from the source', 'arriving', overlapped, (p) => {
  ofStep(p)[0].swapIn = { ready: 0, from: 'source' }
})
refuses('the next input is loaded into other pages', 'arriving', overlapped, (p) => {
  forNext(p).runs = structuredClone(ofStep(p)[1].runs)
})
refuses('the first input is taken late', 'arriving', overlapped, (p) => {
  const [first] = ofStep(p)
  without(p, first)
  first.acquire = 1
  first.release = Math.max(first.release, 2)
  p.residencies.splice(
    p.residencies.findIndex((r) => r.acquire > 1),
    0,
    first,
  )
})
refuses('nobody waits for the next input', 'arriving', overlapped, (p) => {
  forNext(p).swapIn!.ready = p.calls.length - 1
})
refuses('the next input is loaded twice', 'arriving', overlapped, (p) => {
  p.residencies.splice(p.residencies.indexOf(forNext(p)), 0, structuredClone(forNext(p)))
})
refuses('the next input overwrites that of the step', 'pages', overlapped, (p) => {
  ofStep(p)[0].release = forNext(p).acquire + 1
})
refuses('a value stays in the pages of the next input', 'pages', overlapped, (p) => {
  const { acquire, runs } = forNext(p)
  const [first] = ofStep(p)
  const over = p.residencies.find((r) => r.acquire >= first.release && r.acquire < acquire && r.release > acquire)!
  over.runs[0]!.page = runs[0]!.page
})
refuses('the step reads the input after its end', 'resident', overlapped, (p) => without(p, ofStep(p)[1]))
refuses('the next input is not counted', 'peak', overlapped, (p) => {
  p.peakPages++
})

const refusedTape = (name: string, edit: (p: MutablePlan) => void, words: RegExp): void =>
  test(`the reader refuses: ${name}`, () => {
    const p = overlapped()
    edit(p)
    assert.throws(() => new (loadNative().Session)(toTape(p), { device: 'cpu' }), words)
  })

refusedTape(
  'pages that are not filled for the next step',
  (p) => without(p, forNext(p)),
  /begins the step, but is not filled for the next/,
)
/** In a page that nothing else has. */
const alone = (p: MutablePlan): void => {
  const page = p.peakPages++
  for (const r of [ofStep(p)[0], forNext(p)]) r.runs = [{ page, count: 1 }]
  without(p, ofStep(p)[1])
}
refusedTape(
  'pages that are filled while the step holds them',
  (p) => {
    alone(p)
    ofStep(p)[0].release = forNext(p).acquire + 1
  },
  /is held already/,
)
refusedTape(
  'calls that read pages behind their release',
  (p) => {
    alone(p)
    forNext(p).acquire = p.calls.length - 1
  },
  /is not held/,
)
refusedTape(
  'calls that read the data of the next step',
  (p) => {
    alone(p)
    forNext(p).acquire = ofStep(p)[0].release
  },
  /is filled for the next step/,
)

test.run()
