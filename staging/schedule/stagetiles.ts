// Stages of a chain in tiles. In: a stage, the pieces of the forward pass, a limit to what a tile works on. Out: the cheapest
// grid that keeps to the limit, and the stage's sizes and times on it: what passes its borders is whole, the rest a tile's.
// Along the batch tiles have no halo; a stage can be tiled where it lies inside one FT run (no norm in training mode).
// Worked example, [conv relu conv relu pool] of 10 values at work, 2 of them kept: in 4 tiles 2 + 8 / 4.
import { type Grid, tilesOf, UNTILED } from '../plan/plan'
import type { ForwardPieces } from '../tile/pieces'
import { segmentCost } from '../tile/segmentation'
import type { ChainStage, StageOption } from './chaindp'
import type { Stage } from './rerun'

export interface StageTiles {
  readonly grid: Grid
  /** Seconds over those of the whole: halos and launches. */
  readonly slower: number
}
export const NO_TILES: StageTiles = { grid: UNTILED, slower: 1 }

/** The pieces that make up a stage; null where its borders are not theirs. */
const piecesIn = (p: ForwardPieces, stage: Stage): readonly [number, number] | null => {
  const first = p.ops.findIndex((ops) => ops[0]!.id === stage.forward[0])
  const last = p.ops.findIndex((ops) => ops[ops.length - 1]!.id === stage.forward[stage.forward.length - 1])
  return first < 0 || last < first ? null : [first, last]
}

export const stageTiles = (p: ForwardPieces, stage: Stage, limitBytes: number): StageTiles => {
  const here = piecesIn(p, stage)
  const cost = here && segmentCost(p, ...here, { limitBytes, secondsPerCrossingByte: 0, bandsOnly: false })
  if (!here || !cost || tilesOf(cost.grid) === 1) return NO_TILES
  const whole = segmentCost(p, ...here, { limitBytes: Infinity, secondsPerCrossingByte: 0, bandsOnly: false })!
  return { grid: cost.grid, slower: cost.seconds / whole.seconds }
}

/** `handsOn` is the gradient that the stage's backward leaves. */
export const tiledSizes = (s: ChainStage, { grid, slower }: StageTiles, handsOn: number): ChainStage => {
  const tiles = tilesOf(grid)
  const held = (peak: number, whole: number): number => Math.min(peak, whole + Math.max(0, peak - whole) / tiles)
  const option = (o: StageOption): StageOption => ({
    saved: o.saved,
    forwardPeak: held(o.forwardPeak, o.saved),
    backwardPeak: held(o.backwardPeak, o.saved + s.gradient + handsOn),
    backwardSeconds: o.backwardSeconds * slower,
  })
  return {
    ...s,
    firstSeconds: s.firstSeconds * slower,
    againSeconds: s.againSeconds * slower,
    passPeak: held(s.passPeak, s.crossing[0] ?? 0),
    options: s.options.map(option),
  }
}
