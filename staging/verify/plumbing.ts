// The effect of the calls that tiling adds: `fill`, `copy`, `merge_sum` and `merge_moments`. In: the contents of cells before the call. Out: the
// contents after it, or the fault.
import { isLeft } from 'fp-ts/Either'
import type { Call, View } from '../plan/plan'
import type { Content, Contents, Contribution } from './contents'
import type { Facts } from './facts'
import { broken, type Fault } from './failure'
import { contains, NOTHING, plus, sameRegion, touches } from './region'
import { summed, momentsCount, take } from './sums'

const sameBox = (x: View, y: View): boolean => x.value === y.value && sameRegion([x.box], [y.box])

const fill = (facts: Facts, contents: Contents, c: Call, index: number): Fault => {
  const [y] = c.outs
  if (c.attrs['value'] !== 0) return broken('operand', `fill writes ${c.attrs['value']}; allowed: 0`, facts.at(index, y!.value))
  return contents.write(y!, { exact: NOTHING, ways: [], support: y!.box }, index)
}

const copy = (facts: Facts, contents: Contents, x: View, y: View, index: number): Fault => {
  const content = contents.contentOf(x)
  const fresh = facts.plan.cells[y.cell]!.scope === 'local' || contents.contentOf(y) === undefined
  if (content && content.ways.length > 0 && fresh) {
    const got = take(facts, contents, x, -1, index)
    return isLeft(got) ? got.left : contents.write(y, got.right, index)
  }
  const exact: Contribution = { exact: [x.box], ways: [], support: x.box }
  return contents.needExact(x, index) ?? contents.write(y, exact, index)
}

/** Returns the contents of an accumulator, or a fault if some of its elements were not zeroed. */
const target = (facts: Facts, contents: Contents, y: View, index: number): Content | Fault => {
  const content = contents.contentOf(y)
  if (!content) return contents.missing(y, index)
  if (!contains(content.defined, y.box))
    return broken('unwritten', 'elements are added to before they are zeroed', facts.at(index, y.value))
  return content
}

const isFault = (c: Content | Fault): c is Fault => c === undefined || 'tag' in c

const mergeSum = (facts: Facts, contents: Contents, x: View, y: View, index: number): Fault => {
  if (facts.merge[y.value] !== 'sum')
    return broken('operand', 'partial moments cannot be added; allowed: merge_moments', facts.at(index, y.value))
  const content = target(facts, contents, y, index)
  if (isFault(content)) return content
  const got = take(facts, contents, x, -1, index)
  if (isLeft(got)) return got.left
  const sum = summed(facts, content, got.right)
  if (isLeft(sum)) return broken('twice', sum.left, facts.at(index, y.value))
  contents.sum(y, sum.right)
  return undefined
}

const mergeMoments = (facts: Facts, contents: Contents, c: Call, index: number): Fault => {
  const [x, y] = [c.ins[0]!, c.outs[0]!]
  const at = facts.at(index, y.value)
  if (facts.merge[y.value] !== 'moments') return broken('operand', 'it is not a statistic; allowed: merge_sum', at)
  const got = take(facts, contents, x, -1, index)
  if (isLeft(got)) return got.left
  const before = c.attrs['countY'] === 0 ? undefined : contents.contentOf(y)
  const counts = [momentsCount(facts, x, got.right), before ? momentsCount(facts, y, before) : 0]
  if (c.attrs['countX'] !== counts[0] || c.attrs['countY'] !== counts[1])
    return broken(
      'operand',
      `it merges ${c.attrs['countX']} elements into ${c.attrs['countY']}; allowed: ${counts[0]} into ${counts[1]}`,
      at,
    )
  const others = before ? undefined : contents.contentOf(y)
  if (!before && !(others && others.ways.length > 0 && !touches(others.defined, y.box)))
    return contents.write(y, got.right, index)
  // The accumulator already has statistics of other images: this part is the first of its image.
  const sum = summed(facts, before ?? { ...others!, defined: plus(others!.defined, y.box) }, got.right)
  if (isLeft(sum)) return broken('twice', sum.left, at)
  contents.sum(y, sum.right)
  return undefined
}

export const effectOfPlumbing = (facts: Facts, contents: Contents, index: number): Fault => {
  const c = facts.plan.calls[index]!
  const [x, y] = [c.ins[0], c.outs[0]!]
  if (x && !sameBox(x, y)) return broken('operand', `the boxes of input and output of ${c.kind} differ`, facts.at(index, y.value))
  switch (c.kind) {
    case 'fill':
      return fill(facts, contents, c, index)
    case 'copy':
      return copy(facts, contents, x!, y, index)
    case 'merge_sum':
      return mergeSum(facts, contents, x!, y, index)
    default:
      return mergeMoments(facts, contents, c, index)
  }
}
