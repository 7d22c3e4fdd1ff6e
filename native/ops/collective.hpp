// What ranks merge: sums and moments of their shares of a batch, in the order of ranks and by the rules by which tiles merge, so that R ranks
// have the bits of one process with R tiles along B. Worked example, all_sum of [1 2 3] and [10 20 30] on 2 ranks: rank 0 adds up the first
// two numbers, rank 1 the third; then each has all of [11 22 33].
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "core/communicator.hpp"
#include "ops/batchnorm.hpp"

namespace spillway::ops {

/// Elements that are summed in one go: what is larger goes piece by piece, with the scratch of one.
constexpr int64_t SUMMED_AT_ONCE = int64_t(1) << 21;

inline int64_t share_of(int64_t elements, int64_t ranks) { return (elements + ranks - 1) / ranks; }
/// A piece's parts, one from each rank.
inline int64_t all_sum_scratch(int64_t elements, int64_t ranks) { return share_of(std::min(elements, SUMMED_AT_ONCE), ranks) * ranks; }
inline int64_t all_moments_scratch(int64_t elements, int64_t ranks) { return elements * ranks; }

inline Status check_all_moments(const KernelCall& c) {
  const View &x = c.ins[0], &y = c.outs[0];
  const auto of_images = [](const View& v) { return v.rank == 4 && v.dims[1] % 4 == 0 && v.dims[2] == 1 && v.dims[3] == 1; };
  if (c.n_attrs != 2 && c.n_attrs != 2 + uint32_t(c.attrs[0])) return refuse(c, "as many counts as ranks are due, or none");
  if (of_images(x) && of_images(y) && x.dims[0] == y.dims[0] && x.dims[1] == y.dims[1]) return {};
  return is_statistics(x, x.dims[1]) && is_statistics(y, x.dims[1]) ? Status{} : refuse(c, "both sides must be [4,C], or [B,4G,1,1]");
}

inline Status check_all_sums(const KernelCall& c) {
  for (uint32_t i = 0; i < c.n_ins; i++)
    if (!std::equal(c.ins[i].dims, c.ins[i].dims + 4, c.outs[i].dims)) return refuse(c, "each output must have the shape of its input");
  return {};
}

using Bounds = std::array<uint64_t, MOST_RANKS + 1>;

/// The ranks of a call, on their first way or, beside computing, on their second; null where it runs by itself (it is measured, or tested): then
/// it is the only one's share.
inline Communicator* ranks_of(const KernelCall& c, int64_t ranks, bool beside = false) {
  Communicator* const first = c.step ? c.step->communicator : nullptr;
  Communicator* const comm = first && beside ? first->beside : first;
  if (first && !comm) throw std::runtime_error("the engine has no second way between ranks");
  if (comm && comm->size != ranks) throw std::runtime_error(text("the plan is for ", ranks, " ranks, not for ", comm->size));
  return comm;
}

inline void require_done(Code code, const char* words) {
  if (code != Code::ok) throw std::runtime_error(words[0] ? words : "the ranks have parted");
}

/// y = the sum of all ranks' x, from zero in the order of ranks; `scratch`: all_sum_scratch() elements.
template <class T>
void all_sum(Communicator* comm, const T* x, T* y, int64_t elements, T* scratch) {
  for (int64_t first = 0; first < elements; first += SUMMED_AT_ONCE) {
    const int64_t n = std::min(SUMMED_AT_ONCE, elements - first);
    if (!comm) {
      for (int64_t i = first; i < first + n; i++) y[i] = T(0) + x[i];
      continue;
    }
    char words[COMMUNICATOR_WORDS] = {};
    Bounds bounds;
    const int64_t share = share_of(n, comm->size);
    for (uint32_t r = 0; r <= comm->size; r++) bounds[r] = uint64_t(std::min(n, r * share)) * sizeof(T);
    require_done(comm->engine->all_to_all(comm, x + first, bounds.data(), scratch, words), words);
    const int64_t own = int64_t((bounds[comm->rank + 1] - bounds[comm->rank]) / sizeof(T));
    T* const sum = y + first + bounds[comm->rank] / sizeof(T);
    for (int64_t i = 0; i < own; i++) sum[i] = T(0) + scratch[i];
    for (uint32_t r = 1; r < comm->size; r++)
      for (int64_t i = 0; i < own; i++) sum[i] += scratch[r * own + i];
    require_done(comm->engine->all_gather(comm, y + first, bounds.data(), words), words);
    comm->sent_bytes += uint64_t(n - own) * sizeof(T) + uint64_t(own) * sizeof(T) * (comm->size - 1);
  }
}

/// Several go as one, side by side in scratch, with all_sum's own behind them.
template <class Sizes>
int64_t all_sums_scratch(const Sizes& sizes, int64_t ranks) {
  int64_t all = 0;
  for (const int64_t n : sizes) all += n;
  return all_sum_scratch(all, ranks) + (sizes.size() > 1 ? all : 0);
}

inline std::vector<int64_t> sizes_of(const KernelCall& c) {
  std::vector<int64_t> sizes;
  for (uint32_t i = 0; i < c.n_ins; i++) sizes.push_back(elements(c.ins[i]));
  return sizes;
}

template <class T>
void all_sums(Communicator* comm, const KernelCall& c, T* scratch) {
  const auto in = [&](uint32_t i) { return static_cast<const T*>(c.ins[i].data); };
  const auto out = [&](uint32_t i) { return static_cast<T*>(c.outs[i].data); };
  if (c.n_ins == 1) return all_sum(comm, in(0), out(0), elements(c.ins[0]), scratch);
  T* end = scratch;
  for (uint32_t i = 0; i < c.n_ins; i++) end = std::copy_n(in(i), elements(c.ins[i]), end);
  all_sum(comm, scratch, scratch, end - scratch, end);
  const T* from = scratch;
  for (uint32_t i = 0; i < c.n_outs; from += elements(c.outs[i]), i++) std::copy_n(from, elements(c.outs[i]), out(i));
}

/// Of how many elements each rank's moments are: as many everywhere, or counts of their own.
struct Counts {
  const double* each;
  double all;
  explicit Counts(const KernelCall& c) : each(c.n_attrs > 2 ? c.attrs + 2 : nullptr), all(c.attrs[1]) {}
  double of(uint32_t rank) const { return each ? each[rank] : all; }
};

/// y = the ranks' statistics x, each over its count of elements, merged in the order of ranks by `merge` (x view, count, y view, count so far).
template <class T, class Merge>
void all_moments(Communicator* comm, const View& x, const View& y, Counts counts, T* scratch, Merge merge) {
  const int64_t elements = ops::elements(x);
  const uint32_t size = comm ? comm->size : 1, rank = comm ? comm->rank : 0;
  std::memcpy(scratch + rank * elements, x.data, size_t(elements) * sizeof(T));
  if (comm) {
    char words[COMMUNICATOR_WORDS] = {};
    Bounds bounds;
    for (uint32_t r = 0; r <= size; r++) bounds[r] = uint64_t(r) * uint64_t(elements) * sizeof(T);
    require_done(comm->engine->all_gather(comm, scratch, bounds.data(), words), words);
    comm->sent_bytes += uint64_t(elements) * sizeof(T) * (size - 1);
  }
  View part = x;
  double before = 0;
  for (uint32_t r = 0; r < size; r++) {
    part.data = scratch + r * elements;
    const double count = counts.of(comm ? r : 0);
    merge(part, count, y, before);
    before += count;
  }
}

}  // namespace spillway::ops
