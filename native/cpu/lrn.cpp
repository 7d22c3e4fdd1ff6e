// Local response normalisation and its gradient: a pixel's divisors once, in double, then its channels.
#include "ops/lrn.hpp"

#include <omp.h>

#include <cmath>

#include "cpu/runs.hpp"

namespace spillway::cpu {
namespace {

double divisor(const LrnAttrs& a, const float* x, int64_t channels, int64_t c) {
  const ops::Channels window = ops::lrn_window(a, c, channels);
  double sum = 0;
  for (int64_t i = window.lo; i < window.hi; i++) sum += double(x[i]) * double(x[i]);
  return a.k + a.alpha / double(a.size) * sum;
}

struct Lrn : PlainKernel {
  static void run(const KernelCall& call) {
    const LrnAttrs a = LrnAttrs::read(call.attrs);
    const View &x = call.ins[0], &y = call.outs[0];
    const int64_t channels = x.dims[1];
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < x.dims[0]; b++)
      for (int64_t h = 0; h < x.dims[2]; h++)
        for (int64_t w = 0; w < x.dims[3]; w++) {
          const float* const from = pixel_of(x, b, h, w);
          float* const to = pixel_of(y, b, h, w);
          for (int64_t c = 0; c < channels; c++) to[c] = float(from[c] * std::pow(divisor(a, from, channels, c), -a.beta));
        }
  }
};

/// The terms of a pixel's channels for the sums of their neighbours, and the powers of their own divisors: two
/// doubles for each channel.
struct LrnBackward {
  static int64_t workspace(const KernelCall& call) { return use_threads() * 2 * call.ins[0].dims[1] * int64_t(sizeof(double)); }

  static void run(const KernelCall& call) {
    const View &x = call.ins[0], &dx = call.outs[0];
    const int64_t channels = x.dims[1];
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t b = 0; b < x.dims[0]; b++)
      for (int64_t h = 0; h < x.dims[2]; h++) {
        double* const powers = static_cast<double*>(call.workspace) + omp_get_thread_num() * 2 * channels;
        for (int64_t w = 0; w < x.dims[3]; w++)
          pixel(LrnAttrs::read(call.attrs), channels, pixel_of(x, b, h, w), pixel_of(call.ins[1], b, h, w), pixel_of(dx, b, h, w), powers);
      }
  }

  static void pixel(const LrnAttrs& a, int64_t channels, const float* x, const float* dy, float* dx, double* powers) {
    double* const shares = powers + channels;
    for (int64_t c = 0; c < channels; c++) {
      const double d = divisor(a, x, channels, c);
      powers[c] = std::pow(d, -a.beta);
      shares[c] = double(dy[c]) * double(x[c]) * powers[c] / d;
    }
    const double scale = 2 * a.alpha * a.beta / double(a.size);
    for (int64_t c = 0; c < channels; c++) {
      const ops::Channels readers = ops::lrn_readers(a, c, channels);
      double sum = 0;
      for (int64_t i = readers.lo; i < readers.hi; i++) sum += shares[i];
      dx[c] = float(double(dy[c]) * powers[c] - scale * double(x[c]) * sum);
    }
  }
};

}  // namespace

const KernelEntry lrn = entry<Lrn>();
const KernelEntry lrn_bwd = entry<LrnBackward>();

}  // namespace spillway::cpu
