// Rotary positions. A thread has the sines and cosines of one pixel at a time, for all heads and images.
#include "ops/rotate.hpp"

#include <omp.h>

#include "cpu/channel_maps.hpp"

namespace spillway::cpu {
namespace {

struct Rotate : PlainKernel {
  static int64_t workspace(const KernelCall& c) { return use_threads() * 2 * ops::RotatePlan(c).pairs() * int64_t(sizeof(float)); }
  template <class T>
  static void run(const KernelCall& call) {
    const View &x = call.ins[0], &y = call.outs[0];
    const ops::RotatePlan plan(call);
    const int64_t pairs = plan.pairs();
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t h = 0; h < y.dims[2]; h++)
      for (int64_t w = 0; w < y.dims[3]; w++) {
        float *const cosines = static_cast<float*>(call.workspace) + omp_get_thread_num() * 2 * pairs, *const sines = cosines + pairs;
        for (int64_t k = 0; k < pairs; k++) {
          const double angle = plan.angle(k, h + y.origin[2], w + y.origin[3]);
          cosines[k] = float(std::cos(angle));
          sines[k] = float(std::sin(angle));
        }
        for (int64_t b = 0; b < y.dims[0]; b++) {
          const T* from = pixel_of<T>(x, b, h, w);
          T* to = pixel_of<T>(y, b, h, w);
          for (int64_t c = 0; c < y.dims[1]; c += plan.a.head, from += plan.a.head, to += plan.a.head)
            for (int64_t k = 0; k < pairs; k++) {
              const float first = float(from[2 * k]), second = float(from[2 * k + 1]);
              to[2 * k] = T(ops::RotatePlan::rotated(0, first, second, cosines[k], sines[k]));
              to[2 * k + 1] = T(ops::RotatePlan::rotated(1, second, first, cosines[k], sines[k]));
            }
        }
      }
  }
};

}  // namespace

const KernelEntry rotate = entry<Rotate>();

}  // namespace spillway::cpu
