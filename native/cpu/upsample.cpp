// Resampling and its gradient, a pixel's channels at a time.
#include "ops/upsample.hpp"

#include "cpu/stripes.hpp"

namespace spillway::cpu {
namespace {

using ops::Between;
using ops::Resampling;

/// y = the mean of four pixels, weighted; of two or one where they coincide.
template <class T>
void blend(T* y, const T* const (&x)[4], const Between& rows, const Between& columns, int64_t channels) {
  const float h = float(rows.weight), w = float(columns.weight);
  if (h == 0 && w == 0) {
    std::copy_n(x[0], channels, y);
    return;
  }
  const float a = (1 - h) * (1 - w), b = (1 - h) * w, c = h * (1 - w), d = h * w;
  each_lane_group(channels, [&](int64_t first, int64_t count) {
    float sum[lanes];
#pragma omp simd
    for (int64_t k = 0; k < count; k++) {
      const int64_t i = first + k;
      sum[k] = a * float(x[0][i]) + b * float(x[1][i]) + c * float(x[2][i]) + d * float(x[3][i]);
    }
    store(sum, y + first, count);
  });
}

/// y = the mean of the pixels of a window.
template <class T>
void average(T* y, const View& x, int64_t b, const Between& rows, const Between& columns) {
  const float share = float(rows.share(rows.first) * columns.share(columns.first));
  each_lane_group(x.dims[1], [&](int64_t first, int64_t count) {
    float sum[lanes] = {};
    for (int64_t h = rows.first; h <= rows.second; h++)
      for (int64_t w = columns.first; w <= columns.second; w++) {
        const T* const from = at_image<T>(x, b, h, w) + first;
#pragma omp simd
        for (int64_t k = 0; k < count; k++) sum[k] += float(from[k]);
      }
    for (int64_t k = 0; k < count; k++) sum[k] *= share;
    store(sum, y + first, count);
  });
}

/// The places of a view's rows (axis 2) or columns (axis 3) in the other image: each takes two divisions, and is used for every pixel of a
/// column or row.
struct Places {
  static int64_t bytes(const View& v, int axis) { return v.dims[axis] * int64_t(sizeof(Between)); }
  Places(const Resampling& r, const View& v, int axis, void* memory) : places(static_cast<Between*>(memory)), first(v.origin[axis]) {
    for (int64_t i = 0; i < v.dims[axis]; i++) places[i] = r.at(first + i);
  }
  const Between& operator[](int64_t place) const { return places[place - first]; }
  Between* places;
  int64_t first;
};

struct Upsample : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return Places::bytes(c.outs[0], 3); }
  template <class T>
  static void run(const KernelCall& c) {
    const View &x = c.ins[0], &y = c.outs[0];
    const ops::Resamplings g = ops::upsample_geometry(UpsampleAttrs::read(c.attrs));
    const Places columns_of(g.w, y, 3, c.workspace);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < y.dims[0]; b++)
      for (int64_t oy = y.origin[2]; oy < ops::upper(y, 2); oy++) {
        const Between rows = g.h.at(oy);
        for (int64_t ox = y.origin[3]; ox < ops::upper(y, 3); ox++) {
          const Between& columns = columns_of[ox];
          if (rows.alike) {
            average(at_image<T>(y, b, oy, ox), x, b, rows, columns);
            continue;
          }
          const T* const from[4] = {at_image<T>(x, b, rows.first, columns.first), at_image<T>(x, b, rows.first, columns.second),
                                    at_image<T>(x, b, rows.second, columns.first), at_image<T>(x, b, rows.second, columns.second)};
          blend(at_image<T>(y, b, oy, ox), from, rows, columns, y.dims[1]);
        }
      }
  }
};

/// The rows of dy that are made of some of these rows of x: places never go back, so both ends are found by halving.
Rows made_of(const Resampling& axis, const View& dy, Rows rows) {
  const auto first_that = [&](auto holds) {
    int64_t lo = dy.origin[2], hi = ops::upper(dy, 2);
    while (lo < hi) {
      const int64_t middle = lo + (hi - lo) / 2;
      if (holds(axis.at(middle)))
        hi = middle;
      else
        lo = middle + 1;
    }
    return lo;
  };
  return {first_that([&](const Between& b) { return b.second >= rows.lo; }),
          first_that([&](const Between& b) { return b.first >= rows.hi; })};
}

template <class T>
void add_scaled(float* sum, const T* gradient, float weight, int64_t channels) {
#pragma omp simd
  for (int64_t i = 0; i < channels; i++) sum[i] += weight * float(gradient[i]);
}

struct UpsampleBackward : GatheringKernel {
  static int64_t places_bytes(const KernelCall& c) { return (Places::bytes(c.ins[0], 2) + Places::bytes(c.ins[0], 3) + 63) / 64 * 64; }
  static int64_t workspace(const KernelCall& c) { return places_bytes(c) + GatheringKernel::workspace(c); }
  template <class T>
  static void run(const KernelCall& c) {
    const View& dy = c.ins[0];
    const ops::Resamplings g = ops::upsample_geometry(UpsampleBwdAttrs::read(c.attrs));
    std::byte* const memory = static_cast<std::byte*>(c.workspace);
    const Places columns_of(g.w, dy, 3, memory), rows_of(g.h, dy, 2, memory + Places::bytes(dy, 3));
    const auto reaching = [&](Rows rows) { return made_of(g.h, dy, rows); };
    gather_stripes(c.outs[0], dy, memory + places_bytes(c), reaching, [&](const View& dx, int64_t b, int64_t oy, int64_t ox, Rows mine) {
      const Between &rows = rows_of[oy], &columns = columns_of[ox];
      const T* const gradient = at_image<T>(dy, b, oy, ox);
      for (int64_t h = std::max(rows.first, mine.lo); h <= std::min(rows.second, mine.hi - 1); h++)
        for (int64_t w = columns.first; w <= columns.second; w++)
          add_scaled(at_image(dx, b, h, w), gradient, float(rows.share(h) * columns.share(w)), dx.dims[1]);
    });
  }
};

}  // namespace

const KernelEntry upsample = entry<Upsample>();
const KernelEntry upsample_bwd = entry<UpsampleBackward>();

}  // namespace spillway::cpu
