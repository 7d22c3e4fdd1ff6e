// Batch norm and the rectifier behind it, in one pass each way, of a value or of values side by side along C. The backward finds
// from x on which side of zero the output was, by the forward's own arithmetic: it reads two values of activation size where
// batch norm and rectifier by themselves read four.
#pragma once
#include "cpu/channel_sums.hpp"
#include "cpu/norm_coefficients.hpp"
#include "cpu/rectify.hpp"

namespace spillway::cpu {

/// The normalised operand, and the operands stats, gamma, beta, which follow each other.
struct RectifiedNorm {
  ops::Parts x;
  const View* operands;
  double count, eps;
  float slope;

  BatchMoments moments() const { return {operands[0], count, eps}; }
  NormScale scale(const Coefficients& k) const { return scale_of(moments(), operands[1], k); }
  const float* shift() const { return floats(operands[2]); }
};

template <class Attrs>
RectifiedNorm rectified_norm(const KernelCall& c, const ops::Parts& x, uint32_t stats, const Attrs& a) {
  return {x, c.ins + stats, double(a.count), a.eps, float(a.slope)};
}

/// Scratch: two coefficient arrays.
inline void apply_norm(const RectifiedNorm& norm, const View& y_view, void* scratch) {
  const NormScale n = norm.scale({static_cast<float*>(scratch), y_view.dims[1]});
  with_rectifier(norm.slope, [&](auto passing) {
    map_channels<0, 3>(norm.x, {}, {n.mean, n.scale, norm.shift()}, y_view, [passing](const auto& x, const auto& k) {
      const auto z = (x[0] - k[0]) * k[1] + k[2];
      return passing(z, z);
    });
  });
}

inline int64_t reduce_norm_bytes(const View& dy) { return channel_sums_bytes<2>(dy) + 2 * dy.dims[1] * int64_t(sizeof(float)); }

/// Scratch: reduce_norm_bytes().
inline void reduce_norm(const RectifiedNorm& norm, const View& dy, const View& dgamma, const View& dbeta, void* scratch) {
  const BatchMoments moments = norm.moments();
  const int64_t channels = dy.dims[1];
  double* const sums = static_cast<double*>(scratch);
  const NormScale n = norm.scale({reinterpret_cast<float*>(static_cast<char*>(scratch) + channel_sums_bytes<2>(dy)), channels});
  const Summands<2, 3> of{norm.x, {&dy}, {n.mean, n.scale, norm.shift()}};
  channel_sums<float, 2>(of, sums, [slope = norm.slope](const auto& element, const auto& constant) {
    const auto deviation = element[0] - constant[0];
    const auto z = deviation * constant[1] + constant[2];
    const auto passed = z <= 0 ? slope * element[1] : element[1];
    return std::array{deviation * passed, passed};
  });
  for (int64_t ch = 0; ch < channels; ch++) {
    floats(dgamma)[ch] = float(sums[ch] * moments(ch).rstd);
    floats(dbeta)[ch] = float(sums[channels + ch]);
  }
}

/// Scratch: four coefficient arrays. `totals`: dgamma, dbeta. `onto`: one gradient that this is added to, or none; it may be dx.
template <size_t Onto>
void norm_gradient(const RectifiedNorm& norm, const View& dy, const View* totals, const std::array<const View*, Onto>& onto, const View& dx,
                   void* scratch) {
  const Coefficients k{static_cast<float*>(scratch), dy.dims[1]};
  const NormScale n = norm.scale(k);
  const NormGradient g = gradient_of(norm.moments(), totals, k);
  std::array<const View*, 1 + Onto> beside{&dy};
  std::copy(onto.begin(), onto.end(), beside.begin() + 1);
  with_rectifier(norm.slope, [&](auto passing) {
    map_channels<1 + Onto, 5>(norm.x, beside, {n.mean, n.scale, norm.shift(), g.tilt, g.offset}, dx,
                              [passing](const auto& element, const auto& constant) {
                                const auto& [centre, factor, base, slant, level] = constant;
                                const auto deviation = element[0] - centre, z = deviation * factor + base;
                                const auto gradient = factor * (passing(z, element[1]) - level - deviation * slant);
                                if constexpr (Onto == 1)
                                  return gradient + element[2];
                                else
                                  return gradient;
                              });
  });
}

}  // namespace spillway::cpu
