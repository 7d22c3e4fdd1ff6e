// A convolution and its two gradients over strides, in double, one factor after the other; groups follow from the channels.
#pragma once
#include <array>
#include <vector>

#include "test/native/host_cuda/numbers.hpp"

namespace spillway::host_cuda {

using Four = std::array<int64_t, 4>;

struct Tensor {
  Four dims{}, strides{};
  Number number = Number::f32;
  bool is_virtual = false;
  int64_t id = 0, alignment = 1;
  int64_t at(int64_t a, int64_t b, int64_t c, int64_t d) const { return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3]; }
  int64_t bytes() const { return (at(dims[0] - 1, dims[1] - 1, dims[2] - 1, dims[3] - 1) + 1) * bytes_of(number); }
};

struct Window {
  int64_t stride[2], pad[2], dilation[2];
};
enum class Way { forward, data, weights };

/// A tensor's numbers as factors, in doubles, the second dimension innermost.
inline std::vector<double> unpacked(const Tensor& t, const void* at, Rounding r) {
  std::vector<double> values;
  values.reserve(size_t(t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3]));
  for (int64_t a = 0; a < t.dims[0]; a++)
    for (int64_t c = 0; c < t.dims[2]; c++)
      for (int64_t d = 0; d < t.dims[3]; d++)
        for (int64_t b = 0; b < t.dims[1]; b++) values.push_back(double(factor(read_number(at, t.at(a, b, c, d), t.number), r)));
  return values;
}

/// The products and sums of a convolution, on numbers in the order of `unpacked`; results begin as zeros.
inline void multiply(Way way, const Tensor& x, const Tensor& w, const Tensor& y, const Window& g, double* px, double* pw, double* py) {
  const int64_t group_in = w.dims[1], groups = x.dims[1] / group_in, group_out = w.dims[0] / groups;
  for (int64_t b = 0; b < y.dims[0]; b++)
    for (int64_t oy = 0; oy < y.dims[2]; oy++)
      for (int64_t ox = 0; ox < y.dims[3]; ox++)
        for (int64_t ky = 0; ky < w.dims[2]; ky++)
          for (int64_t kx = 0; kx < w.dims[3]; kx++) {
            const int64_t iy = oy * g.stride[0] - g.pad[0] + ky * g.dilation[0], ix = ox * g.stride[1] - g.pad[1] + kx * g.dilation[1];
            if (iy < 0 || ix < 0 || iy >= x.dims[2] || ix >= x.dims[3]) continue;
            double* const of_y = py + ((b * y.dims[2] + oy) * y.dims[3] + ox) * y.dims[1];
            for (int64_t o = 0; o < w.dims[0]; o++) {
              double* const of_x = px + ((b * x.dims[2] + iy) * x.dims[3] + ix) * x.dims[1] + o / group_out * group_in;
              double* const of_w = pw + ((o * w.dims[2] + ky) * w.dims[3] + kx) * group_in;
              if (way == Way::forward) {
                double sum = 0;
                for (int64_t i = 0; i < group_in; i++) sum += of_x[i] * of_w[i];
                of_y[o] += sum;
              } else if (way == Way::data) {
                for (int64_t i = 0; i < group_in; i++) of_x[i] += of_y[o] * of_w[i];
              } else {
                for (int64_t i = 0; i < group_in; i++) of_w[i] += of_y[o] * of_x[i];
              }
            }
          }
}

/// x, w and y as floats of the factors; what is made is added up in double, in `made`, in the natural order of its dims.
inline std::vector<double> convolve(Way way, const Tensor& x, const Tensor& w, const Tensor& y, const Window& g, const void* px,
                                    const void* pw, const void* py, Rounding r) {
  const Tensor& t = way == Way::forward ? y : way == Way::data ? x : w;
  const auto numbers = [&](const Tensor& of, const void* at) {
    return &of == &t ? std::vector<double>(size_t(t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3])) : unpacked(of, at, r);
  };
  std::vector<double> xs = numbers(x, px), ws = numbers(w, pw), ys = numbers(y, py);
  multiply(way, x, w, y, g, xs.data(), ws.data(), ys.data());
  const std::vector<double>& innermost = way == Way::forward ? ys : way == Way::data ? xs : ws;
  std::vector<double> made(innermost.size());
  const int64_t plane = t.dims[2] * t.dims[3];
  for (int64_t a = 0; a < t.dims[0]; a++)
    for (int64_t p = 0; p < plane; p++)
      for (int64_t b = 0; b < t.dims[1]; b++)
        made[size_t((a * t.dims[1] + b) * plane + p)] = innermost[size_t((a * plane + p) * t.dims[1] + b)];
  return made;
}

}  // namespace spillway::host_cuda
