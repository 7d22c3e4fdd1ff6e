// A U-Net of two levels: its images have a height and a width that 4 divides. `compare.py` has the same in PyTorch.
import { batchNorm, block, conv2d, convTranspose2d, maxPool, model, relu, seq, skip } from '../../src'

const conv = <N extends string, C extends number>(name: N, channels: C) => conv2d(name, channels, 3, { bias: false })

// biome-ignore format: one convolution a line
const doubleConv = <N extends string, C extends number>(name: N, channels: C) => block(name,
  conv('0', channels), batchNorm('1'), relu(),
  conv('3', channels), batchNorm('4'), relu(),
)
const up = <N extends string, C extends number>(name: N, channels: C) => convTranspose2d(`${name}.up`, channels, 2, { stride: 2 })

const level2 = seq(skip(maxPool('pool2', 2), doubleConv('down2', 32), up('up2', 16)), doubleConv('up2.conv', 16))
const level1 = seq(skip(maxPool('pool1', 2), doubleConv('down1', 16), level2, up('up1', 8)), doubleConv('up1.conv', 8))

export default model([4, 3, 64, 64], seq(doubleConv('inc', 8), level1, conv2d('out', 2, 1)))
