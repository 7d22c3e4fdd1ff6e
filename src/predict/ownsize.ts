// Evaluations of photos at their own size. In: a model, its loss, the sizes of the photos. Out: photos of one padded size in a group each, and the loss
// for them. Invariant: padding counts nowhere: its labels are ignored, so a mean over labels is that over the photos' own pixels.
// Worked example: photos of 300 x 200, 304 x 208 and 64 x 64, and a U-Net that accepts multiples of 16. The first two share a plan for 304 x 208.
// The first one has a border with ignored labels there.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { Loss, Model } from '../../dsl'
import { LOSSES, type LossName, type LossSum, partsOf, sumOfParts } from '../../staging/ops/losses'
import type { Size } from '../data/decode'
import { type SpillwayError, usage } from '../errors/errors'
import { ignoredBy } from './metricnames'
import { paddedBy } from './padding'

/** Photos of one padded size, as places in the data. */
export interface SizeGroup {
  readonly size: Size
  readonly places: readonly number[]
}

/** No class has this label. */
const IGNORED = -1

const ignoring = (loss: Exclude<Loss, { readonly kind: 'sum' }>): Loss => {
  const kind = typeof loss === 'string' ? loss : loss.kind
  const canIgnore = kind in LOSSES && 'ignoreIndex' in LOSSES[kind as LossName].options
  return canIgnore ? ({ ...(typeof loss === 'string' ? { kind } : loss), ignoreIndex: IGNORED } as Loss) : loss
}

/** The loss with an ignored label, where all of its parts can have one; otherwise the loss itself. */
export const ignoringLoss = (loss: Loss): Loss => {
  if (ignoredBy(loss) !== undefined) return loss
  const parts = partsOf(loss).map(([weight, part]) => [weight, ignoring(part)] as const)
  if (parts.some(([, part]) => ignoredBy(part) === undefined)) return loss
  return sumOfParts(parts as LossSum['parts'])
}

/** Groups photos by their padded size, the first photo's group first. */
export const sizeGroups = (model: Model, loss: Loss, sizes: readonly Size[]): Either<SpillwayError, readonly SizeGroup[]> => {
  const pad = paddedBy(model)
  const padded = sizes.map(pad)
  const at = sizes.findIndex(({ height, width }, i) => height !== padded[i]!.height || width !== padded[i]!.width)
  if (at >= 0 && ignoredBy(loss) === undefined)
    return E.left(
      usage(
        `a photo of ${sizes[at]!.height} x ${sizes[at]!.width} needs a border up to ${padded[at]!.height} x ${padded[at]!.width}, but the loss cannot ignore it: ` +
          'use another fit, or cross-entropy or dice',
      ),
    )
  const groups = new Map<string, { readonly size: Size; readonly places: number[] }>()
  padded.forEach((size, i) => {
    const key = `${size.height} ${size.width}`
    const group = groups.get(key) ?? { size, places: [] }
    group.places.push(i)
    groups.set(key, group)
  })
  return E.right([...groups.values()])
}
