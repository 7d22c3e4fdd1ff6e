// Programs of `torch.export`, as a test makes them. In: parts of an archive, or nodes and the sizes of their results. Out: the archive's bytes.
// Invariant: a program has one input, `x`, and its weights are zeros.
import { closeSync, openSync, readFileSync, statSync } from 'node:fs'
import { isLeft } from 'fp-ts/Either'
import { zipParts } from '../../src/files/zip'
import { archive, type Part } from '../faults/archive'

export type Parts = ReadonlyMap<string, Buffer>

export const archiveOf = (parts: Parts, says: Readonly<Record<string, Part['says']>> = {}): Buffer =>
  archive([...parts].map(([name, bytes]) => ({ name, bytes, ...(says[name] ? { says: says[name] } : {}) })))

/** The parts of a stored archive. */
export const partsOf = (path: string): Map<string, Buffer> => {
  const fd = openSync(path, 'r')
  const parts = zipParts(fd, statSync(path).size)
  closeSync(fd)
  if (isLeft(parts)) throw new Error(parts.left)
  const bytes = readFileSync(path)
  return new Map([...parts.right.values()].map((p) => [p.name, bytes.subarray(p.offset, p.offset + p.bytes)]))
}

/** A node: its operator, its arguments, and its results with their sizes. */
export type Node = readonly [
  target: string,
  inputs: Readonly<Record<string, object>>,
  outputs: Readonly<Record<string, readonly number[]>>,
]

export const tensor = (name: string) => ({ as_tensor: { name } })
export const tensors = (...names: readonly string[]) => ({ as_tensors: names.map((name) => ({ name })) })
export const ints = (...as_ints: readonly number[]) => ({ as_ints })

const meta = (sizes: readonly number[], dtype: number) => ({
  dtype,
  sizes: sizes.map((as_int) => ({ as_int })),
  strides: sizes.map((_, i) => ({ as_int: sizes.slice(i + 1).reduce((n, d) => n * d, 1) })),
  storage_offset: { as_int: 0 },
})

export interface Made {
  readonly nodes: readonly Node[]
  readonly input?: readonly number[]
  /** Parameters by name, with their sizes. */
  readonly weights?: Readonly<Record<string, readonly number[]>>
}

/** The parts of a program with the input `x`; its output is the last node's first result. */
export const programOf = ({ nodes, input = [2, 4, 8, 8], weights = {} }: Made): Map<string, Buffer> => {
  const json = (u: unknown): Buffer => Buffer.from(JSON.stringify(u))
  const values = Object.fromEntries([
    ['x', input] as const,
    ...Object.entries(weights),
    ...nodes.flatMap(([, , o]) => Object.entries(o)),
  ])
  const [last] = Object.keys(nodes[nodes.length - 1]![2])
  const graph = {
    nodes: nodes.map(([target, inputs, outputs]) => ({
      target: `torch.ops.aten.${target}`,
      inputs: Object.entries(inputs).map(([name, arg]) => ({ name, arg, kind: 1 })),
      outputs: Object.keys(outputs).map(tensor),
      metadata: { nn_module_stack: 'L__self__,,Net;L__self__body,body,Body' },
      name: Object.keys(outputs)[0] ?? target,
    })),
    tensor_values: Object.fromEntries(Object.entries(values).map(([name, sizes]) => [name, meta(sizes, 7)])),
  }
  const names = Object.keys(weights)
  const signature = {
    input_specs: [
      ...names.map((name) => ({ parameter: { arg: { name }, parameter_name: name } })),
      { user_input: { arg: tensor('x') } },
    ],
    output_specs: [{ user_output: { arg: tensor(last!) } }],
  }
  const config = Object.fromEntries(
    names.map((name, i) => [
      name,
      { path_name: `weight_${i}`, is_param: true, use_pickle: false, tensor_meta: meta(weights[name]!, 7) },
    ]),
  )
  return new Map([
    ['p/archive_format', Buffer.from('pt2')],
    ['p/models/model.json', json({ schema_version: { major: 8, minor: 20 }, graph_module: { graph, signature } })],
    ['p/data/weights/model_weights_config.json', json({ config })],
    ['p/data/constants/model_constants_config.json', json({ config: {} })],
    ...names.map(
      (name, i) => [`p/data/weights/weight_${i}`, Buffer.alloc(4 * weights[name]!.reduce((n, d) => n * d, 1))] as const,
    ),
  ])
}
