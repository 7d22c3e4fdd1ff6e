// The programme for chains against every schedule there is: small random chains, each tree of decisions written out as actions
// and run by a simulator that counts what is held, value by value.
import * as fc from 'fast-check'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { type Action, ALL_RULES, type ChainRules, type ChainStage, solveChain } from '../../staging/schedule/chaindp'

// ---------------------------------------------------------------- every schedule

/** The actions of every way to process stages a..b. */
const everySchedule = (
  stages: readonly ChainStage[],
  a: number,
  b: number,
  rules: ChainRules,
): readonly (readonly Action[])[] => {
  if (a > b) return [[]]
  const out: (readonly Action[])[] = []
  const options = rules.options ? stages[a]!.options.length : 1
  for (let option = 0; option < options; option++)
    for (const inner of everySchedule(stages, a + 1, b, rules))
      out.push([{ tag: 'forward', stage: a, option }, ...inner, { tag: 'backward', stage: a, option }])
  if (rules.nested || b === stages.length - 1)
    for (let j = a + 1; j <= b; j++) {
      const passes = Array.from({ length: j - a }, (_, i): Action => ({ tag: 'pass', stage: a + i }))
      for (const right of everySchedule(stages, j, b, rules))
        for (const left of everySchedule(stages, a, j - 1, rules)) out.push([...passes, ...right, ...left])
    }
  return out
}

/** Peak and seconds of a list of actions. A stage's input is held from when it is made to its last use before it is made again. */
const run = (stages: readonly ChainStage[], actions: readonly Action[]): { readonly peak: number; readonly seconds: number } => {
  const ran = new Set<number>()
  const saved = new Map<number, number>()
  const inputs = new Set<number>()
  let gradient = stages[stages.length - 1]!.gradient
  let peak = 0
  let seconds = 0
  const usedLater = (stage: number, from: number): boolean => {
    for (const x of actions.slice(from)) {
      if (x.stage === stage) return true
      if (x.stage === stage - 1 && x.tag !== 'backward') return false
    }
    return false
  }
  actions.forEach((x, at) => {
    const s = stages[x.stage]!
    const held = (): number =>
      [...inputs].reduce((n, i) => n + stages[i]!.input, 0) + [...saved.values()].reduce((n, v) => n + v, 0)
    const others = held()
    if (x.tag === 'backward') {
      saved.delete(x.stage)
      peak = Math.max(peak, held() + s.options[x.option]!.backwardPeak)
      seconds += s.options[x.option]!.backwardSeconds
      gradient = stages[x.stage - 1]?.gradient ?? 0
    } else {
      seconds += ran.has(x.stage) ? s.againSeconds : s.firstSeconds
      ran.add(x.stage)
      peak = Math.max(peak, others + gradient + (x.tag === 'pass' ? s.passPeak : s.options[x.option]!.forwardPeak))
      if (x.tag === 'forward') saved.set(x.stage, s.options[x.option]!.saved)
      else inputs.add(x.stage + 1)
    }
    for (const i of [...inputs]) if (!usedLater(i, at + 1)) inputs.delete(i)
    peak = Math.max(peak, held() + gradient)
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
      gradient: fc.nat(3),
      scratch: fc.nat(3),
      kept: fc.array(fc.record({ more: fc.nat(5), scratch: fc.nat(4), seconds: fc.integer({ min: 1, max: 9 }) }), {
        minLength: 1,
        maxLength: 2,
      }),
    }),
    { minLength: 1, maxLength: 4 },
  )
  .map((drafts) =>
    drafts.map((d, i): ChainStage => {
      const input = i === 0 ? 0 : drafts[i - 1]!.output
      const before = i === 0 ? 0 : drafts[i - 1]!.gradient
      return {
        firstSeconds: d.firstSeconds,
        againSeconds: Math.max(0, d.firstSeconds - d.repeated),
        passPeak: d.output + d.scratch,
        input,
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
    input: 1,
    gradient: 0,
    options: [{ saved: 4, forwardPeak: 4, backwardPeak: 4, backwardSeconds: 2 }],
  }
  const solved = solveChain([{ ...stage, input: 0 }, stage, stage], 12)
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

test('equal stretches of stages share a table', () => {
  const stage: ChainStage = {
    firstSeconds: 1,
    againSeconds: 1,
    passPeak: 1,
    input: 1,
    gradient: 1,
    options: [{ saved: 3, forwardPeak: 3, backwardPeak: 4, backwardSeconds: 2 }],
  }
  // Stretches to the end and stretches that run again: two for each length.
  assert.is(solveChain(new Array<ChainStage>(40).fill(stage), 50).tables, 80 - 1)
})

test.run()
