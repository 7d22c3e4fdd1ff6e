// Merges of ranks, as on the host's devices (ops/collective.hpp, ops/bands.hpp), with the same scratch and the same parcels. NCCL
// transports bytes. They are added here, from zero in the order of ranks, as tiles are, so no bit depends on NCCL's version or
// topology. Worked example in pieces, all_sum of [1 2 3] on rank 0 of 2: 3 goes to rank 1, its [10 20] arrive, [11 22] leave, and its
// [33] arrives.
#pragma once
#include "cuda/kernels/plumbing.hpp"
#include "ops/bands.hpp"

namespace spillway::cuda {

/// Elements [at(r), at(r + 1)) are member r's share of n.
struct Shares {
  int64_t n, each;
  Shares(int64_t elements, int64_t members) : n(elements), each(ops::share_of(elements, members)) {}
  int64_t at(int64_t r) const { return std::min(n, r * each); }
  int64_t count(int64_t r) const { return at(r + 1) - at(r); }
};

template <class T>
Parcel parcel(const ops::Group& group, uint32_t member, const T* at, int64_t elements) {
  return {group.rank(member), const_cast<T*>(at), uint64_t(elements) * sizeof(T)};
}

/// Shares of `from` are sent to their members. This member's received parts are in `came`, with space for one share of each member.
/// Its own share stays in `from`.
template <class T, class Exec>
void to_each(Exec& exec, const ops::Group& group, const T* from, const Shares& shares, T* came) {
  std::vector<Parcel> sends, takes;
  const int64_t own = shares.count(group.index);
  for (uint32_t r = 0; r < group.size; r++) {
    if (r == group.index) continue;
    if (shares.count(r) > 0) sends.push_back(parcel(group, r, from + shares.at(r), shares.count(r)));
    if (own > 0) takes.push_back(parcel(group, r, came + r * own, own));
  }
  exec.trade(group, sends, takes);
}

/// Each member has its share of `all` in place, and gets the others'.
template <class T, class Exec>
void from_each(Exec& exec, const ops::Group& group, T* all, const Shares& shares) {
  std::vector<Parcel> sends, takes;
  const int64_t own = shares.count(group.index);
  for (uint32_t r = 0; r < group.size; r++) {
    if (r == group.index) continue;
    if (own > 0) sends.push_back(parcel(group, r, all + shares.at(group.index), own));
    if (shares.count(r) > 0) takes.push_back(parcel(group, r, all + shares.at(r), shares.count(r)));
  }
  exec.trade(group, sends, takes);
}

/// The terms of all members for the same elements: this member's in place, those of the others one after the other, `apart` elements
/// from each other.
struct Terms {
  const float *own, *came;
  int64_t apart;
  uint32_t index, size;
  SPILLWAY_BOTH float sum(int64_t i) const {
    float total = 0.0f;
    for (uint32_t r = 0; r < size; r++) total += r == index ? own[i] : came[r * apart + i];
    return total;
  }
};

template <class Exec>
void add_up(Exec& exec, const Terms& of, float* y, int64_t elements) {
  const Terms terms = of;
  exec.each(elements, [=] SPILLWAY_BOTH(uint32_t i) { y[i] = terms.sum(i); });
}

/// Gathers the `elements` of all members in `all`, in the order of members. Those of this member stay in place.
template <class Exec>
void gather(Exec& exec, const ops::Group& group, const float* own, float* all, int64_t elements) {
  if (!group) return;
  std::vector<Parcel> sends, takes;
  for (uint32_t r = 0; r < group.size; r++) {
    if (r == group.index) continue;
    sends.push_back(parcel(group, r, own, elements));
    takes.push_back(parcel(group, r, all + r * elements, elements));
  }
  exec.trade(group, sends, takes);
  group.count(uint64_t(elements) * sizeof(float) * (group.size - 1));
}

/// y = the sum of all members' x; `scratch`: all_sum_scratch() elements.
template <class Exec>
void sum_over(Exec& exec, const ops::Group& group, const float* x, float* y, int64_t elements, float* scratch) {
  if (ops::in_one_round(elements, group.size)) {
    gather(exec, group, x, scratch, elements);
    return add_up(exec, {x, scratch, elements, group.index, group.size}, y, elements);
  }
  if (!group) return exec.each(elements, [=] SPILLWAY_BOTH(uint32_t i) { y[i] = 0.0f + x[i]; });
  for (int64_t first = 0; first < elements; first += ops::SUMMED_AT_ONCE) {
    const Shares shares(std::min(ops::SUMMED_AT_ONCE, elements - first), group.size);
    const int64_t own = shares.count(group.index), at = first + shares.at(group.index);
    to_each(exec, group, x + first, shares, scratch);
    add_up(exec, {x + at, scratch, own, group.index, group.size}, y + at, own);
    from_each(exec, group, y + first, shares);
    group.count(uint64_t(shares.n - own + own * (group.size - 1)) * sizeof(float));
  }
}

template <class T, class Exec>
void copy_elements(Exec& exec, const T* from, T* to, int64_t elements) {
  exec.each(elements, [=] SPILLWAY_BOTH(uint32_t i) { to[i] = from[i]; });
}

template <>
struct Kernel<OpKind::all_sum> : OwnKernel {
  static int64_t workspace(const KernelCall& c) {
    return ops::all_sum_scratch(ops::elements(c.ins[0]), AllSumAttrs::read(c.attrs).ranks) * int64_t(sizeof(float));
  }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = AllSumAttrs::read(c.attrs);
    sum_over(exec, ops::ranks_of(c, a.ranks), floats(c.ins[0]), floats(c.outs[0]), ops::elements(c.ins[0]),
             static_cast<float*>(c.workspace));
  }
};

template <>
struct Kernel<OpKind::all_sums> : OwnKernel {
  static int64_t workspace(const KernelCall& c) {
    return ops::all_sums_scratch(c, AllSumsAttrs::read(c.attrs).ranks) * int64_t(sizeof(float));
  }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = AllSumsAttrs::read(c.attrs);
    const ops::Group group = ops::ranks_of(c, a.ranks, a.beside != 0);
    float* const scratch = static_cast<float*>(c.workspace);
    if (c.n_ins == 1) return sum_over(exec, group, floats(c.ins[0]), floats(c.outs[0]), ops::elements(c.ins[0]), scratch);
    const int64_t all = ops::elements_in(c);
    const bool one_round = ops::in_one_round(all, group.size);
    float* const packed = scratch + (one_round ? group.index * all : 0);
    int64_t end = 0;
    for (uint32_t i = 0; i < c.n_ins; end += ops::elements(c.ins[i]), i++)
      copy_elements(exec, floats(c.ins[i]), packed + end, ops::elements(c.ins[i]));
    end = 0;
    if (one_round) {
      gather(exec, group, packed, scratch, all);
      for (uint32_t i = 0; i < c.n_outs; end += ops::elements(c.outs[i]), i++)
        add_up(exec, {packed + end, scratch + end, all, group.index, group.size}, floats(c.outs[i]), ops::elements(c.outs[i]));
      return;
    }
    sum_over(exec, group, packed, packed, all, packed + all);
    for (uint32_t i = 0; i < c.n_outs; end += ops::elements(c.outs[i]), i++)
      copy_elements(exec, packed + end, floats(c.outs[i]), ops::elements(c.outs[i]));
  }
};

template <>
struct Kernel<OpKind::all_moments> : OwnKernel {
  static int64_t workspace(const KernelCall& c) {
    return ops::all_moments_scratch(ops::elements(c.ins[0]), AllMomentsAttrs::read(c.attrs).ranks) * int64_t(sizeof(float));
  }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::Group group = ops::moments_of(c, AllMomentsAttrs::read(c.attrs).ranks);
    const int64_t elements = ops::elements(c.ins[0]);
    float* const all = static_cast<float*>(c.workspace);
    copy_elements(exec, floats(c.ins[0]), all + group.index * elements, elements);
    gather(exec, group, all + group.index * elements, all, elements);
    const ops::Counts counts(c);
    View part = c.ins[0];
    double before = 0;
    for (uint32_t r = 0; r < group.size; r++) {
      part.data = all + r * elements;
      merge_moments_of(exec, part, counts.of(r), c.outs[0], before);
      before += counts.of(r);
    }
  }
};

template <>
struct Kernel<OpKind::sum_parts> : OwnKernel {
  static int64_t workspace(const KernelCall& c) {
    return ops::sum_parts_scratch(c, SumPartsAttrs::read(c.attrs).ranks) * int64_t(sizeof(float));
  }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = SumPartsAttrs::read(c.attrs);
    const ops::Group group = ops::all_of(c, a.ranks, a.beside != 0);
    const int64_t all = ops::own_elements(c, a.ranks), at_once = ops::parts_at_once(all, a.ranks);
    float *const packed = static_cast<float*>(c.workspace), *const came = packed + a.ranks * at_once;
    for (int64_t from = 0; from < all; from += at_once) {
      const int64_t n = std::min(at_once, all - from), ranks = a.ranks;
      int64_t done = 0;
      ops::each_run(c, ranks, from, n, [&](uint32_t view, int64_t at, int64_t count) {
        pack(exec, c.ins[view], ranks, group.size, at, count, packed + done, n);
        done += count;
      });
      if (group) {
        to_each(exec, group, packed, Shares(n * group.size, group.size), came);
        group.count(uint64_t(n) * sizeof(float) * (group.size - 1));
      }
      done = 0;
      ops::each_run(c, ranks, from, n, [&](uint32_t view, int64_t at, int64_t count) {
        add_up(exec, {packed + group.index * n + done, came + done, n, group.index, group.size}, floats(c.outs[view]) + at, count);
        done += count;
      });
    }
  }

  /// Elements [at, at + count) of each member's part of x, zeros behind its last: member r's lie from into[r * apart] on.
  template <class Exec>
  static void pack(Exec& exec, const View& x_view, int64_t ranks, int64_t members, int64_t at, int64_t count, float* into, int64_t apart) {
    const float* const x = floats(x_view);
    const int64_t elements = ops::elements(x_view), share = ops::share_of(elements, ranks);
    exec.each(members * count, [=] SPILLWAY_BOTH(uint32_t i) {
      const int64_t r = i / count, k = i % count, from = share * r + at + k;
      into[r * apart + k] = at + k < share && from < elements ? x[from] : 0.0f;
    });
  }
};

template <>
struct Kernel<OpKind::take_part> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = TakePartAttrs::read(c.attrs);
    const ops::Part part = ops::part_of(ops::elements(c.ins[0]), a.ranks, ops::all_of(c, a.ranks).index);
    const float* const x = floats(c.ins[0]) + part.first;
    float* const y = floats(c.outs[0]);
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) { y[i] = i < part.count ? x[i] : 0.0f; });
  }
};

template <>
struct Kernel<OpKind::put_part> : OwnKernel {
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const auto a = PutPartAttrs::read(c.attrs);
    const ops::Group group = ops::all_of(c, a.ranks, a.beside != 0);
    const Shares shares(ops::elements(c.ins[0]), a.ranks);
    const int64_t own = shares.count(group.index);
    copy_elements(exec, floats(c.ins[1]), floats(c.ins[0]) + shares.at(group.index), own);
    if (!group) return;
    from_each(exec, group, floats(c.ins[0]), shares);
    group.count(uint64_t(own) * sizeof(float) * (group.size - 1));
  }
};

// ---------------------------------------------------------------- bands of rows

/// f(pointer into y, pointer into x) for the elements of these rows, image by image; x and y lie without gaps.
template <class T, class Exec, class F>
void each_of_rows(Exec& exec, ops::Rows rows, int64_t images, const ops::Placed& y, const T* x, int64_t x_first, int64_t x_height, F f) {
  const int64_t row = y.row_bytes / int64_t(sizeof(T)), n = rows.count() * row;
  T* const into = reinterpret_cast<T*>(y.data) + (rows.from - y.first) * row;
  const T* const from = x + (rows.from - x_first) * row;
  const int64_t into_apart = y.height * row, from_apart = x_height * row;
  exec.each(images * n, [=] SPILLWAY_BOTH(uint32_t i) {
    const int64_t b = i / n, k = i % n;
    f(into + b * into_apart + k, from + b * from_apart + k);
  });
}

template <>
struct Kernel<OpKind::take_rows> : OwnKernel {
  template <class, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    if (dtype_bytes(c.ins[0].dtype) == sizeof(uint32_t))
      take<uint32_t>(exec, c);
    else
      take<uint16_t>(exec, c);
  }

  template <class Bits, class Exec>
  static void take(Exec& exec, const KernelCall& c) {
    const ops::Group bands = ops::bands_of(c, TakeRowsAttrs::read(c.attrs).bands);
    const ops::Cuts cuts(c);
    const int64_t images = c.ins[0].dims[0];
    const ops::Placed x = ops::placed(c.ins[0], sizeof(Bits)), y = ops::placed(c.outs[0], sizeof(Bits));
    const ops::Rows wants = cuts.wants(cuts.band()), own = ops::common(cuts.has(cuts.band()), wants);
    Bits* const into = static_cast<Bits*>(c.outs[0].data);
    if (!bands && own.count() < wants.count()) exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) { into[i] = 0; });
    if (own.count() > 0)
      each_of_rows(exec, own, images, y, reinterpret_cast<const Bits*>(x.data), x.first, x.height,
                   [] SPILLWAY_BOTH(Bits * to, const Bits* from) { *to = *from; });
    bool all_alone = true;
    for (uint32_t r = 0; r < cuts.bands(); r++) all_alone = all_alone && cuts.alone(r);
    if (!bands || all_alone) return;
    std::vector<Parcel> takes;
    for (uint32_t r = 0; r < cuts.bands() && !cuts.alone(cuts.band()); r++)
      if (const ops::Rows rows = ops::common(cuts.has(r), wants); r != cuts.band() && rows.count() > 0)
        for (int64_t b = 0; b < images; b++) takes.push_back({bands.rank(r), y.at(b, rows.from), uint64_t(rows.count() * y.row_bytes)});
    const std::vector<Parcel> sends = ops::sent(bands, cuts, x, images, [&](uint32_t r) { return cuts.alone(r); });
    exec.trade(bands, sends, takes);
    for (const Parcel& p : sends) bands.count(p.bytes);
  }
};

template <>
struct Kernel<OpKind::sum_rows> : OwnKernel {
  static int64_t workspace(const KernelCall& c) { return ops::sum_rows_scratch(c) * int64_t(dtype_bytes(c.ins[0].dtype)); }
  template <class T, class Exec>
  static void run(Exec& exec, const KernelCall& c) {
    const ops::Group bands = ops::bands_of(c, SumRowsAttrs::read(c.attrs).bands);
    const ops::Cuts cuts(c);
    const int64_t images = c.ins[0].dims[0], row = ops::row_elements(c.ins[0]);
    const ops::Placed x = ops::placed(c.ins[0], sizeof(T)), y = ops::placed(c.outs[0], sizeof(T));
    const ops::Rows wants = cuts.wants(cuts.band());
    T *const sum = static_cast<T*>(c.outs[0].data), *const scratch = static_cast<T*>(c.workspace);
    if (bands) {
      std::vector<Parcel> takes;
      T* at = scratch;
      for (uint32_t r = 0; r < cuts.bands(); r++)
        if (const ops::Rows rows = ops::common(cuts.has(r), wants); r != cuts.band() && rows.count() > 0)
          for (int64_t b = 0; b < images; b++, at += rows.count() * row)
            takes.push_back({bands.rank(r), at, uint64_t(rows.count() * row) * sizeof(T)});
      const std::vector<Parcel> sends = ops::sent(bands, cuts, x, images, [](uint32_t) { return false; });
      exec.trade(bands, sends, takes);
      for (const Parcel& p : sends) bands.count(p.bytes);
    }
    exec.each(ops::elements(c.outs[0]), [=] SPILLWAY_BOTH(uint32_t i) { sum[i] = 0.0f; });
    const auto add = [] SPILLWAY_BOTH(T * to, const T* from) { *to = float(*to) + float(*from); };
    const T* came = scratch;
    for (uint32_t r = 0; r < cuts.bands(); r++) {
      const ops::Rows rows = ops::common(cuts.has(r), wants);
      if (rows.count() == 0) continue;
      if (r == cuts.band())
        each_of_rows(exec, rows, images, y, reinterpret_cast<const T*>(x.data), x.first, x.height, add);
      else if (bands) {
        each_of_rows(exec, rows, images, y, came, rows.from, rows.count(), add);
        came += images * rows.count() * row;
      }
    }
  }
};

}  // namespace spillway::cuda
