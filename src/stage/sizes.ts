// Sizes as users write them, known to the types when they are whole literals: `gib(4)` has the type 4294967296.
// In: a number of units. Out: bytes.
import * as bytes from '../../staging/core/bytes'
import type { IsStrict } from '../../staging/core/orwords'
import type { IsWhole, Mul } from '../../dsl/numbers/naturals'

type Times<N extends number, Unit extends number> = number extends N
  ? number
  : [IsStrict, IsWhole<N>] extends [true, true]
    ? Mul<N, Unit>
    : number

/**
 * Returns n · 1024 bytes. A literal stays a literal type.
 *
 * @param n Number of KiB.
 * @example stage(net, { budget: kib(65_536) })
 */
export const kib = <N extends number>(n: N): Times<N, 1024> => bytes.kib(n) as Times<N, 1024>
/**
 * Returns n · 1024² bytes. A literal stays a literal type.
 *
 * @param n Number of MiB.
 * @example stage(net, { budget: mib(512) })
 */
export const mib = <N extends number>(n: N): Times<N, 1048576> => bytes.mib(n) as Times<N, 1048576>
/**
 * Returns n · 1024³ bytes. A literal stays a literal type.
 *
 * @param n Number of GiB.
 * @example stage(net, { budget: gib(4) })
 */
export const gib = <N extends number>(n: N): Times<N, 1073741824> => bytes.gib(n) as Times<N, 1073741824>
