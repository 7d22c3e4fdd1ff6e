// Bytes of pixels to numbers. Means and deviations stand beside each other for as many pixels as make a stretch that is worth a loop of
// vectors: three channels alone would be none. Worked example: 3 channels, stretches of 85 pixels, 255 elements.
#include "ops/frombytes.hpp"

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

class FromBytes {
 public:
  explicit FromBytes(const KernelCall& c) {
    constexpr int64_t STRETCH = 256;
    const View& y = c.outs[0];
    for (int64_t pixels = std::max<int64_t>(1, STRETCH / y.dims[1]); pixels > 0; pixels--)
      for (int64_t ch = ops::lower(y, 1); ch < ops::upper(y, 1); ch++) {
        const auto s = ops::ByteScale<float>::of(c, ch);
        means_.push_back(s.mean);
        deviations_.push_back(s.deviation);
      }
  }
  int64_t workspace_bytes() const { return 0; }
  void run(const KernelCall& c) const {
    with_element(c.outs[0], [&](auto element) { rows<decltype(element)>(c.ins[0], c.outs[0]); });
  }

 private:
  template <class T>
  void rows(const View& x, const View& y) const {
    const int64_t runs = dense_rows(x) && dense_rows(y) ? 1 : y.dims[3], length = y.dims[3] / runs * y.dims[1];
#pragma omp parallel for schedule(static)
    for (int64_t row = 0; row < y.dims[0] * y.dims[2]; row++)
      for (int64_t run = 0; run < runs; run++) {
        const int64_t b = row / y.dims[2], h = row % y.dims[2];
        stretches(pixel_of<const uint8_t>(x, b, h, run), pixel_of<T>(y, b, h, run), length);
      }
  }

  template <class T>
  void stretches(const uint8_t* from, T* to, int64_t n) const {
    const int64_t most = int64_t(means_.size());
    for (int64_t first = 0; first < n; first += most) stretch(from + first, to + first, std::min(most, n - first));
  }

  template <class T>
  void stretch(const uint8_t* from, T* to, int64_t n) const {
    const float *const mean = means_.data(), *const deviation = deviations_.data();
#pragma omp simd
    for (int64_t i = 0; i < n; i++) to[i] = T(ops::from_byte(from[i], mean[i], deviation[i]));
  }

  std::vector<float> means_, deviations_;  // of the elements of whole pixels
};

}  // namespace

const KernelEntry from_bytes = entry<FromBytes>();

}  // namespace spillway::cpu
