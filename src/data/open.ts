// The data of a run. In: the user's data, the order of samples, the training graph. Out: the source of fed values, and words for the identity of the
// run. Invariant: files have been checked, and no more is read.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { Graph } from '../../staging/graph/graph'
import { type SpillwayError, usage } from '../errors/errors'
import { BALANCE_NEEDS } from './balance'
import { type Data, files, folder } from './data'
import { fedOf, checkOneBatch } from './fed'
import { meansImages } from './images'
import { areImages, openFiles } from './openfiles'
import { openImageSet } from './openimages'
import { openFed } from './opensource'
import { isSlide } from './slides/foundslides'
import { slidesAt } from './slides/slides'
import type { ReadSettings, OpenedData } from './source'

/** A data set that a path alone names. */
export const dataAt = (path: string): Data =>
  isSlide(path) ? slidesAt(path, {}).data : meansImages(path) ? folder(path) : files(path)

/** Returns true if samples of a step can be read in any order. */
const canShuffle = (data: string | Data | undefined, graph: Graph): boolean =>
  data !== undefined && (typeof data === 'string' || data.set.kind !== 'stream') && E.isRight(checkOneBatch(fedOf(graph)))

export const openRunData = (
  given: string | Data | undefined,
  requested: ReadSettings,
  graph: Graph,
): Either<SpillwayError, OpenedData> => {
  const going = requested.shufflesIfPossible ? { ...requested, shuffle: canShuffle(given, graph) } : requested
  if (given === undefined) {
    if (going.shuffle) return E.left(usage('shuffle needs data: synthetic samples have no order'))
    if (going.balance) return E.left(usage(`balanceClasses: synthetic samples have no classes; ${BALANCE_NEEDS}`))
    const samples = going.samples ?? graph.values.find((v) => v.role === 'input')!.shape[0]! * (going.share?.of ?? 1)
    const content = `synthetic, ${samples} samples`
    return E.right({ source: { kind: 'synthetic', samples }, samples, content, place: content, described: {}, notes: [] })
  }
  const data = typeof given === 'string' ? dataAt(given) : given
  const { set } = data
  const isOwn = set.kind === 'own' || set.kind === 'stream'
  if (going.balance && (isOwn || (set.kind === 'files' && areImages(set))))
    return E.left(
      usage(
        `balanceClasses: ${isOwn ? 'the classes of a source' : 'the classes of arrays with fit or augment'} are not known in advance; ${BALANCE_NEEDS}`,
      ),
    )
  if (set.kind === 'files') return openFiles(data, set, going, graph)
  return set.kind === 'images' ? openImageSet(data, set, going, graph) : openFed(data, set, going, graph)
}
