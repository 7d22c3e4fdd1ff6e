// The phases of a command before its run, on the live line: it reads the model, opens the machine, plans and measures. In: the work of a phase. Out:
// its result.
import * as E from 'fp-ts/Either'
import { type Either, right } from 'fp-ts/Either'
import { pipe } from 'fp-ts/function'
import type { SpillwayError } from '../errors/errors'
import type { LocalMachine, MachineOptions } from '../machine/localmachine'
import { machineNamed } from '../machine/machine'
import { hearMeasuring } from '../machine/taught'
import { showSeconds } from '../report/format'
import { startedBy } from '../ranks/engine'
import { live } from './live'
import { note } from './output'
import { modelNamed, type ModelAsked, type NamedModel } from './model'

/** Reads a model, and shows that it does. */
export const readModel = (text: string, o: ModelAsked): Either<SpillwayError, NamedModel> => {
  live.show(`reading ${text}`)
  return modelNamed(text, o)
}

/** Opens a machine, and shows that it does. */
export const openMachine = (name = 'cpu', o: MachineOptions): Either<SpillwayError, LocalMachine> => {
  live.show(`opening ${name}`)
  return pipe(
    machineNamed(name, o),
    E.tap((machine) => right(o.precision === undefined ? sayPrecision(machine) : undefined)),
  )
}

/** On a GPU, the default depends on its generation. */
const sayPrecision = ({ device, simulated, precision }: LocalMachine): void => {
  if (!device.isCard || simulated || (startedBy(process.env)?.rank ?? 0) !== 0) return
  note(
    precision === 'tf32'
      ? 'precision is tf32, as in PyTorch: products round their factors; --precision bf16 halves the memory of activations'
      : 'precision is fp32: this GPU has no tf32 or bf16 products; --precision fp16 uses its tensor cores',
  )
}

/** Plans, and shows that it does, with the measurements. */
export const planShown = <A>(name: string, plan: () => A, line = live): A => {
  line.show(`planning ${name}`)
  hearMeasuring((calls, seconds, most) => {
    // Without a limit, only kernels that resemble no known one are measured.
    const limit = most > 0 ? ` of at most ${showSeconds(most)}` : ''
    line.show(`planning ${name}: ${calls} kernels measured, ${seconds.toFixed(1)} s${limit}`)
  })
  try {
    return plan()
  } finally {
    hearMeasuring(undefined)
  }
}
