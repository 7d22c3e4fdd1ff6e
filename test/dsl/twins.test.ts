// timeout 600
// each of models
// The type-level and the run-time interpreter are twins: over the zoo and over generated networks, legal and illegal,
// they give the same shapes, FT dimensions, bytes, layer names and words.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { adam, type Dim, type Model, modelAt, mse, type Optimizer, segmentsOf, sgd, stepBytes } from '../../dsl'
import { leastBytes } from '../../dsl/plan/bytes'
import { segmentPlaces } from '../../dsl/plan/ranges'
import { zooNets, type ZooNet } from '../../src/zoo'
import { renderError } from '../../staging/core/errors'
import { isOfParameters } from '../../staging/graph/graph'
import { maximalRuns } from '../../staging/tile/ft'
import { FULL } from '../full'
import { check, type Checked, type Programs, runProgram } from '../types/checker'
import { prelude } from '../types/illegal'
import { elaborated, forward } from './forward'
import { generate, type Generated } from './generate'

const generated: readonly Generated[] = Array.from({ length: FULL ? 600 : 30 }, (_, i) => generate(i))

/** Residual, branched and side by side. */
const FEW_NETS = ['resnet50', 'inception3', 'unet']
const nets = zooNets.filter((z) => FULL || FEW_NETS.includes(z.name))

/** The questions of each program to the checker about a net: complaint, summary and names. */
const questions = (net: string, input: string): string => `
declare const complaint: ComplaintOf<Analyse<typeof ${net}, ${input}>>
declare const facts: Analyse<typeof ${net}, ${input}> extends Facts<infer O, infer F, infer A, infer N> ? { out: O; ft: F; bytes: BytesNumber<A>; parameters: ParametersNumber<A>; state: StateNumber<A>; names: N } : null
type M = Model<SummaryOf<typeof ${net}, ${input}>, typeof ${net}>
declare const segments: [typeof complaint] extends [null] ? SegmentsOf<M> : null
declare const whole: [typeof complaint] extends [null] ? WholeOf<M> : null
declare const bytesOfStep: [typeof complaint] extends [null] ? [StepBytes<M, 0>, StepBytes<M, 1>, StepBytes<M, 2>, LeastBytes<StepOf<M>>] : null
`
const imports = `import type { Analyse, BytesNumber, ComplaintOf, Facts, ParametersNumber, StateNumber } from '../../dsl/facts'
import type { Model, SummaryOf } from '../../dsl/model'
import type { LeastBytes, StepBytes } from '../../dsl/plan/bytes'
import type { StepOf } from '../../dsl/trainable'
import type { FtOfSites, SegmentsOf, SitesOfModel } from '../../dsl/plan/ranges'
import type { FirstOf, Nested, RestOf } from '../../dsl/plan/sites'
type Called<S, Acc extends readonly string[] = []> = S extends null ? Acc : FirstOf<S> extends { called: infer L extends string } ? Called<RestOf<S>, [...Acc, L]> : Nested<Called<RestOf<S>, Acc>>
type WholeOf<M extends Model> = { called: Called<SitesOfModel<M>>; ft: FtOfSites<SitesOfModel<M>> }
`
const text = (g: Generated): string => `${prelude}export const net = ${g.net}\n`
/** A network of the zoo with the type that it has in its family's file. */
const zooProgram = (z: ZooNet): string =>
  `import family from '../../models/${z.family}'
const { net } = family${z.place}
${imports}${questions('net', `[${z.input.join(', ')}]`)}`

const programs: Programs = Object.fromEntries([
  ...generated.map((g, i) => [`net${i}`, `${text(g)}${imports}${questions('net', `[${g.input.join(', ')}]`)}`]),
  ...nets.map((z) => [z.name, zooProgram(z)]),
])
const checked: Checked = check(programs)

const literals = (text: string): readonly string[] => [...text.matchAll(/"([^"]*)"/g)].map((m) => m[1]!).sort()
const field = (facts: string, name: string): string => new RegExp(`${name}: (.*?)(;|  *})`).exec(facts)?.[1] ?? ''

const compare = (name: string, net: unknown, input: readonly number[]): 'fits' | 'misfit' => {
  assert.equal(
    checked.errors(name).filter((e) => !e.includes('is declared but')),
    [],
  )
  const complaint = checked.typeOf(name, 'complaint')
  const m = modelAt(input, net)
  if (isLeft(m)) {
    assert.is(complaint, JSON.stringify(renderError(m.left)))
    return 'misfit'
  }
  assert.is(complaint, 'null')
  const facts = checked.typeOf(name, 'facts')
  const names = m.right.layers.map((l) => l.name)
  assert.is(field(facts, 'out'), `[${m.right.output.join(', ')}]`)
  assert.is(field(facts, 'bytes'), `${m.right.activationBytes}`)
  assert.is(field(facts, 'parameters'), `${m.right.parameters}`)
  assert.is(field(facts, 'state'), `${m.right.layers.reduce((n, l) => n + l.state, 0)}`)
  assert.equal(literals(field(facts, 'ft')), [...m.right.ft].sort())
  inGraph(m.right)
  plansAgree(name, m.right)
  for (const n of literals(field(facts, 'names'))) assert.ok(names.includes(n), `no layer '${n}' at run time`)
  assert.equal(
    literals(field(facts, 'names')),
    m.right.layers
      .filter((l) => l.named)
      .map((l) => l.name)
      .sort(),
  )
  return 'fits'
}
/** Execution order, maximal segments and step bytes, as types, at run time and in the op table. */
const plansAgree = (name: string, m: Model): void => {
  const whole = checked.typeOf(name, 'whole')
  assert.equal(
    [...(/called: \[(.*?)\]/.exec(whole)?.[1] ?? '').matchAll(/"([^"]*)"/g)].map((c) => c[1]),
    m.layers.map((l) => l.called),
  )
  assert.equal(literals(/; ft: (.*?)[;}]/.exec(whole)?.[1] ?? ''), [...m.ft].sort())
  const typed = [...checked.typeOf(name, 'segments').matchAll(/FtSegment<"([^"]*)", "([^"]*)", ([^>]*)>/g)]
  const atRunTime: readonly { readonly from: string; readonly to: string; readonly ft: readonly Dim[] }[] = segmentsOf(m)
  assert.equal(
    typed.map(([, from, to, ft]) => ({ from, to, ft: literals(ft!) })),
    atRunTime.map((s) => ({ ...s, ft: [...s.ft].sort() })),
  )
  const adamBytes = stepBytes(m, adam({ lr: 0.1 }))
  const momentum = sgd({ lr: 0.1, momentum: 0.9 })
  assert.is(
    checked.typeOf(name, 'bytesOfStep'),
    `[${[stepBytes(m, sgd({ lr: 0.1 })), stepBytes(m, momentum), adamBytes, least(m, momentum)].join(', ')}]`,
  )
  sameRuns(m)
}

const least = (m: Model, optimizer: Optimizer): number => {
  const e = elaborated(m, 'model', mse, optimizer)
  if (isLeft(e)) throw new Error(renderError(e.left))
  return leastBytes(e.right)
}

const REDUCTIONS: readonly string[] = ['globalMaxPool', 'generalizedMeanPool', 'gatedAttentionPool']

/** The maximal segments are the maximal runs of the graph (staging/tile/ft.ts), which know no layers. */
const sameRuns = (m: Model): void => {
  const e = forward(m)
  if (isLeft(e)) return
  const { graph } = e.right
  const ops = new Set(graph.ops.map((o) => o.layer))
  const ofLayers = segmentPlaces(m.layers)
    .map((s) => m.layers.slice(s.from, s.to + 1).filter((l) => ops.has(l.name)))
    .filter((ls) => ls.length > 0)
  assert.equal(
    ofLayers.map((ls) => [ls[0]!.name, ls[ls.length - 1]!.name]),
    betweenLayers(
      maximalRuns(graph)
        // Attention by cosines computes unit lengths in each pixel: a run of pixels may end inside the layer.
        .map((r) => r.ops.filter((op) => op.kind !== 'unit_heads' && !isOfParameters(graph.values, op)))
        .flatMap((run) => (run.length === 0 ? [] : [[run[0]!.layer, run[run.length - 1]!.layer] as const])),
      m.layers.filter((l) => REDUCTIONS.includes(l.kind)).map((l) => l.name),
    ),
  )
}

/**
 * Without runs inside a layer, between its sums and their use: a global response norm computes its factors there. Reductions also have runs before
 * and behind their sums.
 */
const betweenLayers = (
  runs: readonly (readonly [string, string])[],
  reductions: readonly string[],
): readonly (readonly [string, string])[] =>
  runs.filter(([from, to], i) => {
    const [before, next] = [runs[i - 1], runs[i + 1]]
    const [follows, goesOn] = [before?.[1] === from, next?.[0] === from]
    if (from !== to) return true
    return reductions.includes(from) ? !goesOn && !(follows && before![0] !== from) : !(follows && goesOn)
  })

/** The graph has the parameters that the analysis counts. */
const inGraph = (m: Model): void => {
  const e = forward(m)
  if (isLeft(e)) {
    // The op decides if an instance or group norm has a variance.
    assert.match(renderError(e.left), /it has no layers|variance/)
    return
  }
  const count = (role: 'param' | 'state'): number =>
    e.right.graph.values.filter((v) => v.role === role).reduce((n, v) => n + v.shape.reduce((p, d) => p * d, 1), 0)
  assert.is(m.parameters, count('param'))
  assert.is(
    m.layers.reduce((n, l) => n + l.state, 0),
    count('state'),
  )
}

for (const z of nets) test(`${z.name} at ${z.input.join('x')}`, () => assert.is(compare(z.name, z.net, z.input), 'fits'))

test(`${generated.length} generated networks`, () => {
  const count = { fits: 0, misfit: 0 }
  for (const [i, g] of generated.entries())
    try {
      count[compare(`net${i}`, runProgram(text(g))['net'], g.input)]++
    } catch (e) {
      throw new Error(
        `network ${i}: ${g.net} at [${g.input.join()}]: ${(e as Error).message}\n${(e as { details?: string }).details ?? ''}`,
      )
    }
  console.log(`${count.fits} networks fit, ${count.misfit} do not`)
  assert.ok(count.fits >= generated.length / 6 && count.misfit >= generated.length / 6, 'too few of one kind')
})

test.run()
