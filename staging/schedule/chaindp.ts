// The optimal recomputation of a chain of stages in a given memory (Rotor's dynamic programme, after Beaumont et al. 2019).
// In: stages with times and sizes in slots. Out: the least time for every number of slots, and the actions that take it.
// best(a, b, m): process stages a..b forward and backward, a's input being held by whoever called, in m slots besides it:
//   save a with option k:  forward(a) + backward(a, k) + best(a+1, b, m - saved(a, k))
//   keep a's input and skip to j:  passes(a..j-1) + best(j, b, m - input(j)) + best(a, j-1, m)
// Worked example, three equal stages and room for one: pass 1 2, run 3 and back, pass 1, run 2 and back, run 1 and back.

/** A way to keep what a stage's backward needs. Sizes in slots, without the stage's input. */
export interface StageOption {
  /** Held from forward to backward, the stage's output included. */
  readonly saved: number
  /** The most at once while the forward runs, and while the backward does (what is saved and the output's gradient included). */
  readonly forwardPeak: number
  readonly backwardPeak: number
  readonly backwardSeconds: number
}

export interface ChainStage {
  /** The first forward, and a repeated one, which finds the statistics there. */
  readonly firstSeconds: number
  readonly againSeconds: number
  /** The most at once while the forward runs and nothing but the output is kept. */
  readonly passPeak: number
  readonly input: number
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
  /** Whether a value may be recomputed more than once (nested checkpoints). */
  readonly nested: boolean
  /** Whether stages may choose among their options, or all keep everything (option 0). */
  readonly options: boolean
}
export const ALL_RULES: ChainRules = { nested: true, options: true }

/** Least seconds by slots, and what to do: -1-k saves with option k, j > 0 skips to the stage that lies j further. */
interface Table {
  readonly seconds: Float64Array
  readonly choice: Int16Array
}

export interface SolvedChain {
  /** Least seconds in m slots; Infinity where nothing fits. */
  readonly seconds: (slots: number) => number
  readonly actions: (slots: number) => readonly Action[]
  /** How many tables were made: equal stretches of stages share one. */
  readonly tables: number
}

const stageKey = (s: ChainStage): string => JSON.stringify(s)

class Solver {
  /** By number of the stretch's sequence of stages. */
  private readonly solved = new Map<number, Table>()
  private readonly sequences = new Map<string, number>()
  private readonly tableOf: (Table | undefined)[][]

  constructor(
    readonly stages: readonly ChainStage[],
    readonly slots: number,
    readonly rules: ChainRules,
  ) {
    this.tableOf = stages.map(() => [])
    const keys = stages.map(stageKey)
    for (let b = 0; b < stages.length; b++) {
      let sequence = this.number(b === stages.length - 1 ? 'end' : 'again')
      const at: number[] = []
      for (let a = b; a >= 0; a--) at[a] = sequence = this.number(`${keys[a]} ${sequence}`)
      // Short stretches first: a..b needs every stretch inside it. Those that end earlier are there already.
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

  /** Stretches that end at the last stage run for the first time, all others again. */
  private forwardSeconds(stage: number, b: number): number {
    const s = this.stages[stage]!
    return b === this.stages.length - 1 ? s.firstSeconds : s.againSeconds
  }

  private solve(a: number, b: number): Table {
    const table: Table = { seconds: new Float64Array(this.slots + 1).fill(Infinity), choice: new Int16Array(this.slots + 1) }
    const options = this.rules.options ? this.stages[a]!.options : this.stages[a]!.options.slice(0, 1)
    for (const [k, o] of options.entries()) this.save(table, a, b, k, o)
    let passes = 0
    let peak = 0
    const after = this.stages[b]!.gradient
    for (let j = a + 1; j <= b; j++) {
      const passed = this.stages[j - 1]!
      passes += this.forwardSeconds(j - 1, b)
      peak = Math.max(peak, after + passed.passPeak + (j - 1 > a ? passed.input : 0))
      if (this.rules.nested || b === this.stages.length - 1) this.skip(table, a, j, b, passes, peak)
    }
    return table
  }

  private save({ seconds, choice }: Table, a: number, b: number, k: number, o: StageOption): void {
    const after = this.stages[b]!.gradient
    const least = Math.max(o.saved, o.forwardPeak + after, o.backwardPeak)
    const own = this.forwardSeconds(a, b) + o.backwardSeconds
    const inner = a < b ? this.tableOf[a + 1]![b]!.seconds : null
    for (let m = least; m <= this.slots; m++) {
      const s = own + (inner ? inner[m - o.saved]! : 0)
      if (s < seconds[m]!) {
        seconds[m] = s
        choice[m] = -1 - k
      }
    }
  }

  private skip({ seconds, choice }: Table, a: number, j: number, b: number, passes: number, peak: number): void {
    const input = this.stages[j]!.input
    const right = this.tableOf[j]![b]!.seconds
    const left = this.tableOf[a]![j - 1]!.seconds
    for (let m = Math.max(input, peak); m <= this.slots; m++) {
      const s = passes + right[m - input]! + left[m]!
      if (s < seconds[m]!) {
        seconds[m] = s
        choice[m] = j - a
      }
    }
  }

  secondsOf(m: number): number {
    return this.tableOf[0]![this.stages.length - 1]!.seconds[Math.min(m, this.slots)]!
  }

  actionsOf(a: number, b: number, m: number, out: Action[]): Action[] {
    const choice = this.tableOf[a]![b]!.choice[m]!
    if (choice < 0) {
      const option = -1 - choice
      out.push({ tag: 'forward', stage: a, option })
      if (a < b) this.actionsOf(a + 1, b, m - this.stages[a]!.options[option]!.saved, out)
      out.push({ tag: 'backward', stage: a, option })
      return out
    }
    const j = a + choice
    for (let i = a; i < j; i++) out.push({ tag: 'pass', stage: i })
    this.actionsOf(j, b, m - this.stages[j]!.input, out)
    return this.actionsOf(a, j - 1, m, out)
  }
}

export const solveChain = (stages: readonly ChainStage[], slots: number, rules: ChainRules = ALL_RULES): SolvedChain => {
  const solver = new Solver(stages, slots, rules)
  return {
    seconds: (m) => solver.secondsOf(m),
    actions: (m) => {
      if (!Number.isFinite(solver.secondsOf(m))) throw new Error(`no schedule of the chain fits ${m} slots`)
      return solver.actionsOf(0, stages.length - 1, Math.min(m, slots), [])
    },
    tables: solver.tables,
  }
}
