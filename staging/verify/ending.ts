// Checks the end of a step: parameters and state are intact and in place, losses are complete and on the device, outputs are complete and were
// transferred. In: the contents and the device after the last call. Out: the fault of the first value that is not.
import type { Contents } from './contents'
import type { Facts } from './facts'
import { broken, eachFault, type Fault } from './failure'
import { contains } from './region'
import type { Device } from './residency'

/** Checks that persistent values are whole, on the device (structure.ts checks that they do not move) or in their homes. */
const persistentStay = (facts: Facts, contents: Contents, device: Device): Fault =>
  eachFault(facts.plan.cells, (c) => {
    if (c.scope !== 'persistent') return undefined
    const { storage } = facts.plan.places[c.id]!
    if (facts.plan.storages[storage]!.home !== undefined)
      return contents.owns(c.id) && device.isHome(c.id)
        ? undefined
        : broken('lost', `the last bytes of cell '${c.label}' are not copied to their home`)
    if (device.residenciesUnder(c.id).some((i) => i < 0))
      return broken('resident', `cell '${c.label}' must stay on the device, unmoved, from the first call to the last`)
    return contents.owns(c.id)
      ? undefined
      : broken('clobbered', `the bytes of cell '${c.label}' differ from the next step's expectation`)
  })

const lossesComplete = (facts: Facts, contents: Contents, device: Device): Fault => {
  const { plan, full } = facts
  return eachFault(plan.graph.values, (v) => {
    if (v.role !== 'loss') return undefined
    const end = (reason: string): Fault => broken('end', reason, { value: v.name })
    const cell = plan.cells.find((c) => contains(contents.exact(c.id, v.id), full[v.id]!))
    if (!cell) return end('the loss is not complete when the step ends')
    const stays = device.residenciesUnder(cell.id).every((i) => plan.residencies[i]?.release === plan.calls.length)
    return stays && !device.anyLost(cell.id) ? undefined : end('the loss has left the device when the step ends')
  })
}

/** Checks that outputs are complete. No page is written after its transfer, so an output that is complete at the end was complete then. */
const outputsHandedOut = (facts: Facts, contents: Contents, device: Device): Fault => {
  const { plan, full } = facts
  return eachFault(plan.cells, (c) => {
    const value = c.scope === 'output' ? c.values[0] : undefined
    if (value === undefined) return undefined
    const end = (reason: string): Fault => broken('output', reason, { value: facts.name(value) })
    if (!contains(contents.exact(c.id, value), full[value]!)) return end('it is not complete when the step ends')
    const kept = device.kept(c.id)
    return kept === 0 ? undefined : end(`${kept} of its pages are never output`)
  })
}

export const checkEnd = (facts: Facts, contents: Contents, device: Device): Fault => {
  const { peakPages } = facts.plan
  if (device.peak() !== peakPages) return broken('peak', `the plan says ${peakPages} pages, but holds ${device.peak()}`)
  return (
    persistentStay(facts, contents, device) ??
    lossesComplete(facts, contents, device) ??
    outputsHandedOut(facts, contents, device)
  )
}
