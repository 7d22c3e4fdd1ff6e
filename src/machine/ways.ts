// The ways to run calls that a device has, with their scratch. In: the addon, a device. Out: answers that are remembered as long as a
// machine lives. Invariant: workspaces come from the kernels themselves, never from a measurement, so the memory of a plan does not
// depend on how fast the machine was.
import type { DeviceName } from '../../staging/devices'
import { devices } from '../../staging/devices'
import type { Choice } from '../../staging/graph/machine'
import { callKey } from '../../staging/ops/callkey'
import type { AnyAttrs, CallShapes } from '../../staging/ops/op'
import type { KernelRequest, Native, NativeWay } from '../device/native'
import { SpillwayException } from '../errors/errors'
import { onDevice, orThrow } from '../errors/exceptions'
import { nativeCall } from './operands'
import { FAULTY_SECONDS, type Timer } from './timing'

/** An error of a device during planning: `whilePlanning` makes it a value again. */
export const requested = <A>(f: () => A): A => orThrow(onDevice(f))

export type Asked<A> = (kind: string, attrs: AnyAttrs, s: CallShapes) => A
export type Cost = Asked<number>
export type Ways = Asked<readonly NativeWay[]>

/** The same answer for the same call, as long as the machine lives: plans are made of equal calls. */
export const remembered = <A>(cost: Asked<A>): Asked<A> => {
  const known = new Map<string, A>()
  return (kind, attrs, s) => {
    const key = callKey(kind, attrs, s)
    const before = known.get(key)
    if (before !== undefined) return before
    const answer = cost(kind, attrs, s)
    known.set(key, answer)
    return answer
  }
}

/** The device's ways of a call, at most `most`; none if it does not support the call. */
export const waysOf = (
  native: Native,
  device: DeviceName,
  o: Pick<KernelRequest, 'threads' | 'precision'>,
  most?: number,
): Ways =>
  remembered((kind, attrs, s) =>
    requested(() => native.ways({ device, ...nativeCall(kind, attrs, s, devices[device].dtype), ...o }, most)),
  )

/** The same ways, at least one for each call; a call without any is an error. */
const oneOrMore =
  (device: DeviceName, ways: Ways): Ways =>
  (kind, attrs, s) => {
    const found = ways(kind, attrs, s)
    if (found.length === 0)
      throw new Error(`device ${device} cannot run ${kind} of ${JSON.stringify(s)} with ${JSON.stringify(attrs)}`)
    return found
  }

/** Scratch bytes of the device's first choice. */
export const firstScratch = (device: DeviceName, ways: Ways): Cost => {
  const found = oneOrMore(device, ways)
  return (kind, attrs, s) => found(kind, attrs, s)[0]!.workspace
}

/** Every way to run a call without a fault, timed; the one with the least scratch first. */
export const timedChoices = (device: DeviceName, ways: Ways, times: Timer): Asked<readonly Choice[]> => {
  const found = oneOrMore(device, ways)
  return remembered((kind, attrs, s) => {
    const sound = found(kind, attrs, s)
      .map(({ way, workspace }): Choice => ({ way, seconds: times.seconds(kind, attrs, s, way), workspace }))
      .filter(({ seconds }) => seconds < FAULTY_SECONDS)
    if (sound.length === 0)
      throw new SpillwayException({
        tag: 'DeviceFailed',
        reason: `every way to run ${kind} of ${s.ins.map((x) => x.join('x')).join(', ')} has a fault on device ${device}`,
      })
    return sound.sort((a, b) => a.workspace - b.workspace)
  })
}
