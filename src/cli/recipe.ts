// The recipe of a weights file for the commands that use weights. In: MODEL, if it is given, and flags. Out: the model and the flags,
// completed by the recipe. Invariant: a flag that contradicts the recipe is refused, with both values.
import * as E from 'fp-ts/Either'
import type { Either } from 'fp-ts/Either'
import type { Taking } from '../data/augment'
import { type DataDescription, descriptionIn } from '../data/description'
import { type SpillwayError, usage } from '../errors/errors'
import { openNamedWeights } from '../train/pretrained'
import { zooEntry } from '../zoo'
import { looksLikeFile } from './load'
import { lossIn, type LossOptions } from './own'
import type { InputOptions } from './options'

/** Flags that a recipe completes or contradicts. */
export interface RecipeFlags extends InputOptions, LossOptions {
  readonly weights?: string
  readonly fit?: Taking
}

/** A command with all that its recipe says. */
export interface Completed<O> {
  readonly model: string
  readonly options: O
  readonly recipe: DataDescription | undefined
}

const contradiction = (flag: string, given: string, weights: string, inFile: string): SpillwayError =>
  usage(`${flag} ${given} contradicts ${weights}, which was trained with ${inFile}: leave ${flag} out, or use other weights`)

const modelFor = (
  command: string,
  given: string | undefined,
  weights: string | undefined,
  recipe: DataDescription | undefined,
): Either<SpillwayError, string> => {
  const inFile = recipe?.zoo ? recipe.model : undefined
  if (given === undefined) {
    if (inFile !== undefined) return E.right(inFile)
    return E.left(
      usage(
        weights === undefined
          ? `${command} needs --weights. Example: spillway ${command} --weights W.safetensors`
          : `${weights} names no network of the zoo: name its model, e.g. spillway ${command} my-net.ts --weights ${weights}`,
      ),
    )
  }
  return inFile === undefined || looksLikeFile(given) || given === inFile || !zooEntry(given)
    ? E.right(given)
    : E.left(contradiction('MODEL', given, weights!, inFile))
}

/** Classes of a network of the zoo: as the recipe records them, else the names of classes, if the network has a head for them. */
const classesFor = (model: string, recipe: DataDescription): number | undefined => {
  const entry = looksLikeFile(model) ? undefined : zooEntry(model)
  if (!entry) return undefined
  if (recipe.zoo) return recipe.zoo.classes
  const named = recipe.classes?.length
  return named !== undefined && E.isRight(entry.build(entry.defaultInput, 'predict', { classes: named })) ? named : undefined
}

/** Completes a command by the recipe of its weights. */
export const withRecipe = <O extends RecipeFlags>(
  command: string,
  given: string | undefined,
  o: O,
): Either<SpillwayError, Completed<O>> => {
  const { weights } = o
  const file = weights === undefined ? undefined : openNamedWeights('weights', weights)
  // A command that names its model reports a damaged file together with the weights that it lacks.
  if (given === undefined && file && E.isLeft(file)) return file
  const recipe = file && E.isRight(file) ? descriptionIn(file.right.metadata) : undefined
  const model = modelFor(command, given, weights, recipe)
  if (E.isLeft(model)) return model
  if (!recipe) return E.right({ model: model.right, options: o, recipe })
  const classes = classesFor(model.right, recipe)
  if (o.classes !== undefined && classes !== undefined && o.classes !== classes)
    return E.left(contradiction('--classes', String(o.classes), weights!, `${classes} classes`))
  if (o.fit !== undefined && o.fit !== 'own' && recipe.fit !== undefined && o.fit !== recipe.fit)
    return E.left(contradiction('--fit', o.fit, weights!, `fit ${recipe.fit}`))
  return E.right({
    model: model.right,
    options: { ...lossIn(recipe.loss), ...o, ...(classes === undefined ? {} : { classes }) },
    recipe,
  })
}

/** The input size of the recipe, as `--image`. */
export const sizeIn = ({ input: [, height, width] }: DataDescription): InputOptions => ({ image: [height, width] })
