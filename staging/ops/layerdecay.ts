// Learning rates that fall towards the input. In: the parameters of a network in forward order. Out: the number of blocks after each. Invariant: a
// block has one depth; the last block has 0. The block of a name is its beginning up to the first part that is a number, or else that ends in
// digits, or else its first part. Norms belong to the block before them.
// Worked example: conv1.weight, bn1.weight, layer1.0.conv1.weight, layer1.1.conv1.weight, fc.weight have depths 3, 3, 2, 1, 0.

export interface NamedParameter {
  readonly name: string
  /** False for biases, and for the factors of norms. */
  readonly isMatrix: boolean
}

const blockOf = (name: string): string => {
  const parts = name.split('.').slice(0, -1)
  const ends = [/^\d+$/, /\d$/].map((form) => parts.findIndex((part) => form.test(part))).find((at) => at >= 0)
  return parts.slice(0, (ends ?? 0) + 1).join('.')
}

/** Returns the number of blocks after each parameter, by its name. */
export const depthsOf = (parameters: readonly NamedParameter[]): ReadonlyMap<string, number> => {
  const names = parameters.map(({ name }) => blockOf(name))
  const isBlock = (block: string): boolean => parameters.some((p, i) => p.isMatrix && names[i] === block)
  const order = [...new Set(names)].filter(isBlock)
  let last = 0
  const at = names.map((block) => {
    last = isBlock(block) ? order.indexOf(block) : last
    return last
  })
  return new Map(parameters.map(({ name }, i) => [name, Math.max(0, order.length - 1 - at[i]!)]))
}
