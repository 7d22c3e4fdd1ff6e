// What ranks merge, and what a rank that is alone does by itself.
#include "ops/collective.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// Scratch is in doubles, whatever the type.
struct AllSum {
  static int64_t scratch_doubles(const KernelCall& c) { return ops::all_sum_scratch(ops::elements(c.ins[0]), AllSumAttrs::read(c.attrs).ranks); }
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = AllSumAttrs::read(c.attrs);
    ops::all_sum(ops::ranks_of(c, a.ranks), static_cast<const T*>(c.ins[0].data), static_cast<T*>(c.outs[0].data), ops::elements(c.ins[0]), static_cast<T*>(c.workspace));
  }
};

struct AllSums {
  static int64_t scratch_doubles(const KernelCall& c) { return ops::all_sums_scratch(ops::sizes_of(c), AllSumsAttrs::read(c.attrs).ranks); }
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = AllSumsAttrs::read(c.attrs);
    ops::all_sums(ops::ranks_of(c, a.ranks, a.beside != 0), c, static_cast<T*>(c.workspace));
  }
};

struct AllMoments {
  static int64_t scratch_doubles(const KernelCall& c) { return ops::all_moments_scratch(ops::elements(c.ins[0]), AllMomentsAttrs::read(c.attrs).ranks); }
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = AllMomentsAttrs::read(c.attrs);
    ops::all_moments(ops::ranks_of(c, a.ranks), c.ins[0], c.outs[0], a.count, static_cast<T*>(c.workspace), ops::merge_statistics<T>);
  }
};

}  // namespace

const KernelEntry all_sum = entry<AllSum>();
const KernelEntry all_sums = entry<AllSums>();
const KernelEntry all_moments = entry<AllMoments>();

}  // namespace spillway::ref
