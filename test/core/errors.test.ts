// The words of errors that no other test of graphs raises: one for each way to join a message.
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import { renderError, type StageError } from '../../staging/core/errors'

const cases: readonly (readonly [StageError, string])[] = [
  [
    {
      tag: 'BudgetInfeasible',
      strategy: 'tiled',
      budgetBytes: 2 ** 20,
      smallestBytes: 3 * 2 ** 21,
      inTheWay: [
        { label: 'parameters', bytes: 5 * 2 ** 20 },
        { label: 'conv1', bytes: 2 ** 20 },
      ],
    },
    "no plan of strategy 'tiled' fits 1.00 MiB: the smallest budget that works is 6.00 MiB (6291456 bytes); largest at the peak: parameters 5.00 MiB, conv1 1.00 MiB",
  ],
  [
    {
      tag: 'BudgetInfeasible',
      strategy: 'auto',
      budgetBytes: 2 ** 20,
      smallestBytes: 2 ** 22,
      call: { layer: 'conv1', kind: 'conv2d_bwd_weights' },
      inTheWay: [{ label: 'conv1', bytes: 2 ** 21 }],
      sizes: ['--batch 4', '--image 48'],
      sizesBy: 'spillway fits net.ts --in 1MiB',
    },
    "no plan of strategy 'auto' fits 1.00 MiB: the smallest budget that works is 4.00 MiB (4194304 bytes); then layer 'conv1' (conv2d_bwd_weights) needs most: conv1 2.00 MiB; --batch 4 or --image 48 fits; 'spillway fits net.ts --in 1MiB' finds the largest batch and image that fit",
  ],
  [
    { tag: 'BudgetInfeasible', strategy: 'tiled', budgetBytes: 0, smallestBytes: 2 ** 21, inTheWay: [] },
    "no plan of strategy 'tiled' fits 0 B: the smallest budget that works is 2.00 MiB (2097152 bytes)",
  ],
  [
    { tag: 'BudgetInfeasible', strategy: 'tiled', budgetBytes: 512, smallestBytes: 2 ** 21, inTheWay: [] },
    "no plan of strategy 'tiled' fits 512 B: the smallest budget that works is 2.00 MiB (2097152 bytes); a size without a unit is in bytes: write 512MiB for 512 MiB",
  ],
  [
    {
      tag: 'VerifyFailed',
      rule: 'halo',
      reason: 'rows [3,9) are needed, [3,8) are there',
      segment: 2,
      tile: 5,
      call: 40,
      value: 'conv1',
    },
    "the plan breaks rule 'halo' at segment 2, tile 5, call 40, value 'conv1': rows [3,9) are needed, [3,8) are there",
  ],
  [{ tag: 'VerifyFailed', rule: 'budget', reason: '9 pages are held' }, "the plan breaks rule 'budget': 9 pages are held"],
  [{ tag: 'UnknownStrategy', got: 'tilde', legal: ['tiled', 'auto'] }, "there is no strategy 'tilde'; allowed: tiled, auto"],
  [{ tag: 'PlanFormat', at: 'storages[3]', reason: 'its bytes are -1' }, 'not a plan file: storages[3]: its bytes are -1'],
]

test('errors as text', () => {
  for (const [error, words] of cases) assert.is(renderError(error), words)
})

test.run()
