// Merges of ranks, and the work of a single rank.
#include "ops/bands.hpp"

#include "ref/kernels.hpp"

namespace spillway::ref {
namespace {

/// Scratch is in doubles, for each type.
struct AllSum {
  static int64_t scratch_doubles(const KernelCall& c) {
    return ops::all_sum_scratch(ops::elements(c.ins[0]), AllSumAttrs::read(c.attrs).ranks);
  }
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = AllSumAttrs::read(c.attrs);
    ops::all_sums(ops::ranks_of(c, a.ranks), c, static_cast<T*>(c.workspace));
  }
};

struct AllSums {
  static int64_t scratch_doubles(const KernelCall& c) { return ops::all_sums_scratch(c, AllSumsAttrs::read(c.attrs).ranks); }
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = AllSumsAttrs::read(c.attrs);
    ops::all_sums(ops::ranks_of(c, a.ranks, a.beside != 0), c, static_cast<T*>(c.workspace));
  }
};

struct SumParts {
  static int64_t scratch_doubles(const KernelCall& c) { return ops::sum_parts_scratch(c, SumPartsAttrs::read(c.attrs).ranks); }
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = SumPartsAttrs::read(c.attrs);
    ops::sum_parts(ops::all_of(c, a.ranks, a.beside != 0), c, a.ranks, static_cast<T*>(c.workspace));
  }
};

struct TakePart {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = TakePartAttrs::read(c.attrs);
    ops::take_part<T>(ops::all_of(c, a.ranks), c, a.ranks);
  }
};

struct PutPart {
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = PutPartAttrs::read(c.attrs);
    ops::put_part<T>(ops::all_of(c, a.ranks, a.beside != 0), c, a.ranks);
  }
};

struct AllMoments {
  static int64_t scratch_doubles(const KernelCall& c) {
    return ops::all_moments_scratch(ops::elements(c.ins[0]), AllMomentsAttrs::read(c.attrs).ranks);
  }
  template <class T>
  static void run(const KernelCall& c) {
    const auto a = AllMomentsAttrs::read(c.attrs);
    ops::all_moments(ops::moments_of(c, a.ranks), c.ins[0], c.outs[0], ops::Counts(c), static_cast<T*>(c.workspace),
                     ops::merge_statistics<T>);
  }
};

struct TakeRows {
  static constexpr bool works_on_half = true;
  template <class T>
  static void run(const KernelCall& c) {
    ops::take_rows(ops::bands_of(c, TakeRowsAttrs::read(c.attrs).bands), c);
  }
};

struct SumRows {
  static constexpr bool works_on_half = true;
  static int64_t scratch_doubles(const KernelCall& c) { return ops::sum_rows_scratch(c); }
  template <class T>
  static void run(const KernelCall& c) {
    ops::sum_rows<double>(ops::bands_of(c, SumRowsAttrs::read(c.attrs).bands), c, static_cast<T*>(c.workspace));
  }
};

}  // namespace

const KernelEntry all_sum = entry<AllSum>();
const KernelEntry all_sums = entry<AllSums>();
const KernelEntry sum_parts = entry<SumParts>();
const KernelEntry take_part = entry<TakePart>();
const KernelEntry put_part = entry<PutPart>();
const KernelEntry all_moments = entry<AllMoments>();
const KernelEntry take_rows = entry<TakeRows>();
const KernelEntry sum_rows = entry<SumRows>();

}  // namespace spillway::ref
