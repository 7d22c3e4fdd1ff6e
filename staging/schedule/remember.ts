// Work that does not depend on the budget is done once for a graph and a machine. In: a pure function of both. Out: the same
// function, which remembers its answers as long as their graph lives.
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'

export const onceFor = <T>(f: (graph: Graph, machine: Machine) => T): ((graph: Graph, machine: Machine) => T) => {
  const known = new WeakMap<Graph, WeakMap<Machine, T>>()
  return (graph, machine) => {
    const here = known.get(graph) ?? new WeakMap<Machine, T>()
    known.set(graph, here)
    const answer = here.has(machine) ? here.get(machine)! : f(graph, machine)
    here.set(machine, answer)
    return answer
  }
}
