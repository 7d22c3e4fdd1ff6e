// Networks of the zoo with classes. Each is a net; called with a number of classes, it returns the same net with another head. In: a function from a
// number of classes to the net, and the usual number. Out: a function with the fields of the net. Invariant: a decoded net is plain data again; its
// JSON is the net's. Worked example: resnet50 is a Seq of a body and a head; resnet50({ classes: 10 }) has the same body object, and a head whose
// `fc` gives 10.
import { orThrow } from '../staging/core/certain'
import { renderError } from '../staging/core/errors'
import { known } from '../staging/core/known'
import { optionsFor } from '../staging/core/options'
import type { Net } from './net'

/**
 * Options of a network with a chosen number of classes.
 *
 * @example const options: ClassesOptions = { classes: 10 }
 */
export interface ClassesOptions<N extends number = number> {
  /** Number of classes. @example zooEntry('resnet50')?.build([8, 3, 224, 224], 'train', { classes: 10 }) */
  readonly classes: N
}
const CLASSES = optionsFor<ClassesOptions>()('a network', 'classes')

/**
 * A net that can also be called with another number of classes.
 *
 * @example
 * const own: Classifier = classifier(10, (classes) => seq(globalAvgPool(), linear('head', classes)))
 * const head: Net = own({ classes: 5 })
 */
export interface Classifier extends Net {
  (options: ClassesOptions): Net
}

const isCount = (u: unknown): u is number => typeof u === 'number' && Number.isSafeInteger(u) && u >= 1
const checked = (o: ClassesOptions): number => {
  const { classes } = known(CLASSES, o)
  return isCount(classes)
    ? classes
    : orThrow(renderError)({
        _tag: 'Left',
        left: { tag: 'ValueInvalid', name: 'classes', reason: `it is ${String(classes)}`, legal: 'a whole number of at least 1' },
      })
}

/**
 * Returns true if the number of classes of a net can be chosen.
 *
 * @example if (isClassifier(net.net)) net.net({ classes: 10 })
 */
export const isClassifier = (net: unknown): net is Classifier => typeof net === 'function' && 'kind' in net

/**
 * Creates a network of the zoo whose number of classes can be chosen. Used as a net, it has the usual number.
 *
 * @param usual Number of classes unless another one is given.
 * @param make Returns the net for a number of classes.
 * @example
 * const own = classifier(10, (classes) => seq(conv2d('stem', 8, 3), globalAvgPool('pool'), linear('head', classes)))
 * own({ classes: 5 })
 */
export const classifier = <C = Classifier>(usual: number, make: (classes: number) => Net): C => {
  const net = make(usual)
  const called = (o: ClassesOptions): Net => make(checked(o))
  for (const [name, value] of Object.entries(net)) Object.defineProperty(called, name, { value, enumerable: true })
  Object.defineProperty(called, 'toJSON', { value: () => net })
  return called as C
}
