// A detector in the manner of YOLO: CSPDarknet-53, the path aggregation network (Liu et al. 2018) and the heads of YOLOX (Ge et al. 2021), for 80
// classes. Layer names are those of YOLOX, the backbone's those of timm: 'backbone.stages.2.conv_down', 'neck.C3_p4.conv1', 'head.cls_preds.0'.
// Outputs at an 8th, a 16th and a 32nd of the image are joined as one row of cells [B,85,1,cells]: first those at an 8th, rows before columns.
// Channels of a cell: 4 numbers of its box, its objectness, a number for each class. The sides of images are multiples of 32.
import {
  batchNorm,
  bceWithLogits,
  block,
  blocks,
  type ClassesOptions,
  classifier,
  concat,
  conv2d,
  type Family,
  type Net,
  network,
  repeat,
  seq,
  silu,
  turnPixels,
  upsample,
  value,
  values,
} from '../dsl'
import { cspdarknet53Stem, cspdarknet53Stages } from './cspdarknet'

const unit = <N extends string, O extends number, K extends 1 | 3, S extends number = 1>(
  name: N,
  out: O,
  kernel: K,
  stride?: S,
) => block(name, conv2d('conv', out, kernel, { stride, bias: false }), batchNorm('bn', { eps: 1e-3 }), silu())

/** Half of the channels go through three blocks, the other half past them. */
const csp = <N extends string, H extends number, O extends number>(name: N, half: H, out: O) =>
  block(
    name,
    concat(
      seq(unit('conv1', half, 1), blocks('m', repeat(3, seq(unit('conv1', half, 1), unit('conv2', half, 3))))),
      unit('conv2', half, 1),
    ),
    unit('conv3', out, 1),
  )

const double = upsample({ scale: 2 })
const [first, second, third, fourth, fifth] = cspdarknet53Stages

/** Features at three sizes: first from coarse to fine, then back. */
// biome-ignore format: one value a line
const neck = [
  value('eighth', 'input', block('backbone', cspdarknet53Stem, block('stages', first, second, third))),
  value('sixteenth', 'eighth', block('backbone.stages', fourth)),
  value('last', 'sixteenth', block('backbone.stages', fifth)),
  value('coarse', 'last', unit('neck.lateral_conv0', 512, 1)),
  value('coarse_up', 'coarse', double),
  value('middle', { joined: ['coarse_up', 'sixteenth'] }, csp('neck.C3_p4', 256, 512), unit('neck.reduce_conv1', 256, 1)),
  value('middle_up', 'middle', double),
  value('fine_out', { joined: ['middle_up', 'eighth'] }, csp('neck.C3_p3', 128, 256)),
  value('fine_down', 'fine_out', unit('neck.bu_conv2', 256, 3, 2)),
  value('middle_out', { joined: ['fine_down', 'middle'] }, csp('neck.C3_n3', 256, 512)),
  value('middle_down', 'middle_out', unit('neck.bu_conv1', 512, 3, 2)),
  value('coarse_out', { joined: ['middle_down', 'coarse'] }, csp('neck.C3_n4', 512, 1024)),
] as const

const branch = <N extends string>(name: N) => block(name, unit('0', 256, 3), unit('1', 256, 3))

/** The numbers of each cell at one size: [B,cells,1,5 + classes]. */
const cells = <N extends '0' | '1' | '2', C extends number>(n: N, classes: C) =>
  block(
    'head',
    unit(`stems.${n}`, 256, 1),
    concat(
      seq(branch(`reg_convs.${n}`), concat(conv2d(`reg_preds.${n}`, 4, 1), conv2d(`obj_preds.${n}`, 1, 1))),
      seq(branch(`cls_convs.${n}`), conv2d(`cls_preds.${n}`, classes, 1)),
    ),
    turnPixels(),
  )

/** The detector for a number of classes. */
// biome-ignore format: one value a line
const yoloPanFor = <C extends number>(classes: C) => values(
  ...neck,
  value('fine_cells', 'fine_out', cells('0', classes)),
  value('middle_cells', 'middle_out', cells('1', classes)),
  value('coarse_cells', 'coarse_out', cells('2', classes)),
  value('output', { joined: ['fine_cells', 'middle_cells', 'coarse_cells'] }, turnPixels()),
)

/** A YOLO with a path aggregation network, for a number of classes. */
export type YoloPanOf<C extends number> = ReturnType<typeof yoloPanFor<C>>
/** A YOLO with a path aggregation network; called with other classes, the same network with heads for them. */
export interface YoloPan extends YoloPanOf<80> {
  <const N extends number>(options: ClassesOptions<N>): YoloPanOf<N>
}

export const yoloPan: YoloPan = classifier(80, (classes: number): Net => yoloPanFor(classes))

export default { 'yolo-pan': network(yoloPan, 640, bceWithLogits) } satisfies Family
