// Slices of channels, and PyTorch's ChannelShuffle. In: [B,C,H,W]. Out: a part of the channels, or all in another order. FT-compatible in B, H and W.
import * as t from 'io-ts'
import {
  type ChannelsBeyond,
  channelsBeyond,
  type GroupsDoNotDivide,
  groupsDoNotDivide,
  type ShapeText,
  shapeText,
} from '../messages'
import type { Layer, Shape } from '../net'
import type { Add, Compare } from '../numbers/naturals'
import { layerCodec } from './codecs'
import { type BadSize, badSize, type LayerRule } from './rule'
import { emit } from './site'
import type { Divides } from './conv2d'

/**
 * The layer that `sliceChannels` creates.
 *
 * @example const half: SliceChannels<0, 32> = sliceChannels(0, 32)
 */
export interface SliceChannels<From extends number, Count extends number, Name extends string = ''>
  extends Layer<'sliceChannels', Name> {
  readonly from: From
  readonly count: Count
}

/**
 * Creates a layer that returns a slice of the channels. Slices as the branches of a `concat` split a value.
 *
 * @param from First channel.
 * @param count Number of channels.
 * @param name Name of the layer. Default: its kind.
 * @example seq(conv2d('conv1', 64, 3), concat(sliceChannels(0, 32), seq(sliceChannels(32, 32), conv2d('conv2', 32, 3))))
 */
export const sliceChannels = <F extends number, C extends number, N extends string = ''>(
  from: F,
  count: C,
  name?: N,
): SliceChannels<F, C, N> => ({ kind: 'sliceChannels', name: name ?? ('' as N), from, count })

/**
 * The layer that `channelShuffle` creates.
 *
 * @example const mixed: ChannelShuffle<2> = channelShuffle(2)
 */
export interface ChannelShuffle<Groups extends number, Name extends string = ''> extends Layer<'channelShuffle', Name> {
  readonly groups: Groups
}

/**
 * Creates a layer that interleaves groups of channels, as in ShuffleNet: the first channel of each group, then the
 * second of each, and so on.
 *
 * @param groups Number of groups; it must divide the number of channels.
 * @param name Name of the layer. Default: its kind.
 * @example seq(conv2d('conv1', 64, 3, { groups: 2 }), channelShuffle(2), conv2d('conv2', 64, 3, { groups: 2 }))
 */
export const channelShuffle = <G extends number, N extends string = ''>(groups: G, name?: N): ChannelShuffle<G, N> => ({
  kind: 'channelShuffle',
  name: name ?? ('' as N),
  groups,
})

type SliceShape<L, S extends Shape> =
  L extends SliceChannels<infer F, infer C, any>
    ? BadSize<[['first channel', F, 0], ['number of channels', C, 1]]> extends infer Bad
      ? Bad extends string
        ? Bad
        : number extends F | C | S[1]
          ? [S[0], C, S[2], S[3]]
          : Compare<Add<F, C>, S[1]> extends 'more'
            ? ChannelsBeyond<`${Add<F, C>}`, ShapeText<S>>
            : [S[0], C, S[2], S[3]]
      : never
    : never

type ShuffleShape<L, S extends Shape> =
  L extends ChannelShuffle<infer G, any>
    ? BadSize<[['number of groups', G, 1]]> extends infer Bad
      ? Bad extends string
        ? Bad
        : Divides<S[1], G> extends false
          ? GroupsDoNotDivide<'input', `${S[1]}`, `${G}`>
          : [S[0], number extends G ? number : S[1], S[2], S[3]]
      : never
    : never

declare module '../net' {
  interface LayerShapes<L, S extends Shape> {
    sliceChannels: SliceShape<L, S>
    channelShuffle: ShuffleShape<L, S>
  }
  interface LayerFt {
    sliceChannels: 'B' | 'H' | 'W'
    channelShuffle: 'B' | 'H' | 'W'
  }
}

// ---------------------------------------------------------------- at run time

export const sliceChannelsRule: LayerRule<SliceChannels<number, number, string>> = {
  codec: layerCodec('sliceChannels', { from: t.number, count: t.number }),
  example: 'sliceChannels(0, 2)',
  fault: (l, input) =>
    badSize(['first channel', l.from, 0], ['number of channels', l.count, 1]) ??
    (l.from + l.count <= input[1] ? null : channelsBeyond(`${l.from + l.count}`, shapeText(input))),
  elaborate: (l, x, at) => emit(at, 'take_channels', { from: l.from, count: l.count }, [x]),
}

export const channelShuffleRule: LayerRule<ChannelShuffle<number, string>> = {
  codec: layerCodec('channelShuffle', { groups: t.number }),
  example: 'channelShuffle(2)',
  fault: (l, input) =>
    badSize(['number of groups', l.groups, 1]) ??
    (input[1] % l.groups === 0 ? null : groupsDoNotDivide('input', `${input[1]}`, `${l.groups}`)),
  elaborate: (l, x, at) => emit(at, 'shuffle_channels', { groups: l.groups }, [x]),
}
