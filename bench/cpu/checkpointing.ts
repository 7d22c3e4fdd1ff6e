// Steps with little memory: PyTorch's checkpointing at the setting with the least memory, Spillway's `auto` in a third of that or in a part of our
// in-core step's, and that in-core step, taken in turns. In: cases. Out: ratios, and the shares of our time. Activation memory is a process's peak
// less its peak before the first step. Ours opens its memory before that, so it is the peak less the memory before the session and less the
// parameters, which PyTorch has by then. If parameters are swapped, this difference may be negative: then the memory of both sides includes the
// parameters.
import { join } from 'node:path'
import { bytesOf, pagesIn } from '../../staging/core/bytes'
import { type Case, sized } from './cases'
import * as side from './sides'
import { type Options, type OurStep, type PeerStep, secondsOf, type Opening } from './sides'

interface Checkpointed extends Case {
  /** The budget, over the memory of our in-core plan; absent: SHARE of the peer's activations. */
  readonly ofInCore?: number
}

const parts = (c: Case): readonly Checkpointed[] =>
  [4, 8].map((part) => ({ ...c, name: `${c.name} in 1/${part}`, ofInCore: 1 / part }))

const [RESNET, DEEPLAB] = [sized('resnet50', 8, 224), sized('deeplabv3plus-resnet50', 2, 256)]
export const CHECKPOINTED: readonly Checkpointed[] = [
  sized('vgg16-features', 1, 1024),
  RESNET,
  DEEPLAB,
  ...parts(RESNET),
  ...parts(DEEPLAB),
]

/** Segments that PyTorch's users try. */
const SETTINGS = [4, 8, 16, 24]
/** A share of the peer's activation memory; the process's memory beside its plan has to fit a third of it as well. */
const SHARE = 0.3
const WARM_UP = 1

const peerActivations = async (segments: number, graph: string, o: Options): Promise<number> => {
  const peer = side.peer(`checkpoint:${segments}`, o, graph)
  try {
    const { baseBytes } = await peer.answer<{ readonly baseBytes: number }>()
    for (let i = 0; i < WARM_UP; i++) await peer.ask('step')
    return (await peer.ask<PeerStep>('step')).answer.memoryBytes - baseBytes
  } finally {
    await peer.end()
  }
}

export const measureCheckpointing = async (c: Checkpointed, o: Options) => {
  const graph = join(o.folder, 'graph.json')
  const inCore = side.ours(c, o, graph)
  const { parameterBytes, peakBytes } = await inCore.answer<Opening>()
  const bySegments: Record<number, number> = {}
  for (const n of SETTINGS) bySegments[n] = await peerActivations(n, graph, o)
  const segments = SETTINGS.reduce((a, b) => (bySegments[b]! < bySegments[a]! ? b : a))
  const wanted = c.ofInCore === undefined ? bySegments[segments]! * SHARE + parameterBytes : c.ofInCore * peakBytes
  const budgetBytes = bytesOf(pagesIn(wanted))
  const us = side.ours({ ...c, strategy: 'auto', budgetBytes, spill: o.folder }, o)
  const peer = side.peer(`checkpoint:${segments}`, o, graph)
  try {
    const opening = await us.answer<Opening>()
    await peer.answer()
    const { mine, kept, theirs } = await side.inTurns<{ mine: OurStep; kept: OurStep; theirs: PeerStep }>(
      c.name,
      { mine: us, kept: inCore, theirs: peer },
      WARM_UP,
      o,
    )
    const memoryBytes = side.memoryOf(mine) - opening.baseBytes
    const activationBytes = memoryBytes - parameterBytes
    const [secondsPerStep, inCoreSecondsPerStep, peerSecondsPerStep] = [secondsOf(mine), secondsOf(kept), secondsOf(theirs)]
    return {
      name: c.name,
      timeRatio: secondsPerStep / peerSecondsPerStep,
      activationRatio: activationBytes / bySegments[segments]!,
      /** Over all memory of a step in the process, parameters included. */
      memoryRatio: memoryBytes / (bySegments[segments]! + parameterBytes),
      /** Ours, checkpointed, over ours in-core. */
      ownRatio: secondsPerStep / inCoreSecondsPerStep,
      secondsPerStep,
      peerSecondsPerStep,
      inCoreSecondsPerStep,
      activationBytes,
      peerActivationBytes: bySegments[segments]!,
      peerSegments: segments,
      /** For each setting that was tried. */
      peerActivationBytesBySegments: bySegments,
      budgetBytes,
      strategy: opening.strategy,
      recomputeSeconds: side.median(mine.kept.map((s) => s.recomputeSeconds)),
      /** Arithmetic in tiles over untiled: the cost of their borders. */
      haloRatio: opening.haloRatio,
      stallSeconds: side.median(mine.kept.map((s) => s.stallMemorySeconds)),
      predictedSecondsPerStep: opening.predictedSeconds,
      peers: {
        [`checkpoint, ${segments} segments`]: { secondsPerStep: peerSecondsPerStep },
        'spillway in-core': { secondsPerStep: inCoreSecondsPerStep },
      },
      samples: mine.kept.length,
      dropped: mine.dropped,
    }
  } finally {
    for (const who of [us, inCore, peer]) await who.end()
  }
}
export type Checkpointing = Awaited<ReturnType<typeof measureCheckpointing>>

export const showCheckpointing = (r: Checkpointing): string =>
  `${r.name.padEnd(28)} ${r.secondsPerStep.toFixed(2)} s in ${(r.activationBytes / 2 ** 20).toFixed(0)} MiB (${r.strategy})  ` +
  `peer ${r.peerSecondsPerStep.toFixed(2)} s in ${(r.peerActivationBytes / 2 ** 20).toFixed(0)} MiB (${r.peerSegments} segments)  ` +
  `time ${r.timeRatio.toFixed(3)}  memory ${r.activationRatio.toFixed(3)}, with parameters ${r.memoryRatio.toFixed(3)}  over our in-core ${r.ownRatio.toFixed(3)}, ` +
  `recompute ${r.recomputeSeconds.toFixed(2)} s, halo ${r.haloRatio.toFixed(3)}, stalls ${r.stallSeconds.toFixed(2)} s`
