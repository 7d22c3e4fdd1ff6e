// Flags of data: images, slides, arrays, and their reading.
import { NORMS } from '../../staging/graph/machine'
import { FITS, TAKINGS } from '../data/augment'
import {
  canvasOption,
  choiceOption,
  countOption,
  depthOption,
  DEPTHS,
  LAYOUTS,
  listOption,
  positiveOption,
  realOption,
} from './options'

export const FIT = [
  '--fit <how>',
  `how to resize images to the model size: ${FITS.join(', ')} (default cover)`,
  choiceOption('--fit', FITS),
] as const

export const OWN_FIT = [
  '--fit <how>',
  `how to resize image files: ${TAKINGS.join(', ')}; own keeps the size of each (default: as in training, or cover)`,
  choiceOption('--fit', TAKINGS),
] as const

export const IMAGES = ['--images <folder>', 'folder of the images of COCO annotations (default: that of the .json file)'] as const

export const LAYOUT = [
  '--layout <order>',
  `layout of arrays in data files: ${LAYOUTS.join(', ')} (default nchw)`,
  choiceOption('--layout', LAYOUTS),
] as const

export const MEAN = [
  '--mean <a,b>',
  'numbers subtracted from the channels of inputs; bytes are first divided by 255 (default: those of the weights, or none)',
  listOption(realOption('--mean')),
] as const

export const STD = [
  '--std <a,b>',
  'divisors of the channels of inputs, after --mean (default: those of the weights, or none)',
  listOption(positiveOption('--std')),
] as const

export const DEPTH = [
  '--depth <bits>',
  `bits per number of an image: ${DEPTHS.join(', ')} (default: those of the weights, or 8)`,
  depthOption,
] as const

export const LEVEL = [
  '--level <n>',
  'level of the pyramid of slides, 0 is the finest (default 0 for .svs files; other files are images without it)',
  countOption('--level', 0),
] as const

export const MICRONS = [
  '--microns <size>',
  'microns per pixel of slides, instead of --level: the nearest level of each slide, within 10 %',
  positiveOption('--microns'),
] as const

export const TILE_SIZE = [
  '--tile-size <side>',
  'each tile of this side of each slide is a sample (default: whole slides)',
  countOption('--tile-size'),
] as const

export const TISSUE = [
  '--tissue <share>',
  'least share of tissue in a tile of --tile-size: 0.25; other tiles are left out (default: all tiles)',
  positiveOption('--tissue'),
] as const

export const BLOCKS = [
  '--blocks <side>',
  'pixels of blocks of this side without tissue become 0, for networks of masked() (default: pixels stay)',
  countOption('--blocks'),
] as const

export const CANVAS = [
  '--canvas <size>',
  'size of each sample: a smaller slide is at its top left, and the rest is 0, for networks of masked(): 8192, height x width, or auto for the smallest that holds all slides (default: the size of each slide)',
  canvasOption,
] as const

export const BAGS = [
  '--bags',
  'each folder that holds slides is one sample, --data itself included (default: the folders below class folders are)',
] as const

export const BANDS = [
  '--bands <n>',
  'number of row bands per image, one per rank; more ranks share the batch (default 1)',
  countOption('--bands'),
] as const

export const NORM = [
  '--norms <of>',
  'batch norm statistics over the whole batch, or local: per rank (default whole)',
  choiceOption('--norms', NORMS),
] as const

export const STRICT_DATA = [
  '--strict-data',
  'refuse data that would be left out: other file types, nested folders, unreadable files',
] as const

export const SKIP_DAMAGED = [
  '--skip-damaged',
  'leave out image files and slides that cannot be decoded, with a note; each file is decoded once before the run (default: an error)',
] as const

export const WORKERS = [
  '--workers <n>',
  'threads that decode images (default: half the cores, at most 4)',
  countOption('--workers', 0),
] as const
