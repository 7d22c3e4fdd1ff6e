// The meanings of an ONNX value while a graph is read. In: nothing. Out: the kinds of it, and their common part. Invariant: activations are steps of
// the net in any form of ONNX: [B,C,H,W], [B,C] or channels last.
import type { NodeProto } from './onnx'
import type { Constants, Tensor } from './read'

/**
 * An activation as ONNX holds it: an image, flat ([B,C] of one pixel), or with its channels last; 'last:…' has the pixels in other axes than height
 * and width (views.ts).
 */
export type Form = 'image' | 'flat' | 'last' | `last:${string}`

/** A tensor of the file, and how it is to be read: other sizes, rows and columns exchanged. */
export interface Weight {
  readonly tensor: Tensor
  readonly dims: readonly number[]
  readonly transposed: boolean
}

/** Numbers that stand for sizes, whole or `real`, in C order; the batch is open. */
export interface Sizes {
  readonly tag: 'sizes'
  readonly sizes: readonly (number | 'batch')[]
  /** Absent for a list. */
  readonly dims?: readonly number[]
  readonly real?: boolean
}

/** `size` places of a dimension, at distances of `stride`. */
export interface Atom {
  readonly dim: 'C' | 'H' | 'W'
  readonly stride: number
  readonly size: number
}
export type Axis = readonly Atom[]

export interface View {
  readonly step: number
  readonly axes: readonly Axis[]
  /** The first channel, if not all channels are there. */
  readonly from: number
  /** A factor of all elements. */
  readonly factor: number
}

/** Products of queries and keys, with their factor and bias. */
export interface Scores {
  readonly q: View
  readonly k: View
  readonly factor: number
  readonly bias?: Extract<Meaning, { readonly tag: 'weight' | 'table' | 'network' | 'reversed' }>
  /** The factor e^min(number, most) of each head: its scores are cosines. */
  readonly factors?: { readonly weight: Weight; readonly most: number }
  /** Added to the scores of each group, the same for all heads: [groups, tokens, tokens]. */
  readonly mask?: ArrayLike<number>
  readonly soft: boolean
  /** Queries stand for all pixels, but those of every nth row and column alone are kept. */
  readonly stride?: number
  /** True if keys come before queries: a transposed softmax. */
  readonly turned?: boolean
}

export type Meaning =
  | { readonly tag: 'data'; readonly step: number; readonly form: Form }
  /** The input, which is bytes, and numbers that are made of it: (x/255 − mean)/std, of one number or one for each channel. */
  | { readonly tag: 'bytes'; readonly step: number }
  | { readonly tag: 'pixels'; readonly step: number; readonly mean: readonly number[]; readonly std: readonly number[] }
  | { readonly tag: 'weight'; readonly weight: Weight }
  | Sizes
  /** A weight in the course of its standardisation, by the name of its last step (takestandard.ts). */
  | {
      readonly tag: 'standard'
      readonly part: 'mean' | 'centred' | 'square' | 'variance' | 'shifted' | 'deviation' | 'whole' | 'gain'
      readonly weight: Weight
      readonly eps: number
      /** Its means are those of columns. */
      readonly ofColumns?: boolean
      /** The factor of each output channel. */
      readonly gain?: Weight | undefined
      /** The factor of the gain. */
      readonly factor?: number | undefined
    }
  | { readonly tag: 'array'; readonly array: Constants }
  /** Neighbouring rows or columns of a value. */
  | {
      readonly tag: 'band'
      readonly step: number
      readonly form: Form
      readonly dim: 'H' | 'W'
      readonly from: number
      readonly count: number
    }
  /** Every nth row or every nth column of a value: a second slice takes the others. */
  | {
      readonly tag: 'every'
      readonly step: number
      readonly form: Form
      readonly dim: 'H' | 'W'
      readonly from: number
      readonly distance: number
    }
  /** An image with zeros around it, which a convolution or an average takes as its own. */
  | {
      readonly tag: 'padded'
      readonly step: number
      readonly sides: readonly [number, number, number, number]
      /** True if the padding is −∞, which a max pool takes. */
      readonly isLeast: boolean
    }
  /** The channels of each pixel in groups: [B,G,C/G,H,W], or shuffled to [B,C/G,G,H,W]. */
  | { readonly tag: 'grouped'; readonly step: number; readonly groups: number; readonly shuffled: boolean }
  /** All elements of one image in a row. */
  | { readonly tag: 'line'; readonly step: number }
  /** Images under a new first dimension, for a sum along it. */
  | { readonly tag: 'stack'; readonly steps: readonly number[]; readonly form: Form }
  /** Groups of channels as rows, as they are or normalised. */
  | { readonly tag: 'rows'; readonly step: number; readonly groups: number; readonly eps?: number }
  /** A value in another arrangement, or a part of its channels. */
  | { readonly tag: 'view'; readonly view: View }
  | { readonly tag: 'scores'; readonly scores: Scores }
  /** A table of relative positions at the places of all pairs; its heads are the last axis, or the first. */
  | {
      readonly tag: 'table'
      readonly table: Weight
      readonly index: Weight
      readonly headsFirst: boolean
      /** True if the table has a row for each head, and a column for each distance. */
      readonly hasRowsOfHeads?: boolean
    }
  /** Windows of an adaptive average as PyTorch's newer exporter writes it: gathered places, and the number of them in a sum. */
  | {
      readonly tag: 'windows'
      readonly step: number
      /** Numbers of windows along both axes, and places in each. */
      readonly counts?: readonly [rows: number, columns: number]
      readonly places?: readonly [number, number]
      readonly part: 'turned' | 'gathered' | 'all' | 'row' | 'sum'
      readonly taken: readonly string[]
    }
  /** A part of global response normalisation of a value. */
  | {
      readonly tag: 'response'
      /** 'factor' is 1 + weight·ratio; 'scaled' a value times it; 'product' a value times the ratio. */
      readonly part: 'norms' | 'mean' | 'ratio' | 'product' | 'factor' | 'scaled'
      readonly step: number
      readonly form: Form
      readonly eps?: number
      readonly weight?: Weight
      readonly bias?: Weight
    }
  /** A part of a generalised mean of an image: values of at least eps, their powers, or the mean of these. */
  | {
      readonly tag: 'power'
      readonly part: 'least' | 'powers' | 'mean'
      readonly step: number
      readonly eps: number
      readonly power?: number
    }
  /** A part of rotary positions: channels times cosines, exchanged pairs of channels, or these times sines. */
  | {
      readonly tag: 'rotated'
      readonly part: 'cosines' | 'pairs' | 'sines'
      readonly view: View
      readonly table?: Weight
    }
  /** A part of a network that computes scores of distances from coordinates (takenetwork.ts). */
  | {
      readonly tag: 'network'
      readonly part: 'hidden' | 'rectified' | 'scores'
      readonly coordinates: Weight
      readonly first: { readonly weight: Weight; readonly bias: Weight | undefined }
      readonly second?: { readonly weight: Weight; readonly bias: Weight | undefined }
      readonly index?: readonly number[]
      readonly isBounded?: boolean
      readonly bound?: number
      readonly headsFirst?: boolean
    }
  /** A table of distances from keys to queries, with the heads first; its rows, or its rows and columns, are at the places of pairs. */
  | {
      readonly tag: 'reversed'
      readonly table: Weight
      readonly size: readonly [rows: number, columns: number]
      readonly isWhole: boolean
    }
  /** Trained numbers, at most `most`; their exponentials are factors of cosines. */
  | { readonly tag: 'exponents'; readonly weight: Weight; readonly most: number; readonly areRaised: boolean }
  /** A vector with zeros at some places. */
  | { readonly tag: 'blanked'; readonly weight: Weight; readonly from: number; readonly to: number }
  /** The root of the sum of the squares along an axis of a view, at least 1e-12. */
  | { readonly tag: 'length'; readonly view: View; readonly axis: number }
  /** A part of a norm by √(factor · Σx² + eps) over the channels; 'mean' is the value divided by it. */
  | {
      readonly tag: 'squares'
      readonly part: 'sum' | 'root' | 'reciprocal' | 'mean'
      readonly step: number
      readonly form: Form
      readonly factor: number
      readonly eps: number
    }
  /** Each number of a weight `times` in a row. */
  | { readonly tag: 'spread'; readonly weight: Weight; readonly times: number }
  /** Weights one after the other: the bias of queries and of values, with zeros for keys. */
  | { readonly tag: 'weights'; readonly weights: readonly Weight[] }
  /** A part of something that may be known as a whole: the node is to blame where it is not. */
  | { readonly tag: 'odd'; readonly node: NodeProto; readonly why: string }

/** `node 'conv1' (Conv)`. */
export const nodeText = (n: NodeProto): string => `node '${n.name || (n.output?.[0] ?? '')}' (${n.called ?? n.opType ?? ''})`
