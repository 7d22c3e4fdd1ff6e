// `recompute:conv` (paper 2's recomputation alone): outputs of convolutions are checkpoints and stay on the device, and every other value that the
// backward pass reads is dropped and recomputed from them. In: the training graph. Out: one candidate, without swaps. The single value between two
// stages stays, too: without it, one gradient would run the whole forward pass again. Worked example, conv1 norm1 relu1 conv2 norm2: the outputs of
// conv1 and conv2 stay; norm1 and relu1 run again before the backward pass of conv2.
import { right } from 'fp-ts/Either'
import { deferred, type Planner, resident } from '../schedule/candidate'
import { recomputableOf, recomputing } from './recomputed'

export const recomputeConv: Planner = (graph, machine) => {
  const step = recomputing(graph, machine, recomputableOf(graph, machine).droppable)
  return right([deferred(step.seconds, () => resident(step.layout()), { atLeast: step.atLeast })].values())
}
