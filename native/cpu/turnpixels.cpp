// Channels and pixels exchanged: a transposition per image of a matrix that is stored as the pixels' channels.
#include "ops/turnpixels.hpp"

#include "cpu/transposed.hpp"

namespace spillway::cpu {
namespace {

/// The turned side is channels-last, too: its rows are the channels of the image.
struct TurnPixels : PlainKernel {
  static void run(const KernelCall& c) {
    const View& x = c.ins[0];
    transpose_views(x, c.outs[0], x.dims[0], x.dims[2] * x.dims[3], x.dims[1]);
  }
};

struct TurnPixelsBackward : PlainKernel {
  static void run(const KernelCall& c) {
    const View& dx = c.outs[0];
    transpose_views(c.ins[0], dx, dx.dims[0], dx.dims[1], dx.dims[2] * dx.dims[3]);
  }
};

}  // namespace

const KernelEntry turn_pixels = entry<TurnPixels>();
const KernelEntry turn_pixels_bwd = entry<TurnPixelsBackward>();

}  // namespace spillway::cpu
