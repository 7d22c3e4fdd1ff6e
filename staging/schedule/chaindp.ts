// The optimal recomputation of a chain of stages in a given memory (Rotor's dynamic programme, after Beaumont et al. 2019). In: stages with times and
// sizes in slots. Out: the least time for every number of slots, and its actions. best(a, b, m): process stages a..b forward and backward in m slots,
// besides their inputs from stages before a:
// save a with option k: forward(a) + backward(a, k) + best(a+1, b, m - saved(a, k))
// skip to j, keeping the values of a..j-1 that later stages read: passes(a..j-1) + best(j, b, m - kept(a, j)) + best(a, j-1, m)
// Worked example, three equal stages and memory for one: pass 1 2, run 3 and back, pass 1, run 2 and back, run 1 and back.

/** A way to keep the inputs of a stage's backward. Sizes are in slots, without the stage's inputs from earlier stages. */
export interface StageOption {
  /** Held from forward to backward, with the values that later stages read. */
  readonly saved: number
  /** The peak during the forward, and during the backward (with saved values and the output's gradient). */
  readonly forwardPeak: number
  readonly backwardPeak: number
  readonly backwardSeconds: number
}

export interface ChainStage {
  /** The seconds of the first forward, and of a repeated one, which reads the known statistics. */
  readonly firstSeconds: number
  readonly againSeconds: number
  /** The peak during a forward that keeps only the values that later stages read. */
  readonly passPeak: number
  /**
   * The values of this stage that the next one or later ones read, then those that the one after it or later ones read, and so on: a chain's link has
   * one entry, a layer of a dense block one for every later layer. Parts of a slot are added up before they are rounded up.
   */
  readonly crossing: readonly number[]
  /** The gradient of the stage's output. */
  readonly gradient: number
  readonly options: readonly StageOption[]
}

export type Action =
  | { readonly tag: 'pass'; readonly stage: number }
  | { readonly tag: 'forward'; readonly stage: number; readonly option: number }
  | { readonly tag: 'backward'; readonly stage: number; readonly option: number }

/** Which recursions the programme may use; all of them is the optimum. */
export interface ChainRules {
  /** True if a value may be recomputed more than once (nested checkpoints). */
  readonly nested: boolean
  /** True if stages may choose among their options; otherwise all keep everything (option 0). */
  readonly options: boolean
}
export const ALL_RULES: ChainRules = { nested: true, options: true }

/**
 * Least seconds by slots, and the action: -1-k saves with option k, j > 0 skips to the stage j further. The last entry stands for all larger
 * memories, where everything is saved.
 */
interface Table {
  readonly seconds: Float64Array
  readonly choice: Int16Array
  /** The least sufficient slots. */
  least: number
}

export interface SolvedChain {
  /** Least seconds in m slots; Infinity if nothing fits. */
  readonly seconds: (slots: number) => number
  readonly actions: (slots: number) => readonly Action[]
  /** The number of computed tables: equal sequences of stages share one. */
  readonly tables: number
}

/** The entry for m slots. */
const entry = (t: Table, m: number): number => Math.min(m, t.seconds.length - 1)

/** The largest needs of a stage's options. */
interface MostOf {
  readonly saved: number
  readonly forwardPeak: number
  readonly backwardPeak: number
}

const mostOf = ({ options }: ChainStage): MostOf => ({
  saved: Math.max(...options.map((o) => o.saved)),
  forwardPeak: Math.max(...options.map((o) => o.forwardPeak)),
  backwardPeak: Math.max(...options.map((o) => o.backwardPeak)),
})

const stageKey = (s: ChainStage): string => JSON.stringify(s)

/** For each j: the values of stages a..j-1 that are read from stage j on. */
const keptFrom = (stages: readonly ChainStage[], a: number): readonly number[] => {
  const kept = new Array<number>(stages.length).fill(0)
  for (let i = a; i < stages.length; i++) {
    const { crossing } = stages[i]!
    for (let k = 0; k < crossing.length && i + 1 + k < kept.length; k++) kept[i + 1 + k]! += crossing[k]!
  }
  return kept.map(Math.ceil)
}

class Solver {
  /** By number of the sequence of stages. */
  private readonly solved = new Map<number, Table>()
  private readonly sequences = new Map<string, number>()
  private readonly tableOf: (Table | undefined)[][]
  private readonly kept: readonly (readonly number[])[]
  private readonly most: readonly MostOf[]

  constructor(
    readonly stages: readonly ChainStage[],
    readonly slots: number,
    readonly rules: ChainRules,
  ) {
    this.tableOf = stages.map(() => [])
    this.kept = stages.map((_, a) => keptFrom(stages, a))
    this.most = stages.map(mostOf)
    const numbers = new Map<string, number>()
    const keys = stages.map((s) => {
      const key = stageKey(s)
      const known = numbers.get(key) ?? numbers.size
      numbers.set(key, known)
      return known
    })
    for (let b = 0; b < stages.length; b++) {
      let sequence = this.number(b === stages.length - 1 ? 'end' : 'again')
      const at: number[] = []
      for (let a = b; a >= 0; a--) at[a] = sequence = this.number(`${keys[a]} ${sequence}`)
      // Short sequences first: a..b needs each sequence inside it. Those with an earlier end are already known.
      for (let a = b; a >= 0; a--) {
        const known = this.solved.get(at[a]!)
        this.tableOf[a]![b] = known ?? this.solve(a, b)
        if (!known) this.solved.set(at[a]!, this.tableOf[a]![b]!)
      }
    }
  }

  get tables(): number {
    return this.solved.size
  }

  private number(key: string): number {
    const n = this.sequences.get(key) ?? this.sequences.size
    this.sequences.set(key, n)
    return n
  }

  /** Sequences that end at the last stage run for the first time; all others are repetitions. */
  private forwardSeconds(stage: number, b: number): number {
    const s = this.stages[stage]!
    return b === this.stages.length - 1 ? s.firstSeconds : s.againSeconds
  }

  /** The slots for saving everything, with the largest option of each stage. */
  private mostSaved(a: number, b: number): number {
    const after = this.stages[b]!.gradient
    let saved = 0
    let most = 0
    for (let i = a; i <= b && most < this.slots; i++) {
      const mine = this.most[i]!
      most = Math.max(most, saved + mine.saved, saved + mine.forwardPeak + after, saved + mine.backwardPeak)
      saved += mine.saved
    }
    return most
  }

  private solve(a: number, b: number): Table {
    const size = Math.min(this.slots, this.mostSaved(a, b)) + 1
    const table: Table = { seconds: new Float64Array(size).fill(Infinity), choice: new Int16Array(size), least: size }
    const options = this.rules.options ? this.stages[a]!.options : this.stages[a]!.options.slice(0, 1)
    for (const [k, o] of options.entries()) this.save(table, a, b, k, o)
    let passes = 0
    let peak = 0
    const after = this.stages[b]!.gradient
    for (let j = a + 1; j <= b; j++) {
      const passed = this.stages[j - 1]!
      passes += this.forwardSeconds(j - 1, b)
      peak = Math.max(peak, after + passed.passPeak + this.kept[a]![j - 1]!)
      if (this.rules.nested || b === this.stages.length - 1) this.skip(table, a, j, b, passes, peak)
    }
    return table
  }

  private save(table: Table, a: number, b: number, k: number, o: StageOption): void {
    const { seconds, choice } = table
    const after = this.stages[b]!.gradient
    const least = Math.max(o.saved, o.forwardPeak + after, o.backwardPeak)
    const own = this.forwardSeconds(a, b) + o.backwardSeconds
    const inner = a < b ? this.tableOf[a + 1]![b]! : null
    const from = Math.max(least, inner ? o.saved + inner.least : 0)
    table.least = Math.min(table.least, from)
    const of = inner?.seconds
    const last = of ? of.length - 1 : 0
    for (let m = from; m < seconds.length; m++) {
      const left = m - o.saved
      const s = of ? own + of[left < last ? left : last]! : own
      if (s < seconds[m]!) {
        seconds[m] = s
        choice[m] = -1 - k
      }
    }
  }

  /** If it takes as long even with all memory for either part, more memory does not help. */
  private skip(table: Table, a: number, j: number, b: number, passes: number, peak: number): void {
    const { seconds, choice } = table
    const kept = this.kept[a]![j]!
    const right = this.tableOf[j]![b]!
    const left = this.tableOf[a]![j - 1]!
    const from = Math.max(peak, kept + right.least, left.least)
    table.least = Math.min(table.least, from)
    const [ofRight, ofLeft] = [right.seconds, left.seconds]
    const [lastRight, lastLeft] = [ofRight.length - 1, ofLeft.length - 1]
    const bound = passes + ofRight[lastRight]! + ofLeft[lastLeft]!
    for (let m = from; m < seconds.length && seconds[m]! > bound; m++) {
      const rest = m - kept
      const s = passes + ofRight[rest < lastRight ? rest : lastRight]! + ofLeft[m < lastLeft ? m : lastLeft]!
      if (s < seconds[m]!) {
        seconds[m] = s
        choice[m] = j - a
      }
    }
  }

  secondsOf(m: number): number {
    const whole = this.tableOf[0]![this.stages.length - 1]!
    return whole.seconds[entry(whole, m)]!
  }

  actionsOf(a: number, b: number, m: number, out: Action[]): Action[] {
    const table = this.tableOf[a]![b]!
    const choice = table.choice[entry(table, m)]!
    if (choice < 0) {
      const option = -1 - choice
      out.push({ tag: 'forward', stage: a, option })
      if (a < b) this.actionsOf(a + 1, b, m - this.stages[a]!.options[option]!.saved, out)
      out.push({ tag: 'backward', stage: a, option })
      return out
    }
    const j = a + choice
    for (let i = a; i < j; i++) out.push({ tag: 'pass', stage: i })
    this.actionsOf(j, b, m - this.kept[a]![j]!, out)
    return this.actionsOf(a, j - 1, m, out)
  }
}

export const solveChain = (stages: readonly ChainStage[], slots: number, rules: ChainRules = ALL_RULES): SolvedChain => {
  const solver = new Solver(stages, slots, rules)
  return {
    seconds: (m) => solver.secondsOf(m),
    actions: (m) => {
      if (!Number.isFinite(solver.secondsOf(m))) throw new Error(`no schedule of the chain fits ${m} slots`)
      return solver.actionsOf(0, stages.length - 1, m, [])
    },
    tables: solver.tables,
  }
}
