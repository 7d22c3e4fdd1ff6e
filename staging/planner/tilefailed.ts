// Converts an illegal tiling into a staging error.
import type { StageError } from '../core/errors'
import type { TileError } from '../tile/slices'

export const tileFailed =
  (strategy: string) =>
  (e: TileError): StageError => ({ tag: 'TilingIllegal', strategy, layer: e.layer, dim: e.dim, why: e.why })
