// Callers without types: each wrong value of an option is refused by its name, with the allowed values.
import { isLeft } from 'fp-ts/Either'
import { test } from 'uvu'
import * as assert from 'uvu/assert'
import * as s from '../../../src'

const net = s.model([1, 3, 8, 8], s.seq(s.conv2d('c', 2, 3), s.globalAvgPool()))
const plan: s.Staged = s.stage(net, { machine: 'v100-pcie-16g' })
type Options = Readonly<Record<string, unknown>>
const stage = (o: Options) => () => s.tryStage(net, { machine: 'v100-pcie-16g', ...o } as never)
const train = (o: Options) => () => s.trainTask(net, plan, { steps: 1, ...o } as never)()
const predict = (o: Options) => () => s.predict(net, plan, { weights: 'w', data: 'd', ...o } as never)
const evaluate = (o: Options) => () => s.evaluate(net, plan, { weights: 'w', data: 'd', ...o } as never)

const saidBy = async (call: () => unknown): Promise<string> => {
  try {
    const answer = (await call()) as s.Either<s.SpillwayError, unknown> | undefined
    return answer && isLeft(answer) ? s.errorText(answer.left) : 'nothing'
  } catch (e) {
    return (e as Error).message
  }
}

const DATA = 'a path, or the result of folder, files or source'
const CASES: readonly (readonly [call: () => unknown, says: string])[] = [
  [stage({ algorithms: 'x' }), "algorithms is 'x'; allowed: fixed, measured, fastest"],
  [stage({ measure: '' }), "measure is ''; allowed: first, while"],
  [stage({ tiles: [{}] }), 'tiles: from is undefined; allowed: names of layers'],
  [stage({ tiles: [{ from: 'c', to: 'c', H: '2' }] }), "tiles: H is '2'; allowed: a number of tiles"],
  [stage({ tiles: 'c' }), "tiles is 'c'; allowed: a list of tile ranges, such as { from: 'conv1', to: 'pool1', H: 4 }"],
  [stage({ tiles: [null] }), 'options of a tile range'],
  [stage({ checkpoints: [3] }), 'checkpoints is [3]; allowed: a list of names of layers'],
  [stage({ loss: null }), 'loss is null; allowed: mse, l1,'],
  [stage({ loss: '' }), "loss is ''; allowed: mse, l1,"],
  [stage({ loss: 'hinge' }), "there is no loss 'hinge'; allowed: mse, l1,"],
  [stage({ loss: s.dice({ smooth: '1' as never }) }), `'smooth of dice': it is "1"; allowed: a number`],
  [stage({ optimizer: null }), 'optimizer is null; allowed: the result of sgd, adam,'],
  [stage({ optimizer: 'adam' }), "optimizer is 'adam'; allowed: the result of sgd, adam,"],
  [stage({ budget: null }), 'budget is null; allowed: a whole number of bytes'],
  [stage({ effort: '5s' }), "effort is '5s'; allowed: seconds from 0.1 to 3600"],
  [stage({ effort: 0 }), 'the effort is 0; allowed: 0.1 to 3600 seconds'],
  [
    stage({ effort: 5, strategy: 'in-core' }),
    "the effort is for the strategy 'auto' of training; this is 'in-core' to train: leave it out",
  ],
  [stage({ budget: '4GiB' }), "budget is '4GiB'; allowed: a whole number of bytes"],
  [stage({ mode: null }), 'mode is null; allowed: train, predict, evaluate'],
  [stage({ machine: null }), 'machine is null; allowed: cpu, ref, cuda, and names of simulated machines'],
  [stage({ precision: '' }), "precision is ''; allowed: fp32, tf32, bf16"],
  [stage({ groups: [{ match: 'c.*', frozen: 1 }] }), 'groups: frozen is 1; allowed: true, false'],
  [train({ onNonfinite: 'x' }), "onNonfinite is 'x'; allowed: end, continue"],
  [train({ data: '' }), `data is ''; allowed: ${DATA}`],
  [train({ data: null }), `data is null; allowed: ${DATA}`],
  [train({ steps: '1' }), "steps is '1'; allowed: whole numbers of at least 1"],
  [train({ shuffle: 'yes' }), "shuffle is 'yes'; allowed: true, false"],
  [train({ engine: 'nccl' }), "engine is 'nccl'; allowed: mpi, threads"],
  [train({ evaluate: null }), 'evaluate is null; allowed: the result of validation({ data })'],
  [train({ keep: null }), 'keep is null; allowed: an object such as { last: 3 }'],
  [train({ schedule: 'cosine' }), "schedule is 'cosine'; allowed: a function, or the result of"],
  [train({ onNote: true }), 'onNote is true; allowed: a function'],
  [train({ stop: {} }), 'stop is {}; allowed: an AbortSignal'],
  [train({ save: '' }), "save is ''; allowed: a path"],
  [train({ weights: 'w', weightsSkip: 3 }), 'weightsSkip is 3; allowed: a string or a list of strings'],
  [predict({ data: '' }), `data is ''; allowed: ${DATA}`],
  [predict({ weights: undefined }), 'weights is undefined; allowed: a path'],
  [predict({ format: null }), 'format is null; allowed: npy, png'],
  [evaluate({ data: null }), `data is null; allowed: ${DATA}`],
  [evaluate({ metrics: 'accuracy' }), "metrics is 'accuracy'; allowed: a list of names of metrics"],
  [() => s.tryStage(null as never), 'it is null; allowed: the result of model, modelAt or step'],
  [() => s.train({} as never, plan, { steps: 1 }), 'it is an object with no fields; allowed: the result of model'],
  [() => s.train(net, null as never, { steps: 1 }), 'the plan is null; allowed: the result of stage'],
  [() => s.predict(net, 3 as never, { weights: 'w', data: 'd', out: 'o' }), 'the plan is 3; allowed: the result of stage'],
  [() => s.evaluate(net, {} as never, { weights: 'w', data: 'd' }), 'the plan is an object with no fields'],
  [() => s.validation({ data: '' }), `validation: data is ''; allowed: ${DATA}`],
  [() => s.folder(''), "folder: the path is ''; allowed: a path of a file or folder"],
  [() => s.folder('a', { fit: null as never }), 'folder: fit is null; allowed: cover, stretch, pad, crop'],
  [() => s.files('a', { mean: [] }), 'files: mean is []; allowed: a list of numbers, one for each channel'],
  [() => s.source({ length: 1, read: () => ({}), layout: '' as never }), "source: layout is ''; allowed: NCHW, NHWC"],
  [() => s.metric({ name: '' } as never), "metric: name is ''; allowed: a text that is not empty"],
  [() => s.cosine({ floor: null as never }), 'cosine: floor is null; allowed: a value, or none for the default'],
  [() => s.upsample({ scale: 2, mode: 'x' as never }), "upsample: mode is 'x'; allowed: nearest, bilinear"],
  [() => s.tryExportOnnx(net, { weights: 'w' } as never), 'out is undefined; allowed: a path'],
  [() => s.tryImportOnnx('a', { out: null } as never), 'out is null; allowed: a path'],
]

for (const [call, says] of CASES)
  test(says, async () => {
    const said = await saidBy(call)
    assert.ok(said.includes(says), said)
  })

test.run()
