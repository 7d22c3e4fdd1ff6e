// Annealing on the model. In: the model with a plan's decisions, an amount of work. Out: the best decisions of all moves. A slower plan is accepted
// with a probability that falls over time, as the temperature does.
// Worked example, at first: a move that makes the step longer by the time of one op is accepted once in four times; at the end, never.
import type { Decisions } from './decisions'
import type { MoveName } from './limits'
import type { Model } from './model'
import { Chooser, move, type Random } from './moves'

/** The least gain of a split, as a share of the step. */
const LEAST_GAIN = 1e-6

/** The temperature falls from hot to cold over the work: prices of single loops. */
export interface Annealing {
  readonly work: number
  readonly without?: readonly MoveName[] | undefined
  readonly hot: number
  readonly cold: number
}

export const anneal = (model: Model, { work, hot, cold, without }: Annealing, random: Random): Decisions => {
  let seconds = model.price()
  let best = model.decisions
  let least = seconds
  const start = model.work
  const chooser = new Chooser(model, without)
  for (let done = 0; done < 1; done = (model.work - start) / work) {
    const loops = model.heads.length
    const undo = move(model, chooser, random)
    if (!undo) {
      model.work++
      continue
    }
    // A split must win something, because fewer loops are priced faster.
    const isSplit = model.heads.length > loops
    const slack = isSplit ? -LEAST_GAIN * seconds : -hot * (cold / hot) ** done * Math.log(1 - random())
    const price = model.price(seconds + slack)
    if (price === Infinity) {
      undo()
      continue
    }
    seconds = price
    chooser.note()
    if (price < least) [best, least] = [model.decisions, price]
  }
  return best
}
