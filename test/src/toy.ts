// A training graph's state without a device: two layers, one norm, momentum; bytes in memory.
import { type Either, right } from 'fp-ts/Either'
import type { Graph, Value } from '../../staging/graph/graph'
import { valueBytes } from '../../staging/graph/graph'
import type { StateStore } from '../../src/train/weights'

const value = (
  id: number,
  name: string,
  role: Value['role'],
  shape: readonly number[],
  dtype: Value['dtype'] = 'f32',
): Value => ({ id, name, role, shape, dtype })

export const toyGraph: Graph = {
  name: 'toy',
  values: [
    value(0, 'image', 'input', [2, 3, 4, 5]),
    value(1, 'labels', 'target', [2, 1, 1, 1], 'i32'),
    value(2, 'conv.weight', 'param', [8, 3, 3, 3]),
    value(3, 'conv.weight.momentum', 'state', [8, 3, 3, 3]),
    value(4, 'bn.weight', 'param', [8]),
    value(5, 'bn.running_mean', 'state', [8]),
    value(6, 'bn.running_var', 'state', [8]),
    value(7, 'stats', 'stat', [2, 8]),
    value(8, 'frozen.running_mean', 'state', [8]),
  ],
  ops: [
    {
      id: 0,
      kind: 'bn_running',
      layer: 'bn',
      phase: 'update',
      attrs: { momentum: 0.1, count: 40 },
      ins: [7, 5, 6],
      outs: [],
    },
  ],
}

/** The same graph trained on pixels instead of classes. */
export const toyPixels: Graph = {
  ...toyGraph,
  values: toyGraph.values.map((v) => (v.id === 1 ? value(1, 'target', 'target', [2, 6, 2, 2]) : v)),
}

export class MemoryStore implements StateStore {
  private readonly bytes = new Map<string, Uint8Array>()
  constructor(graph: Graph, fill: (name: string, i: number) => number) {
    for (const v of graph.values)
      if (v.role === 'param' || v.role === 'state')
        this.bytes.set(v.name, new Uint8Array(Float32Array.from({ length: valueBytes(v) / 4 }, (_, i) => fill(v.name, i)).buffer))
  }
  read(name: string): Either<never, Uint8Array> {
    return right(this.bytesOf(name))
  }
  write(name: string, bytes: Uint8Array): Either<never, void> {
    if (bytes.length !== this.bytes.get(name)?.length) throw new Error(`${name}: ${bytes.length} bytes`)
    return right(void this.bytes.set(name, bytes.slice()))
  }
  bytesOf(name: string): Uint8Array {
    return this.bytes.get(name)!.slice()
  }
  numbers(name: string): readonly number[] {
    return [...new Float32Array(this.bytesOf(name).buffer)]
  }
}
