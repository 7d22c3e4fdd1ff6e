// Work that does not depend on the budget is done once for a graph and a machine. In: a pure function of both. Out: the same
// function, which remembers its answers as long as their graph lives.
import { onceForPair } from '../core/remember'
import type { Graph } from '../graph/graph'
import type { Machine } from '../graph/machine'

export const onceFor = <T>(f: (graph: Graph, machine: Machine) => T): ((graph: Graph, machine: Machine) => T) => onceForPair(f)
