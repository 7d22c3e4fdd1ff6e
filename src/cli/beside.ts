// A command, and beside it the type check of its model file: the command line runs models without checking them. In: MODEL, the command. Out: the
// command's result; faults are printed to stderr, in the words of `check`, as soon as they are known. Invariant: the answer is the command's own, and
// waits for at most a second: not at all after a failure, and no longer than a simulated plan may take.
import { isRight } from 'fp-ts/Either'
import { isDevice } from '../../staging/devices'
import { faultText, type TypeFault } from '../errors/errors'
import { startedBy } from '../ranks/engine'
import { type Done, print } from './output'
import { typesBeside } from './types'

const MOST_MS = 1000
/** For the whole process, for a user who waits for a simulated plan. */
const SIMULATED_MS = 1900

const patienceMs = (machine: string | undefined): number =>
  machine === undefined || isDevice(machine) ? MOST_MS : Math.max(0, Math.min(MOST_MS, SIMULATED_MS - 1000 * process.uptime()))

const warn = (faults: readonly TypeFault[]): void =>
  print(process.stderr, ['spillway: warning: the type check of the model file reports:', ...faults.map(faultText)].join('\n'))

/** Does `work`, whose answer does not depend on the types. */
export const besideTypes = async (
  model: string | undefined,
  { machine }: { readonly machine?: string },
  work: () => Done | Promise<Done>,
): Promise<Done> => {
  // Among several processes the first one reports for all.
  const types = model === undefined || (startedBy(process.env)?.rank ?? 0) > 0 ? undefined : typesBeside(model, warn)
  let patience = 0
  try {
    const done = await work()
    if (isRight(done)) patience = patienceMs(machine)
    return done
  } finally {
    await types?.end(patience)
  }
}
