// Execution order by paper 4's depth-first rule (section 3.1, Algorithm 1): at a fork one branch is followed to the join before the next begins; the
// join runs after all of its inputs. Ops that are ready at once run in written order. Worked example: fork f to branches a1,a2 and b1,b2 and join j
// runs f a1 a2 b1 b2 j, in any written order.

export interface Node {
  readonly ins: readonly number[]
  readonly outs: readonly number[]
}

/** The indices of `nodes` in execution order. `nodes` must be without cycles. */
export const depthFirst = (nodes: readonly Node[]): readonly number[] => {
  const producer = new Map(nodes.flatMap((n, i) => n.outs.map((v) => [v, i] as const)))
  const readers: number[][] = nodes.map(() => [])
  const missing = nodes.map((n, i) => {
    const from = n.ins.map((v) => producer.get(v)).filter((p) => p !== undefined)
    for (const p of from) readers[p]!.push(i)
    return from.length
  })
  const order: number[] = []
  const ready = [...nodes.keys()].filter((i) => missing[i] === 0).reverse()
  for (let i = ready.pop(); i !== undefined; i = ready.pop()) {
    order.push(i)
    const woken = readers[i]!.filter((r) => --missing[r]! === 0)
    ready.push(...woken.reverse())
  }
  if (order.length !== nodes.length) throw new Error('depthFirst: the graph has a cycle')
  return order
}
