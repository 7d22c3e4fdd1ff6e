// The meanings of an ONNX value while a graph is read. In: nothing. Out: the kinds of it, and their common part. Invariant: activations are steps of
// the net in any form of ONNX: [B,C,H,W], [B,C] or channels last.
import type { NodeProto } from './onnx'
import type { Tensor } from './read'

/** An activation as ONNX holds it: an image, flat ([B,C] of one pixel), or with its channels last. */
export type Form = 'image' | 'flat' | 'last'

/** A tensor of the file, and how it is to be read: other sizes, rows and columns exchanged. */
export interface Weight {
  readonly tensor: Tensor
  readonly dims: readonly number[]
  readonly transposed: boolean
}

export type Meaning =
  | { readonly tag: 'data'; readonly step: number; readonly form: Form }
  /** The input, which is bytes, and numbers that are made of it: (x/255 − mean)/std, of one number or one for each channel. */
  | { readonly tag: 'bytes'; readonly step: number }
  | { readonly tag: 'pixels'; readonly step: number; readonly mean: readonly number[]; readonly std: readonly number[] }
  | { readonly tag: 'weight'; readonly weight: Weight }
  /** Whole numbers that stand for sizes; the batch is open. */
  | { readonly tag: 'sizes'; readonly sizes: readonly (number | 'batch')[] }
  /** An image with zeros around it, which a convolution or an average takes as its own. */
  | { readonly tag: 'padded'; readonly step: number; readonly sides: readonly [number, number, number, number] }
  /** Groups of channels as rows, as they are or normalised. */
  | { readonly tag: 'rows'; readonly step: number; readonly groups: number; readonly eps?: number }
  /** A part of something that may be known as a whole: the node is to blame where it is not. */
  | { readonly tag: 'odd'; readonly node: NodeProto; readonly why: string }

/** `node 'conv1' (Conv)`. */
export const nodeText = (n: NodeProto): string => `node '${n.name || (n.output?.[0] ?? '')}' (${n.opType ?? ''})`
