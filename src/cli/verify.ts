// `spillway verify PLAN`: reads an untrusted plan file and derives its invariants again, independently of every planner.
import { extname } from 'node:path'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { bytesOf } from '../../staging/core/bytes'
import { usage } from '../errors/errors'
import { tryLoadPlans } from '../stage/planfile'
import { showSize } from '../report/format'
import { CODE_FILES } from './load'
import type { Done, Output } from './output'

export const verifyFile = (file: string, out: Output): Done =>
  pipe(
    file,
    E.fromPredicate(
      () => !CODE_FILES.includes(extname(file)),
      () => usage(`verify takes a plan file; for a model file use: spillway check ${file}`),
    ),
    E.flatMap(tryLoadPlans),
    E.map((plans) => {
      const { graph, strategy, machine, budgetBytes, calls, segments } = plans[0]!
      const peakBytes = bytesOf(Math.max(...plans.map((p) => p.peakPages)))
      const bands = plans.length > 1 ? { bands: plans.length } : {}
      return out.answer(
        {
          verified: true,
          ...bands,
          model: graph.name,
          strategy,
          machine,
          budgetBytes,
          peakBytes,
          segments: segments.length,
          calls: calls.length,
        },
        `${file} is valid: ${graph.name}, strategy ${strategy}, machine ${machine}, peak ${showSize(peakBytes)} of ${showSize(budgetBytes)}, ` +
          `${segments.length} segments, ${calls.length} calls${plans.length > 1 ? `, one plan for each of ${plans.length} bands` : ''}`,
      )
    }),
  )
