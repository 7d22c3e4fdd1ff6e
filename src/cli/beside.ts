// A command, and beside it the type-check of the model file that it loads: the command line runs models without checking them. In: MODEL, the
// command. Out: what the command gives; faults go to stderr, as `check` tells them, as soon as they are known. Invariant: the answer is the
// command's own, and waits for no more than a second: not at all where the command failed, and no longer than a simulated plan may take.
import { isRight } from 'fp-ts/Either'
import { isDevice } from '../../staging/devices'
import { faultText, type TypeFault } from '../errors/errors'
import { startedBy } from '../ranks/engine'
import type { Done } from './output'
import { typesBeside } from './types'

const MOST_MS = 1000
/** Of the whole process, which somebody waits for who has simulated a plan. */
const SIMULATED_MS = 1900

const patienceMs = (machine: string | undefined): number =>
  machine === undefined || isDevice(machine) ? MOST_MS : Math.max(0, Math.min(MOST_MS, SIMULATED_MS - 1000 * process.uptime()))

const warn = (faults: readonly TypeFault[]): void =>
  void process.stderr.write(
    `${['spillway: warning: the type check of the model file reports:', ...faults.map(faultText)].join('\n')}\n`,
  )

/** Does `work`, whose answer stands whatever types say. */
export const besideTypes = async (
  model: string | undefined,
  { machine }: { readonly machine?: string },
  work: () => Done | Promise<Done>,
): Promise<Done> => {
  // Of several processes the first speaks for all.
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
