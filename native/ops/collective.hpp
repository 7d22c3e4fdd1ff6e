// Merges of ranks: sums and moments of their shares of a batch, in the order of ranks and by the rules of tiles, so that R ranks have the
// bits of one process with R tiles along B. Few elements take one round: each rank gets those of all, and adds them up. Worked example in
// pieces, all_sum of [1 2 3] and [10 20 30] on 2 ranks: rank 0 adds up two numbers, rank 1 the third; then each has all of [11 22 33].
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "core/communicator.hpp"
#include "ops/batchnorm.hpp"

namespace spillway::ops {

/// Returns true if a call meets other ranks. The other tells if it uses their second way, during
/// compute.
inline bool meets_ranks(uint32_t kind) {
  switch (OpKind(kind)) {
    case OpKind::all_sum:
    case OpKind::all_sums:
    case OpKind::all_moments:
    case OpKind::sum_parts:
    case OpKind::put_part:
    case OpKind::take_rows:
    case OpKind::sum_rows:
      return true;
    default:
      return false;
  }
}
inline bool goes_beside(uint32_t kind, const double* attrs) {
  const bool may = kind == uint32_t(OpKind::all_sums) || kind == uint32_t(OpKind::sum_parts) || kind == uint32_t(OpKind::put_part);
  return may && AllSumsAttrs::read(attrs).beside != 0;
}
/// On the first way, but perhaps during compute: a plan may begin it early, and wait at the first use of its result.
inline bool may_begin_early(uint32_t kind, const double* attrs) {
  return kind == uint32_t(OpKind::all_moments) || (kind == uint32_t(OpKind::all_sums) && !goes_beside(kind, attrs));
}

/// Elements of one sum. Larger values are summed piece by piece, with the scratch of one.
constexpr int64_t SUMMED_AT_ONCE = int64_t(1) << 21;

inline int64_t share_of(int64_t elements, int64_t ranks) { return (elements + ranks - 1) / ranks; }
/// Up to this number of elements of all ranks, one round suffices: every rank gets all of them, and adds
/// them up.
constexpr int64_t IN_ONE_ROUND = int64_t(1) << 15;
inline bool in_one_round(int64_t elements, int64_t ranks) { return elements * ranks <= IN_ONE_ROUND; }
/// The elements of all ranks; or a piece's parts, one from each rank.
inline int64_t all_sum_scratch(int64_t elements, int64_t ranks) {
  return ranks * (in_one_round(elements, ranks) ? elements : share_of(std::min(elements, SUMMED_AT_ONCE), ranks));
}
inline int64_t all_moments_scratch(int64_t elements, int64_t ranks) { return elements * ranks; }

inline Status check_all_moments(const KernelCall& c) {
  const View &x = c.ins[0], &y = c.outs[0];
  const auto of_images = [](const View& v) { return v.rank == 4 && v.dims[1] % 4 == 0 && v.dims[2] == 1 && v.dims[3] == 1; };
  if (c.n_attrs != 2 && c.n_attrs != 2 + uint32_t(c.attrs[0])) return refuse(c, "counts must be absent or one per rank");
  if (of_images(x) && of_images(y) && x.dims[0] == y.dims[0] && x.dims[1] == y.dims[1]) return {};
  return is_statistics(x, x.dims[1]) && is_statistics(y, x.dims[1]) ? Status{} : refuse(c, "both sides must be [4,C], or [B,4G,1,1]");
}

inline Status check_all_sums(const KernelCall& c) {
  for (uint32_t i = 0; i < c.n_ins; i++)
    if (!std::equal(c.ins[i].dims, c.ins[i].dims + 4, c.outs[i].dims)) return refuse(c, "each output must have the shape of its input");
  return {};
}

using Bounds = std::array<uint64_t, MOST_RANKS + 1>;

inline void require_done(Code code, const char* words) {
  if (code != Code::ok) throw std::runtime_error(words[0] ? words : "the connection between ranks is closed");
}

inline void trade(Communicator* comm, const std::vector<Parcel>& sends, const std::vector<Parcel>& takes) {
  char words[COMMUNICATOR_WORDS] = {};
  require_done(comm->engine->trade(comm, sends.data(), uint32_t(sends.size()), takes.data(), uint32_t(takes.size()), words), words);
}

/// The members of a call: all ranks, or those of a column or row of a grid (shares of a batch, each in bands of rows). Without a
/// communicator the call runs by itself (it is measured, or tested) as the only member. All ranks make the same calls at once.
struct Group {
  Communicator* comm = nullptr;
  uint32_t size = 1, index = 0, first = 0, every = 1;

  explicit operator bool() const { return comm != nullptr; }
  uint32_t rank(uint32_t member) const { return first + member * every; }
  void count(uint64_t bytes) const { comm->sent_bytes += bytes; }

  /// As an engine's, among the members.
  void all_to_all(const void* from, const uint64_t* bounds, void* into) const {
    char words[COMMUNICATOR_WORDS] = {};
    if (size == comm->size) return require_done(comm->engine->all_to_all(comm, from, bounds, into, words), words);
    const uint64_t own = bounds[index + 1] - bounds[index];
    char* const out = static_cast<char*>(const_cast<void*>(from));
    char* const in = static_cast<char*>(into);
    std::memcpy(in + index * own, out + bounds[index], own);
    std::vector<Parcel> sends, takes;
    for (uint32_t i = 0; i < size; i++) {
      if (i == index) continue;
      if (bounds[i + 1] > bounds[i]) sends.push_back({rank(i), out + bounds[i], bounds[i + 1] - bounds[i]});
      if (own > 0) takes.push_back({rank(i), in + i * own, own});
    }
    trade(comm, sends, takes);
  }
  void all_gather(void* all, const uint64_t* bounds) const {
    char words[COMMUNICATOR_WORDS] = {};
    if (size == comm->size) return require_done(comm->engine->all_gather(comm, all, bounds, words), words);
    const auto part = [&](uint32_t of, uint32_t to) {
      return Parcel{rank(to), static_cast<char*>(all) + bounds[of], bounds[of + 1] - bounds[of]};
    };
    std::vector<Parcel> sends, takes;
    for (uint32_t i = 0; i < size; i++) {
      if (i == index) continue;
      if (part(index, i).bytes > 0) sends.push_back(part(index, i));
      if (part(i, i).bytes > 0) takes.push_back(part(i, i));
    }
    trade(comm, sends, takes);
  }
};

/// On the first way or, beside computing, on the second.
inline Communicator* way_of(const KernelCall& c, int64_t ranks, bool beside = false) {
  Communicator* const first = c.step ? c.step->communicator : nullptr;
  Communicator* const comm = first && beside ? first->beside : first;
  if (first && !comm) throw std::runtime_error("the engine has no second connection between ranks");
  if (comm && (ranks < 1 || comm->size % ranks != 0))
    throw std::runtime_error(text("the plan is for ", ranks, " ranks, not for ", comm->size));
  return comm;
}

/// All ranks; where there are fewer, those that have the same band of other images.
inline Group ranks_of(const KernelCall& c, int64_t ranks, bool beside = false) {
  Communicator* const comm = way_of(c, ranks, beside);
  if (!comm) return {};
  const uint32_t every = comm->size / uint32_t(ranks);
  return {comm, uint32_t(ranks), comm->rank / every, comm->rank % every, every};
}
/// All ranks; where there are fewer, those that have the other bands of the same images.
inline Group bands_of(const KernelCall& c, int64_t bands) {
  Communicator* const comm = way_of(c, bands);
  if (!comm) return {};
  const uint32_t index = comm->rank % uint32_t(bands);
  return {comm, uint32_t(bands), index, comm->rank - index, 1};
}
/// All ranks, and no fewer.
inline Group all_of(const KernelCall& c, int64_t ranks, bool beside = false) {
  const Group all = ranks_of(c, ranks, beside);
  if (all && all.every != 1) throw std::runtime_error(text("the plan is for ", ranks, " ranks, not for ", all.comm->size));
  return all;
}

/// Everybody has its elements in its place of `all`, in the order of ranks, and gets those of the others.
template <class T>
void gather(const Group& group, T* all, int64_t elements) {
  if (!group) return;
  Bounds bounds;
  for (uint32_t r = 0; r <= group.size; r++) bounds[r] = uint64_t(r) * uint64_t(elements) * sizeof(T);
  group.all_gather(all, bounds.data());
  group.count(uint64_t(elements) * sizeof(T) * (group.size - 1));
}

/// y = the sum of what ranks have, from zero in their order: `apart` elements from one rank's to the next one's.
template <class T>
void add_up(const T* all, int64_t apart, uint32_t ranks, T* y, int64_t elements) {
  for (int64_t i = 0; i < elements; i++) y[i] = T(0) + all[i];
  for (uint32_t r = 1; r < ranks; r++)
    for (int64_t i = 0; i < elements; i++) y[i] += all[r * apart + i];
}

/// y = the sum of all ranks' x, from zero in the order of ranks; `scratch`: all_sum_scratch() elements.
template <class T>
void sum_in_pieces(const Group& group, const T* x, T* y, int64_t elements, T* scratch) {
  for (int64_t first = 0; first < elements; first += SUMMED_AT_ONCE) {
    const int64_t n = std::min(SUMMED_AT_ONCE, elements - first);
    if (!group) {
      for (int64_t i = first; i < first + n; i++) y[i] = T(0) + x[i];
      continue;
    }
    Bounds bounds;
    const int64_t share = share_of(n, group.size);
    for (uint32_t r = 0; r <= group.size; r++) bounds[r] = uint64_t(std::min(n, r * share)) * sizeof(T);
    group.all_to_all(x + first, bounds.data(), scratch);
    const int64_t own = int64_t((bounds[group.index + 1] - bounds[group.index]) / sizeof(T));
    add_up(scratch, own, group.size, y + first + bounds[group.index] / sizeof(T), own);
    group.all_gather(y + first, bounds.data());
    group.count(uint64_t(n - own) * sizeof(T) + uint64_t(own) * sizeof(T) * (group.size - 1));
  }
}

inline int64_t elements_in(const KernelCall& c) {
  int64_t all = 0;
  for (uint32_t i = 0; i < c.n_ins; i++) all += elements(c.ins[i]);
  return all;
}
/// Several go as one; in pieces they lie side by side in scratch, with all_sum's own behind them.
inline int64_t all_sums_scratch(const KernelCall& c, int64_t ranks) {
  const int64_t all = elements_in(c);
  return all_sum_scratch(all, ranks) + (c.n_ins > 1 && !in_one_round(all, ranks) ? all : 0);
}

/// all_sum, and all_sums.
template <class T>
void all_sums(const Group& group, const KernelCall& c, T* scratch) {
  const auto in = [&](uint32_t i) { return static_cast<const T*>(c.ins[i].data); };
  const auto out = [&](uint32_t i) { return static_cast<T*>(c.outs[i].data); };
  const int64_t all = elements_in(c);
  const bool one_round = in_one_round(all, group.size);
  if (c.n_ins == 1 && !one_round) return sum_in_pieces(group, in(0), out(0), all, scratch);
  T* end = scratch + (one_round ? group.index * all : 0);
  for (uint32_t i = 0; i < c.n_ins; i++) end = std::copy_n(in(i), elements(c.ins[i]), end);
  if (one_round) {
    gather(group, scratch, all);
    const T* from = scratch;
    for (uint32_t i = 0; i < c.n_outs; from += elements(c.outs[i]), i++) add_up(from, all, group.size, out(i), elements(c.outs[i]));
    return;
  }
  sum_in_pieces(group, scratch, scratch, all, end);
  const T* from = scratch;
  for (uint32_t i = 0; i < c.n_outs; from += elements(c.outs[i]), i++) std::copy_n(from, elements(c.outs[i]), out(i));
}

/// A divided value: each rank has a part of it, the last ones with zeros after their last element.
struct Part {
  int64_t first, count;  // of the whole
};
inline Part part_of(int64_t elements, int64_t ranks, uint32_t rank) {
  const int64_t each = share_of(elements, ranks), first = std::min(elements, each * int64_t(rank));
  return {first, std::min(each, elements - first)};
}
/// Elements of each rank's parts in one round: sent and received ones have scratch each.
inline int64_t parts_at_once(int64_t own, int64_t ranks) { return std::min(own, std::max<int64_t>(1, SUMMED_AT_ONCE / 2 / ranks)); }
inline int64_t own_elements(const KernelCall& c, int64_t ranks) {
  int64_t own = 0;
  for (uint32_t i = 0; i < c.n_ins; i++) own += share_of(elements(c.ins[i]), ranks);
  return own;
}
inline int64_t sum_parts_scratch(const KernelCall& c, int64_t ranks) { return 2 * ranks * parts_at_once(own_elements(c, ranks), ranks); }

inline Status check_part(const KernelCall& c, const View& whole, const View& part) {
  const int64_t due = share_of(elements(whole), int64_t(c.attrs[0]));
  return elements(part) == due && part.dims[0] == due ? Status{} : refuse(c, "a part must have the element count of one rank's share");
}
inline Status check_parts(const KernelCall& c) {
  for (uint32_t i = 0; i < c.n_ins; i++)
    if (Status s = check_part(c, c.ins[i], c.outs[i]); !s.ok()) return s;
  return {};
}
inline Status check_put_part(const KernelCall& c) { return check_part(c, c.ins[0], c.ins[1]); }

/// Rank r's parts lie behind one another; elements [from, from + n) of them, which are views' in turn: each(view, its element, of how
/// many).
template <class Each>
void each_run(const KernelCall& c, int64_t ranks, int64_t from, int64_t n, Each each) {
  int64_t base = 0;
  for (uint32_t i = 0; i < c.n_ins && base < from + n; i++) {
    const int64_t own = share_of(elements(c.ins[i]), ranks), lo = std::max(from, base), hi = std::min(from + n, base + own);
    if (lo < hi) each(i, lo - base, hi - lo);
    base += own;
  }
}

/// y = this rank's part of the sum of all ranks' x, from zero in the order of ranks; `scratch`: sum_parts_scratch() elements.
template <class T>
void sum_parts(const Group& group, const KernelCall& c, int64_t ranks, T* scratch) {
  const int64_t all = own_elements(c, ranks), at_once = parts_at_once(all, ranks);
  const uint32_t size = group.size;
  T* const came = scratch + ranks * at_once;
  for (int64_t from = 0; from < all; from += at_once) {
    const int64_t n = std::min(at_once, all - from);
    T* to = scratch;
    for (uint32_t r = 0; r < size; r++)
      each_run(c, ranks, from, n, [&](uint32_t i, int64_t at, int64_t count) {
        const Part part = part_of(elements(c.ins[i]), ranks, r);
        const int64_t there = std::clamp<int64_t>(part.count - at, 0, count);
        to = std::copy_n(static_cast<const T*>(c.ins[i].data) + part.first + at, there, to);
        to = std::fill_n(to, count - there, T(0));
      });
    if (group) {
      Bounds bounds;
      for (uint32_t r = 0; r <= size; r++) bounds[r] = uint64_t(r) * uint64_t(n) * sizeof(T);
      group.all_to_all(scratch, bounds.data(), came);
      group.count(uint64_t(n) * sizeof(T) * (size - 1));
    } else {
      std::copy_n(scratch, n, came);
    }
    const T* own = came;
    each_run(c, ranks, from, n, [&](uint32_t i, int64_t at, int64_t count) {
      add_up(own, n, size, static_cast<T*>(c.outs[i].data) + at, count);
      own += count;
    });
  }
}

/// y = this rank's part of x.
template <class T>
void take_part(const Group& group, const KernelCall& c, int64_t ranks) {
  const Part part = part_of(elements(c.ins[0]), ranks, group.index);
  T* const y = static_cast<T*>(c.outs[0].data);
  T* const end = std::copy_n(static_cast<const T*>(c.ins[0].data) + part.first, part.count, y);
  std::fill_n(end, elements(c.outs[0]) - part.count, T(0));
}

/// w = the parts of all ranks.
template <class T>
void put_part(const Group& group, const KernelCall& c, int64_t ranks) {
  const int64_t all = elements(c.ins[0]);
  const Part part = part_of(all, ranks, group.index);
  T* const w = static_cast<T*>(c.ins[0].data);
  std::copy_n(static_cast<const T*>(c.ins[1].data), part.count, w + part.first);
  if (!group) return;
  Bounds bounds;
  for (uint32_t r = 0; r < group.size; r++) bounds[r] = uint64_t(part_of(all, ranks, r).first) * sizeof(T);
  bounds[group.size] = uint64_t(all) * sizeof(T);
  group.all_gather(w, bounds.data());
  group.count(uint64_t(part.count) * sizeof(T) * (group.size - 1));
}

/// The numbers of elements behind each rank's moments: equal, or counts of their own.
struct Counts {
  const double* each;
  double all;
  explicit Counts(const KernelCall& c) : each(c.n_attrs > 2 ? c.attrs + 2 : nullptr), all(c.attrs[1]) {}
  double of(uint32_t rank) const { return each ? each[rank] : all; }
};

/// Statistics of images are those of their bands; those of a batch, of all ranks.
inline Group moments_of(const KernelCall& c, int64_t ranks) { return c.ins[0].rank == 4 ? bands_of(c, ranks) : ranks_of(c, ranks); }

/// y = the ranks' statistics x, each over its count of elements, merged in the order of ranks by `merge` (x view, count, y view, count so
/// far).
template <class T, class Merge>
void all_moments(const Group& group, const View& x, const View& y, Counts counts, T* scratch, Merge merge) {
  const int64_t elements = ops::elements(x);
  const uint32_t size = group.size;
  std::memcpy(scratch + group.index * elements, x.data, size_t(elements) * sizeof(T));
  gather(group, scratch, elements);
  View part = x;
  double before = 0;
  for (uint32_t r = 0; r < size; r++) {
    part.data = scratch + r * elements;
    const double count = counts.of(r);
    merge(part, count, y, before);
    before += count;
  }
}

}  // namespace spillway::ops
