// The thread of `fits` beside the main one: the answers of images. In: a model as plain data, a machine by its name, the options of the step. Out, as
// one message: the sizes and the changes, or the error. Invariant: the answers are those of `imagesOf` in the main thread.
import { parentPort, workerData } from 'node:worker_threads'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { modelAt } from '../../dsl'
import type { SpillwayError } from '../errors/errors'
import type { MachineOptions } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import { type FitsAsked, type Grown, imagesOf } from './fits'
import type { Subject } from './largest'
import { prepare } from './prepare'

export interface Asked extends Pick<FitsAsked, 'budgetBytes' | 'effort' | 'upTo'>, Pick<Subject, 'base' | 'own'> {
  readonly net: unknown
  readonly machine: { readonly name: string; readonly options: MachineOptions }
}
export type Answered = E.Either<SpillwayError, Grown>

const { net, base, own, machine, ...asked } = workerData as Asked
const machineWith = (o: MachineOptions) => machineNamed(machine.name, { ...machine.options, ...o })

const answered: Answered = pipe(
  machineWith({}),
  E.bindTo('opened'),
  E.bindW('model', () => modelAt(base, net)),
  E.bind('prepared', ({ model, opened }) => prepare(model, opened, own)),
  E.flatMap(({ prepared, opened }) =>
    imagesOf({ ...asked, prepared, machineWith, subject: { at: (input) => modelAt(input, net), base, own, machine: opened } }),
  ),
)
parentPort?.postMessage(answered)
