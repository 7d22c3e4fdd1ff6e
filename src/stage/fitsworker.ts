// The thread of `fits` beside the main one: the answers of images. In, as one message: a model and its graph as plain data, a machine by its name, the options of the step. Out, as
// one message: the sizes and the changes, or the error. Invariant: the answers are those of `imagesOf` in the main thread.
import { parentPort } from 'node:worker_threads'
import * as E from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import { modelAt, type Net } from '../../dsl'
import type { SpillwayError } from '../errors/errors'
import type { MachineOptions } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import { type FitsAsked, type Grown, imagesOf } from './fits'
import type { Subject } from './largest'

export interface Asked extends Omit<FitsAsked, 'subject' | 'onPhase' | 'machineWith'>, Pick<Subject, 'base' | 'own'> {
  readonly net: Net
  readonly machine: { readonly name: string; readonly options: MachineOptions }
}
export type Answered = E.Either<SpillwayError, Grown>

const answersTo = ({ net, base, own, machine, ...requested }: Asked): Answered => {
  const machineWith = (o: MachineOptions) => machineNamed(machine.name, { ...machine.options, ...o })
  return pipe(
    machineWith({}),
    E.flatMap((machine) =>
      imagesOf({ ...requested, machineWith, subject: { at: (input) => modelAt(input, net), base, own, machine } }),
    ),
  )
}

parentPort?.once('message', (requested: Asked) => parentPort?.postMessage(answersTo(requested)))
