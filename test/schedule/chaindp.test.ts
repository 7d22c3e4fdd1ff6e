// The programme for chains against every schedule: small random chains, some with values that several later stages read, as in a dense block; each
// tree of decisions written as actions and run by a simulator that counts held values.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Action, ALL_RULES, type ChainStage, solveChain } from '../../staging/schedule/chaindp'
import { everySchedule } from './schedules'

// ---------------------------------------------------------------- one schedule

/** Peak and seconds of a list of actions. A stage's passed values are held to the last use before they are made again. */
const run = (stages: readonly ChainStage[], actions: readonly Action[]): { readonly peak: number; readonly seconds: number } => {
  const ran = new Set<number>()
  const saved = new Map<number, number>()
  const passed = new Set<number>()
  let gradient = stages[stages.length - 1]!.gradient
  let peak = 0
  let seconds = 0
  /** The part of a stage's values that the actions from `from` on read: the next stages read the first of its parts, later ones fewer. */
  const needed = (stage: number, from: number): number => {
    const end = actions.findIndex((x, at) => at >= from && x.stage === stage && x.tag !== 'backward')
    const readers = actions.slice(from, end < 0 ? undefined : end).map((x) => x.stage - stage - 1)
    return Math.max(0, ...readers.map((distance) => stages[stage]!.crossing[distance] ?? 0))
  }
  actions.forEach((x, at) => {
    const s = stages[x.stage]!
    const held = (from: number): number =>
      [...passed].reduce((n, i) => n + needed(i, from), 0) + [...saved.values()].reduce((n, v) => n + v, 0)
    if (x.tag !== 'backward') passed.delete(x.stage)
    if (x.tag === 'backward') {
      saved.delete(x.stage)
      peak = Math.max(peak, held(at) + s.options[x.option]!.backwardPeak)
      seconds += s.options[x.option]!.backwardSeconds
      gradient = stages[x.stage - 1]?.gradient ?? 0
    } else {
      seconds += ran.has(x.stage) ? s.againSeconds : s.firstSeconds
      ran.add(x.stage)
      peak = Math.max(peak, held(at) + gradient + (x.tag === 'pass' ? s.passPeak : s.options[x.option]!.forwardPeak))
      if (x.tag === 'forward') saved.set(x.stage, s.options[x.option]!.saved)
      else passed.add(x.stage)
    }
    peak = Math.max(peak, held(at + 1) + gradient)
  })
  return { peak, seconds }
}

// ---------------------------------------------------------------- chains

const chains: fc.Arbitrary<readonly ChainStage[]> = fc
  .array(
    fc.record({
      firstSeconds: fc.integer({ min: 1, max: 9 }),
      repeated: fc.nat(2),
      output: fc.integer({ min: 1, max: 4 }),
      // A part of the output that a number of stages after the next read.
      far: fc.nat(4),
      reach: fc.nat(3),
      gradient: fc.nat(3),
      scratch: fc.nat(3),
      kept: fc.array(fc.record({ more: fc.nat(5), scratch: fc.nat(4), seconds: fc.integer({ min: 1, max: 9 }) }), {
        minLength: 1,
        maxLength: 2,
      }),
    }),
    { minLength: 1, maxLength: 4 },
  )
  .map((sizes) =>
    sizes.map((d, i): ChainStage => {
      const crossing = [d.output, ...Array.from({ length: d.reach }, () => Math.min(d.far, d.output))]
      const before = i === 0 ? 0 : sizes[i - 1]!.gradient
      return {
        firstSeconds: d.firstSeconds,
        againSeconds: Math.max(0, d.firstSeconds - d.repeated),
        passPeak: d.output + d.scratch,
        crossing: crossing.slice(0, sizes.length - 1 - i),
        gradient: d.gradient,
        options: d.kept.map((k) => ({
          saved: d.output + k.more,
          forwardPeak: d.output + k.more + d.scratch,
          backwardPeak: d.output + k.more + k.scratch + Math.max(d.gradient, before),
          backwardSeconds: k.seconds,
        })),
      }
    }),
  )

const MOST = 60
const cases = process.env['SPILLWAY_FULL'] === '1' ? 2000 : 200

for (const rules of [ALL_RULES, { nested: false, options: true }, { nested: true, options: false }])
  test(`in every memory the programme is as fast as the fastest schedule that fits: ${JSON.stringify(rules)}`, () => {
    fc.assert(
      fc.property(chains, (stages) => {
        const solved = solveChain(stages, MOST, rules)
        const all = everySchedule(stages, 0, stages.length - 1, rules).map((actions) => run(stages, actions))
        for (let m = 0; m <= MOST; m++) {
          const best = Math.min(Infinity, ...all.filter((r) => r.peak <= m).map((r) => r.seconds))
          assert.is(solved.seconds(m), best, `in ${m} slots`)
          if (!Number.isFinite(best)) continue
          const mine = run(stages, solved.actions(m))
          assert.is(mine.seconds, best)
          assert.ok(mine.peak <= m)
        }
      }),
      { numRuns: cases },
    )
  })

test('the worked example: three equal stages, room for one to be saved', () => {
  const stage: ChainStage = {
    firstSeconds: 1,
    againSeconds: 1,
    passPeak: 1,
    crossing: [1],
    gradient: 0,
    options: [{ saved: 4, forwardPeak: 4, backwardPeak: 4, backwardSeconds: 2 }],
  }
  const solved = solveChain([stage, stage, { ...stage, crossing: [] }], 12)
  assert.is(solved.seconds(3), Infinity)
  assert.is(solved.seconds(12), 9)
  const words = (m: number): string =>
    solved
      .actions(m)
      .map((a) => `${a.tag} ${a.stage}`)
      .join(', ')
  assert.is(words(5), 'pass 0, pass 1, forward 2, backward 2, pass 0, forward 1, backward 1, forward 0, backward 0')
  assert.throws(() => solved.actions(3), /fits 3 slots/)
})

test('parts of a slot that cross a cut are added up before they are rounded up', () => {
  const layer: ChainStage = {
    firstSeconds: 1,
    againSeconds: 1,
    passPeak: 0,
    crossing: [0.4, 0.4, 0.4, 0.4],
    gradient: 0,
    options: [{ saved: 9, forwardPeak: 9, backwardPeak: 9, backwardSeconds: 1 }],
  }
  // Five layers of a dense block: behind the fourth, four of their values are held beside the last, 1.6 slots of them.
  const least = (stages: readonly ChainStage[]): number =>
    Array.from({ length: 60 }, (_, m) => m).find((m) => solveChain(stages, 60).seconds(m) < Infinity)!
  const stages = [4, 3, 2, 1, 0].map((more): ChainStage => ({ ...layer, crossing: layer.crossing.slice(0, more) }))
  assert.is(least(stages), 9 + 2)
  assert.is(least(stages.map((s): ChainStage => ({ ...s, crossing: s.crossing.slice(0, 1) }))), 9 + 1)
})

test('equal stretches of stages share a table', () => {
  const stage: ChainStage = {
    firstSeconds: 1,
    againSeconds: 1,
    passPeak: 1,
    crossing: [1],
    gradient: 1,
    options: [{ saved: 3, forwardPeak: 3, backwardPeak: 4, backwardSeconds: 2 }],
  }
  // Stretches to the end and stretches that run again: two for each length.
  assert.is(solveChain(new Array<ChainStage>(40).fill(stage), 50).tables, 80 - 1)
})

test.run()
