// Networks of the zoo that give classes: each is a net, and called with a number of classes it is the same net with a head for so many. In: what
// makes the net for a number of classes, and the number that it usually has. Out: a function that has the fields of the net. Invariant: wherever
// a net is decoded it is plain data again; its JSON is the net's.
// Worked example: resnet50 is a Seq of a body and a head; resnet50({ classes: 10 }) has the same body object, and a head whose `fc` gives 10.
import { orThrow } from '../staging/core/certain'
import { renderError } from '../staging/core/errors'
import { known } from '../staging/core/known'
import { optionsFor } from '../staging/core/options'
import type { Net } from './net'

/** What a network of the zoo is called with. */
export interface ClassesOptions<N extends number = number> {
  /** How many classes it tells apart. @example zooEntry('resnet50')?.build([8, 3, 224, 224], 'train', { classes: 10 }) */
  readonly classes: N
}
const CLASSES = optionsFor<ClassesOptions>()('a network', 'classes')

/** A network that can be given other classes, whatever it is; the zoo's own types say what it is then. */
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

/** Whether a net can be given other classes. @example isClassifier(net.net) && net.net({ classes: 10 }) */
export const isClassifier = (net: unknown): net is Classifier => typeof net === 'function' && 'kind' in net

/**
 * The network for its usual number of classes, and a function for others; what types know of it, the caller says.
 *
 * @example const own = classifier(10, (classes) => seq(conv2d('stem', 8, 3), globalAvgPool('pool'), linear('head', classes)))
 */
export const classifier = <C = Classifier>(usual: number, make: (classes: number) => Net): C => {
  const net = make(usual)
  const called = (o: ClassesOptions): Net => make(checked(o))
  for (const [name, value] of Object.entries(net)) Object.defineProperty(called, name, { value, enumerable: true })
  Object.defineProperty(called, 'toJSON', { value: () => net })
  return called as C
}
