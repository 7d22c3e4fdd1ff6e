// Plans with a wrong graph or wrong lists are refused before anything runs.
import { test } from 'uvu'
import { swapPlan, tiledPlan } from './handmade'
import { call, indexOf, refuses, removeCall, repeatCall, stay } from './refused'

// ---------------------------------------------------------------- the graph

refuses(
  'two ops produce one value',
  'graph',
  tiledPlan,
  (p) => {
    p.graph.ops[1]!.outs = [...p.graph.ops[0]!.outs]
  },
  /computes the value of op \d+ again/,
)
refuses(
  'an op reads what a later op produces',
  'graph',
  tiledPlan,
  (p) => {
    const [a, b] = [p.graph.ops[0]!, p.graph.ops[1]!]
    p.graph.ops[0] = { ...b, id: 0 }
    p.graph.ops[1] = { ...a, id: 1 }
  },
  /before an op computes it/,
)
refuses('a value is not at its index', 'graph', tiledPlan, (p) => {
  p.graph.values[2]!.id = 3
})
refuses('a shape that the op does not give', 'graph', tiledPlan, (p) => {
  p.graph.values.find((v) => v.name === 'c1')!.shape[2] = 7
})
refuses(
  'an operator that does not exist',
  'graph',
  tiledPlan,
  (p) => {
    p.graph.ops[1]!.kind = 'relv'
  },
  /not in the op table/,
)
refuses('attributes that do not exist', 'graph', tiledPlan, (p) => {
  p.graph.ops[1]!.attrs = { slop: 0 }
})
refuses(
  'a weight is updated with the gradient of another',
  'graph',
  tiledPlan,
  (p) => {
    const [first, second] = p.graph.ops.filter((o) => o.kind === 'sgd')
    second!.ins[1] = first!.ins[1]!
  },
  /gradient of another value/,
)

// ---------------------------------------------------------------- calls and segments

refuses(
  'calls of a later segment come first',
  'structure',
  tiledPlan,
  (p) => {
    p.calls[8]!.segment = 1
  },
  /out of order/,
)
refuses('a tile that the grid does not have', 'structure', tiledPlan, (p) => {
  p.calls[5]!.tile = 2
})
refuses(
  'a cell is touched after its stated life',
  'structure',
  tiledPlan,
  (p) => {
    p.cells[p.calls[5]!.ins[0]!.cell]!.last--
  },
  /outside its stated life/,
)
refuses(
  'an op runs in a segment that does not list it',
  'operand',
  tiledPlan,
  (p) => {
    p.segments[0]!.body.shift()
  },
  /does not list op/,
)
refuses(
  'a call with other attributes than its op',
  'operand',
  tiledPlan,
  (p) => {
    call(p, 'conv2d').attrs = { ...call(p, 'conv2d').attrs, padTop: 0 }
  },
  /the attributes of .* differ/,
)
refuses('a call of another kind than its op', 'operand', tiledPlan, (p) => {
  call(p, 'relu').kind = 'dropout'
})
refuses('operands in the wrong order', 'operand', tiledPlan, (p) => {
  call(p, 'conv2d_bwd_weights').ins.reverse()
})
refuses(
  'a view of a value that the cell never holds',
  'operand',
  tiledPlan,
  (p) => {
    call(p, 'conv2d').ins[0]!.cell = call(p, 'conv2d').ins[1]!.cell
  },
  /never holds/,
)
refuses('a box outside what is held', 'operand', tiledPlan, (p) => {
  call(p, 'relu').ins[0]!.box[2] = [0, 6]
})
refuses('more is held than the cell has bytes', 'operand', tiledPlan, (p) => {
  p.cells[call(p, 'relu').ins[0]!.cell]!.bytes = 64
})
refuses(
  'a workspace larger than its cell',
  'operand',
  swapPlan,
  (p) => {
    call(p, 'conv2d').workspace!.bytes += 64
  },
  /workspace/,
)
refuses('plumbing that does not exist', 'operand', tiledPlan, (p) => {
  call(p, 'fill').kind = 'fell'
})
refuses(
  'an accumulator that starts with ones',
  'operand',
  tiledPlan,
  (p) => {
    call(p, 'fill').attrs['value'] = 1
  },
  /allowed: 0/,
)
refuses('an update is left out', 'times', swapPlan, (p) => removeCall(p, indexOf(p, 'sgd')), /no call runs op/)
refuses('an update runs twice', 'updated', swapPlan, (p) => repeatCall(p, indexOf(p, 'sgd')), /was updated by call/)

// ---------------------------------------------------------------- places and residencies

refuses('a cell ends past its storage', 'place', swapPlan, (p) => {
  p.places[call(p, 'relu').ins[0]!.cell]!.offset = 64
})
refuses(
  'a cell between alignments',
  'place',
  tiledPlan,
  (p) => {
    const { cell } = call(p, 'relu').ins[0]!
    p.places[cell]!.offset = 4
    p.storages[cell]!.bytes += 64
  },
  /multiples of 64/,
)
refuses('a storage that does not list its cell', 'place', swapPlan, (p) => {
  p.storages[0]!.cells = []
})
refuses('a residency that ends before it begins', 'structure', swapPlan, (p) => {
  stay(p, 'c1', 1).release = 4
})
refuses(
  'residencies out of order',
  'structure',
  swapPlan,
  (p) => {
    p.residencies.reverse()
  },
  /acquired earlier/,
)
refuses('a swap in that is ready after the pages are gone', 'structure', swapPlan, (p) => {
  stay(p, 'c1', 1).swapIn!.ready = 9
})
refuses('a swap out that starts after it is waited for', 'structure', swapPlan, (p) => {
  stay(p, 'c1').swapOut!.start = 5
})
refuses('a swap out of pages that are still arriving', 'structure', swapPlan, (p) => {
  stay(p, 'c1', 1).swapOut = { start: 5 }
})
refuses(
  'a storage larger than any machine',
  'structure',
  swapPlan,
  (p) => {
    p.storages[0]!.bytes = 2 ** 48
  },
  /allowed: /,
)
refuses('pages past the end of the storage', 'structure', swapPlan, (p) => {
  stay(p, 'image').to = 3
})
refuses(
  'fewer physical pages than pages',
  'pages',
  swapPlan,
  (p) => {
    stay(p, 'image').runs.pop()
  },
  /1 physical pages for 2/,
)
refuses('a transfer between alignments', 'tier', swapPlan, (p) => {
  for (const n of [0, 1]) stay(p, 'c1', n).tierOffset = 100
})
refuses('a swap out across the end of the host memory', 'tier', swapPlan, (p) => {
  p.hostBytes = stay(p, 'c1').tierOffset! + 4096
})
refuses('host memory that ends between sectors', 'structure', swapPlan, (p) => {
  p.hostBytes = 100
})
refuses('more host memory than there is of the lower tier', 'structure', swapPlan, (p) => {
  p.hostBytes = p.tierBytes + 4096
})
refuses('a swap out past the end of the lower tier', 'tier', swapPlan, (p) => {
  p.tierBytes -= 4096
})

test.run()
