// Options of `slides`, and their checks.
import { optionsFor } from '../../../staging/core/options'
import { choice, either, flag, legal, made, withValues } from '../../../staging/core/values'
import { SpillwayException, usage } from '../../errors/errors'
import { type Augment, type Fit, FITS } from '../augment'
import { isChannels, type PixelSize, type Scaling } from '../data'

/**
 * Options of `slides`.
 *
 * @example const options: SlideOptions = { microns: 0.5, tiles: 512, tissue: 0.25 }
 */
export interface SlideOptions extends Scaling {
  /** Level of the pyramid; 0 is the finest. Default 0. @example await slides('slides/', { level: 1 }) */
  readonly level?: number
  /**
   * Microns per pixel, instead of a level: each slide uses its nearest level, which may differ by 10 percent. Default: none.
   *
   * @example await slides('slides/', { microns: 0.5 })
   */
  readonly microns?: number
  /**
   * Size of tiles: each tile of a grid over each slide is then a sample. Default: whole slides are samples.
   *
   * @example await slides('slides/', { tiles: 512 })
   */
  readonly tiles?: number | PixelSize
  /**
   * Least share of a tile that has tissue, or data if the file names a value for none. Other tiles are left out. Default 0.
   *
   * @example await slides('slides/', { tiles: 512, tissue: 0.25 })
   */
  readonly tissue?: number
  /**
   * Side of square blocks for a `masked` network: pixels of blocks without tissue become 0. Default: pixels stay.
   *
   * @example await slides('slides/', { blocks: 32 })
   */
  readonly blocks?: number
  /**
   * Size of whole slides as samples, [height, width]: a smaller slide is at the top left, and the pixels beyond it are 0.
   * A `masked` network counts only the slide. Masks have the label that the loss ignores there, or 0. The slides of a bag
   * are on one canvas. Default: the size of each slide.
   *
   * @example await slides('slides/', { blocks: 32, canvas: [8192, 8192] })
   */
  readonly canvas?: number | PixelSize
  /**
   * If true, each folder that holds slides is a bag, the path itself included. Default: the folders below class folders are bags.
   *
   * @example await slides('patients/', { bags: true, blocks: 32, canvas: 8192 })
   */
  readonly bags?: boolean
  /**
   * If true, leaves out slides that cannot be decoded, with their bags. It decodes each slide and mask once. Runs print a note for each
   * damaged slide. Default false: a run ends with an error at the first damaged tile.
   *
   * @example await slides('slides/', { microns: 0.5, skipDamaged: true })
   */
  readonly skipDamaged?: boolean
  /**
   * Part of a slide or tile for the model: 'crop' (default) the middle, 'cover' the middle resized, 'stretch' or 'pad' all of it.
   *
   * @example await slides('slides/', { fit: 'cover' })
   */
  readonly fit?: Fit
  /** Random changes; `crop: true` takes a random rectangle. Default: none. @example await slides('slides/', { augment: { crop: true } }) */
  readonly augment?: Augment
}

const SIDE = legal('', (u) => Number.isSafeInteger(u) && Number(u) >= 1)

const SIZE = either(
  'a side in pixels, or [height, width]',
  SIDE,
  legal('', (u) => Array.isArray(u) && u.length === 2 && u.every(SIDE.is)),
)

export const OPTIONS = withValues(
  optionsFor<SlideOptions>()(
    'slides',
    'level',
    'microns',
    'tiles',
    'tissue',
    'blocks',
    'canvas',
    'bags',
    'skipDamaged',
    'fit',
    'augment',
    'mean',
    'std',
  ),
  {
    level: legal('whole numbers of at least 0', (u) => Number.isSafeInteger(u) && Number(u) >= 0),
    microns: legal('numbers above 0', (u) => Number.isFinite(u) && Number(u) > 0),
    tiles: SIZE,
    canvas: SIZE,
    bags: flag,
    skipDamaged: flag,
    tissue: legal('shares from 0 to 1', (u) => Number.isFinite(u) && Number(u) >= 0 && Number(u) <= 1),
    blocks: legal('whole numbers of at least 1', SIDE.is),
    fit: choice(FITS),
    augment: made("an object such as { flip: 'both' }"),
    mean: legal('a list of numbers, one for each channel', isChannels(Number.NEGATIVE_INFINITY)),
    std: legal('a list of numbers above 0, one for each channel', isChannels(0)),
  },
  { prefix: 'slides: ' },
)

export const refused = (message: string): never => {
  throw new SpillwayException(usage(message))
}
