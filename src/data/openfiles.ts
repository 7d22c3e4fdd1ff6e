// Arrays in files as the data of a run. In: a data set of files, a training graph. Out: their source; arrays that change as images are read by regions.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { Graph } from '../../staging/graph/graph'
import type { SpillwayError } from '../errors/errors'
import { contentOf } from '../files/content'
import { type DataFiles, openData, sampleCount } from '../files/samples'
import { arraysAsSource } from './arrays'
import { AUGMENTS } from './augment'
import { balanceNotes, labelsInFiles } from './balance'
import { countsOf } from './counts'
import type { Data, FilesSet } from './data'
import { describedBy } from './description'
import { fedOf, checkOneBatch } from './fed'
import { fileLabelsFit } from './filelabels'
import { openFed } from './opensource'
import type { Own } from './readers'
import { checkScaling } from './scaling'
import { type ReadSettings, type OpenedData, orderFor, orderText } from './source'

const placeOf = (files: DataFiles): string => {
  const [first = []] = files.values()
  return `${sampleCount(first)} samples of ${first.map((f) => f.path).join(', ')}`
}

/** Changes of images apply to them. */
export const areImages = ({ fit, augment = {} }: FilesSet): boolean => fit !== undefined || AUGMENTS.some((a) => augment[a])

/** Arrays that are images: read by regions, as a source of one's own is. */
const openArrays = (data: Data, set: FilesSet, going: ReadSettings, graph: Graph): Either<SpillwayError, OpenedData> =>
  pipe(
    openData(set.path, graph, set.layout, 'of any size'),
    E.bindTo('found'),
    E.bind('content', ({ found }) => (going.isKept ? contentOf(found) : E.right(''))),
    E.flatMap(({ found, content }) => {
      const { path: _, kind: __, ...how } = set
      const keys = fedOf(graph).map((v) => [v.name, v.key] as const)
      const own: Own = { ...how, kind: 'own', fit: set.fit ?? 'cover', ...arraysAsSource(found, keys) }
      return pipe(
        openFed({ ...data, set: own }, own, going, graph, content),
        E.map((opened) => ({ ...opened, described: describedBy(set) })),
      )
    }),
  )

export const openFiles = (data: Data, set: FilesSet, going: ReadSettings, graph: Graph): Either<SpillwayError, OpenedData> => {
  if (areImages(set)) return openArrays(data, set, going, graph)
  const asTheyAre = data.parts.length === 0 && !going.shuffle && !going.balance
  return pipe(
    openData(set.path, graph, set.layout),
    E.bindTo('found'),
    E.tap(() => checkScaling(set, fedOf(graph))),
    // Parts may leave a wrong label out.
    E.bind('known', ({ found }) => (data.parts.length === 0 ? fileLabelsFit(found, fedOf(graph)) : E.right([]))),
    // A run that is not kept has no identity to compare.
    E.bind('content', ({ found }) => (going.isKept ? contentOf(found) : E.right(''))),
    E.bind('labels', ({ found }) => (going.balance ? labelsInFiles(found, fedOf(graph)) : E.right(undefined))),
    E.bind('order', ({ found, labels }) =>
      asTheyAre
        ? E.right(undefined)
        : pipe(
            checkOneBatch(fedOf(graph)),
            E.flatMap(() => orderFor(sampleCount([...found.values()][0]!), data, going, labels)),
          ),
    ),
    E.bind('notes', ({ found, labels }) => balanceNotes(data, sampleCount([...found.values()][0]!), labels)),
    E.map(({ found, content, order, notes, known }) => ({
      source: { kind: 'files', files: found, numbers: set, ...(order ? { order } : {}) },
      samples: order?.length ?? sampleCount([...found.values()][0]!),
      content: `${content}${orderText(data, going)}`,
      place: `${placeOf(found)}${orderText(data, going)}`,
      described: describedBy(set),
      notes,
      ...(known.length > 0 ? { labels: countsOf(known) } : {}),
    })),
  )
}
