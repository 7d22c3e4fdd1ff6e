// Import cycles. In: the edges between files. Out: for each knot of files that reach one another, one shortest cycle.
// Types count too: a cycle of types is a cycle for the reader.
import type { Edge } from './graph'

type Graph = ReadonlyMap<string, readonly string[]>

const fileGraph = (edges: readonly Edge[]): Graph => {
  const graph = new Map<string, string[]>()
  for (const { from, target } of edges) {
    if (target.tag === 'file') graph.set(from, [...(graph.get(from) ?? []), target.path])
  }
  return graph
}

/** Shortest way from a file back to itself, or null. */
const shortestCycle = (graph: Graph, start: string): string[] | null => {
  const cameFrom = new Map<string, string>()
  const queue = [start]
  for (let at = queue.shift(); at !== undefined; at = queue.shift()) {
    for (const next of graph.get(at) ?? []) {
      if (next === start) return unwind(cameFrom, start, at)
      if (cameFrom.has(next)) continue
      cameFrom.set(next, at)
      queue.push(next)
    }
  }
  return null
}

const unwind = (cameFrom: ReadonlyMap<string, string>, start: string, last: string): string[] => {
  const way = [last]
  while (way[0] !== start) way.unshift(cameFrom.get(way[0]!)!)
  return way
}

export const cyclesOf = (edges: readonly Edge[]): string[][] => cyclesIn(fileGraph(edges))

export const cyclesIn = (graph: Graph): string[][] => {
  const seen = new Set<string>()
  const cycles: string[][] = []
  for (const file of [...graph.keys()].sort()) {
    if (seen.has(file)) continue
    const cycle = shortestCycle(graph, file)
    if (!cycle) continue
    for (const member of cycle) seen.add(member)
    cycles.push(cycle)
  }
  return cycles
}
