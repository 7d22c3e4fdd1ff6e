// A convolution and its two gradients over strides, in double, one factor after the other; groups follow from the channels.
#pragma once
#include <array>
#include <vector>

#include "test/native/host_cuda/numbers.hpp"

namespace spillway::host_cuda {

using Four = std::array<int64_t, 4>;

struct Tensor {
  Four dims{}, strides{};
  bool narrow = false, is_virtual = false;
  int64_t id = 0, alignment = 1;
  int64_t at(int64_t a, int64_t b, int64_t c, int64_t d) const { return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]; }
  int64_t bytes() const { return (at(dims[0] - 1, dims[1] - 1, dims[2] - 1, dims[3] - 1) + 1) * (narrow ? 2 : 4); }
};

struct Window { int64_t stride[2], pad[2], dilation[2]; };
enum class Way { forward, data, weights };

/// x, w and y as floats of the factors; what is made is added up in double, in `made`, in the natural order of its dims.
inline std::vector<double> convolve(Way way, const Tensor& x, const Tensor& w, const Tensor& y, const Window& g, const void* px, const void* pw, const void* py, Rounding r) {
  const auto count = [](const Tensor& t) { return size_t(t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3]); };
  std::vector<double> made(count(way == Way::forward ? y : way == Way::data ? x : w));
  const int64_t group_in = w.dims[1], groups = x.dims[1] / group_in, group_out = w.dims[0] / groups;
  for (int64_t b = 0; b < y.dims[0]; b++)
    for (int64_t oy = 0; oy < y.dims[2]; oy++)
      for (int64_t ox = 0; ox < y.dims[3]; ox++)
        for (int64_t ky = 0; ky < w.dims[2]; ky++)
          for (int64_t kx = 0; kx < w.dims[3]; kx++) {
            const int64_t iy = oy * g.stride[0] - g.pad[0] + ky * g.dilation[0], ix = ox * g.stride[1] - g.pad[1] + kx * g.dilation[1];
            if (iy < 0 || ix < 0 || iy >= x.dims[2] || ix >= x.dims[3]) continue;
            for (int64_t o = 0; o < w.dims[0]; o++) {
              const int64_t first = o / group_out * group_in;
              const size_t in_y = size_t(((b * y.dims[1] + o) * y.dims[2] + oy) * y.dims[3] + ox);
              const double dy = way == Way::forward ? 0 : double(factor(read_number(py, y.at(b, o, oy, ox), y.narrow), r));
              double sum = 0;
              for (int64_t i = 0; i < group_in; i++) {
                const size_t in_x = size_t(((b * x.dims[1] + first + i) * x.dims[2] + iy) * x.dims[3] + ix), in_w = size_t(((o * group_in + i) * w.dims[2] + ky) * w.dims[3] + kx);
                const auto at_x = [&] { return double(factor(read_number(px, x.at(b, first + i, iy, ix), x.narrow), r)); };
                const auto at_w = [&] { return double(factor(read_number(pw, w.at(o, i, ky, kx), w.narrow), r)); };
                if (way == Way::forward) sum += at_x() * at_w();
                else if (way == Way::data) made[in_x] += dy * at_w();
                else made[in_w] += dy * at_x();
              }
              if (way == Way::forward) made[in_y] += sum;
            }
          }
  return made;
}

}  // namespace spillway::host_cuda
