// Sizes as users write them, known to the types when they are whole literals: `gib(4)` has the type 4294967296.
// In: a number of units. Out: bytes.
import * as bytes from '../../staging/core/bytes'
import type { IsWhole, Mul } from '../../dsl/numbers/naturals'

type Times<N extends number, Unit extends number> = number extends N ? number : IsWhole<N> extends true ? Mul<N, Unit> : number

export const kib = <N extends number>(n: N): Times<N, 1024> => bytes.kib(n) as Times<N, 1024>
export const mib = <N extends number>(n: N): Times<N, 1048576> => bytes.mib(n) as Times<N, 1048576>
export const gib = <N extends number>(n: N): Times<N, 1073741824> => bytes.gib(n) as Times<N, 1073741824>
