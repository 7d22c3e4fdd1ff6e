// Values that a graph is fed. In: a training graph. Out: its inputs and targets, with their labels, classes and types.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { Graph, Value } from '../../staging/graph/graph'
import { diceSums, diceSumsBwd, softXent } from '../../staging/ops/loss'
import { ignoredIn } from '../../staging/ops/lossofgraph'
import { type LossEntry, LOSSES } from '../../staging/ops/losses'
import { maskLabels } from '../../staging/ops/maskpixels'
import { attrsListed } from '../../staging/ops/op'
import { aboutTargets, type SpillwayError, usage } from '../errors/errors'
import { fedValues, fileNames } from '../files/samples'
import type { FedValue } from './places'

const OF_DICE: readonly string[] = [diceSums.kind, diceSumsBwd.kind]

/**
 * Labels are the channels of the loss's input; for one channel with Dice, yes and no: with several losses, the fewest, and the label that all of
 * these ignore.
 */
const labelsOf = (graph: Graph, id: number): { readonly classes: number; readonly ignored?: number } => {
  const masked = graph.ops.filter((o) => o.kind === maskLabels.kind && o.ins[0] === id).flatMap((o) => o.outs)
  const readers = graph.ops.filter((o) => o.ins[1] === id || masked.includes(o.ins[1]!))
  const classesIn = (o: Graph['ops'][number]): number => {
    const channels = graph.values[o.ins[0]!]!.shape[1]!
    return channels === 1 && OF_DICE.includes(o.kind) ? 2 : channels
  }
  const classes = Math.min(...readers.map(classesIn))
  const [ignored, ...others] = new Set(readers.map((o) => ignoredIn(o.attrs)))
  return ignored === undefined || others.length > 0 ? { classes } : { classes, ignored }
}

/** Returns true if a loss of shares of classes compares with it. */
const isOfShares = (graph: Graph, id: number): boolean => graph.ops.some((o) => o.kind === softXent.kind && o.ins[1] === id)

/** The operators of losses that compare with a sigmoid. */
const OF_SIGMOIDS: readonly string[] = Object.values<LossEntry>(LOSSES)
  .filter((e) => e.logits)
  .map((e) => e.op)

const isOfSigmoids = (graph: Graph, { id }: Value): boolean =>
  graph.ops.some((o) => OF_SIGMOIDS.includes(o.kind) && o.ins[1] === id)

/** One label for each value. */
const isBinary = (graph: Graph, v: Value): boolean => v.shape[1] === 1 && isOfSigmoids(graph, v)

/** Several classes for an image. */
const isSeveral = (graph: Graph, v: Value): boolean =>
  v.shape[1]! > 1 && v.shape[2] === 1 && v.shape[3] === 1 && isOfSigmoids(graph, v)

/** The mean that the model itself subtracts from fed bytes. */
const meanOfBytes = (graph: Graph, id: number): readonly number[] =>
  attrsListed('mean', graph.ops.find((o) => o.ins.includes(id))?.attrs ?? {})

/** Inputs, then targets. */
export const fedOf = (graph: Graph): readonly FedValue[] => {
  const fed = fedValues(graph)
  const keys = fileNames(fed)
  return fed.map((v, i) => ({
    name: v.name,
    key: keys[i]!,
    batch: v.shape[0]!,
    shape: v.shape.slice(1) as unknown as FedValue['shape'],
    isInput: v.role === 'input',
    ...(v.dtype === 'i32' ? { labels: labelsOf(graph, v.id) } : {}),
    ...(isOfShares(graph, v.id) ? { shares: { classes: v.shape[1]! } } : {}),
    ...(isBinary(graph, v) ? { binary: true as const } : {}),
    ...(isSeveral(graph, v) ? { several: true as const } : {}),
    ...(v.dtype === 'u8' ? { bytes: { mean: meanOfBytes(graph, v.id) } } : {}),
  }))
}

export const checkOneBatch = (values: readonly FedValue[]): Either<SpillwayError, readonly FedValue[]> => {
  const odd = values.find((v) => v.batch !== values[0]!.batch)
  return odd
    ? E.left(
        usage(
          `'${odd.key}' gets ${odd.batch} samples per step, but '${values[0]!.key}' gets ${values[0]!.batch}: such a model takes samples only in file order`,
        ),
      )
    : E.right(values)
}

/** The only target; undefined for none or several. */
export const targetOf = (values: readonly FedValue[]): FedValue | undefined => {
  const targets = values.filter((v) => !v.isInput)
  return targets.length === 1 ? targets[0] : undefined
}

export const mostClasses = ({ shares, labels, binary, several, shape }: FedValue): number | undefined =>
  shares?.classes ?? labels?.classes ?? (binary ? 2 : several ? shape[0] : undefined)

/** A target that does not fit the loss. */
export const targetMisfit = (message: string): SpillwayError => aboutTargets(usage(message))

/** A model with more outputs than the data have names predicts classes without a name. */
export const unnamedNote = (classes: readonly string[] | undefined, target: FedValue | undefined): string | undefined => {
  const outputs = target && mostClasses(target)
  return classes === undefined || outputs === undefined || outputs <= classes.length
    ? undefined
    : `${classes.length} classes, but the model has ${outputs} outputs: the last ${outputs - classes.length} never occur; set the number of classes (--classes ${classes.length})`
}
