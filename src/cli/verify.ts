// `spillway verify PLAN`: reads an untrusted plan file and re-derives what must hold of it, independently of every planner.
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { bytesOf } from '../../staging/core/bytes'
import { tryLoadPlan } from '../stage/planfile'
import { showSize } from '../report/format'
import type { Done, Output } from './output'

export const verifyFile = (file: string, out: Output): Done =>
  pipe(
    tryLoadPlan(file),
    E.map(({ graph, strategy, machine, budgetBytes, peakPages, calls, segments }) => {
      const peakBytes = bytesOf(peakPages)
      return out.answer(
        {
          verified: true,
          model: graph.name,
          strategy,
          machine,
          budgetBytes,
          peakBytes,
          segments: segments.length,
          calls: calls.length,
        },
        `${file} holds: ${graph.name} with ${strategy} for ${machine}, peak ${showSize(peakBytes)} of ${showSize(budgetBytes)}, ` +
          `${segments.length} segments, ${calls.length} calls`,
      )
    }),
  )
