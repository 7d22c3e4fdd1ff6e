// Channels and pixels exchanged, and back.
#include "ops/turnpixels.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// Calls f(element of the image, element of the turned side) for each element.
template <class T, class F>
void each_turned(const View& image_view, const View& turned_view, F f) {
  const Tensor<T> image(image_view), turned(turned_view);
  each_element(image_view, [&](int64_t b, int64_t c, int64_t h, int64_t w) {
    f(image.global(b, c, h, w), turned.global(b, h * image_view.dims[3] + w, 0, c));
  });
}

struct TurnPixels {
  template <class T>
  static void run(const KernelCall& call) {
    each_turned<T>(call.ins[0], call.outs[0], [](const T& x, T& y) { y = x; });
  }
};

struct TurnPixelsBackward {
  template <class T>
  static void run(const KernelCall& call) {
    each_turned<T>(call.outs[0], call.ins[0], [](T& dx, const T& dy) { dx = dy; });
  }
};

}  // namespace

const KernelEntry turn_pixels = entry<TurnPixels>();
const KernelEntry turn_pixels_bwd = entry<TurnPixelsBackward>();

}  // namespace spillway::ref
