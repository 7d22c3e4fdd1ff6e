// Exchanges of ranks with bands of one image's rows: rows of other ranks, or sums of the parts that several ranks have of a row, from zero
// in the order of ranks, as tiles merge. Rows are sent and received in place; sums have the others' parts as scratch. Worked example, has
// [0,4) [4,8), wants [0,5) [3,8): rank 0 sends its row 3, and receives rank 1's row 4 as its last.
#pragma once
#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/collective.hpp"

namespace spillway::ops {

struct Rows {
  int64_t from = 0, to = 0;
  int64_t count() const { return std::max<int64_t>(0, to - from); }
  bool operator==(const Rows& o) const { return from == o.from && to == o.to; }
};
inline Rows common(Rows a, Rows b) { return {std::max(a.from, b.from), std::min(a.to, b.to)}; }

/// By rank: its rows, and the rows that it wants.
class Cuts {
 public:
  /// From attributes: bands, band, and for each band hasFrom, hasTo, wantsFrom, wantsTo.
  explicit Cuts(const KernelCall& c) : attrs_(c.attrs), bands_(uint32_t(c.attrs[0])), band_(uint32_t(c.attrs[1])) {}
  uint32_t bands() const { return bands_; }
  uint32_t band() const { return band_; }
  Rows has(uint32_t r) const { return {at(r, 0), at(r, 1)}; }
  Rows wants(uint32_t r) const { return {at(r, 2), at(r, 3)}; }
  /// Returns true if a receiving rank has all the rows that it wants.
  bool alone(uint32_t r) const { return common(has(r), wants(r)) == wants(r); }
  /// Rows of other ranks that are added to this one's.
  int64_t added() const {
    int64_t rows = 0;
    for (uint32_t r = 0; r < bands_; r++)
      if (r != band_) rows += common(has(r), wants(band_)).count();
    return rows;
  }

 private:
  int64_t at(uint32_t r, int k) const { return int64_t(attrs_[2 + 4 * r + uint32_t(k)]); }
  const double* attrs_;
  uint32_t bands_, band_;
};

inline int64_t row_elements(const View& v) { return v.dims[1] * v.dims[3]; }
inline int64_t sum_rows_scratch(const KernelCall& c) { return Cuts(c).added() * c.ins[0].dims[0] * row_elements(c.ins[0]); }

inline Status check_rows(const KernelCall& c) {
  const View &x = c.ins[0], &y = c.outs[0];
  const Cuts cuts(c);
  if (c.n_attrs != 2 + 4 * cuts.bands() || cuts.band() >= cuts.bands()) return refuse(c, "the rows of each band must be given");
  if (!is_activation(x) || !is_activation(y) || !dense_channels_last(x) || !dense_channels_last(y))
    return refuse(c, "rows must be contiguous in memory");
  for (int d = 0; d < 4; d++)
    if (d != 2 && (x.dims[d] != y.dims[d] || x.origin[d] != y.origin[d])) return refuse(c, "x and y must be rows of one value");
  const auto are = [](Rows r, const View& v) { return r.from == v.origin[2] && r.count() == v.dims[2]; };
  return are(cuts.has(cuts.band()), x) && are(cuts.wants(cuts.band()), y)
             ? Status{}
             : refuse(c, "x must hold the rows of this band, y the rows it needs");
}

/// The places of rows, image by image.
struct Placed {
  char* data;
  int64_t first, height, row_bytes;
  char* at(int64_t image, int64_t row) const { return data + (image * height + row - first) * row_bytes; }
};
inline Placed placed(const View& v, int64_t element_bytes) {
  return {static_cast<char*>(v.data), v.origin[2], v.dims[2], row_elements(v) * element_bytes};
}

inline void trade(const Group& bands, const std::vector<Parcel>& sends, const std::vector<Parcel>& takes) {
  trade(bands.comm, sends, takes);
  for (const Parcel& p : sends) bands.count(p.bytes);
}

/// The rows of this rank that others want; `skips(r)` leaves one out.
template <class Skips>
std::vector<Parcel> sent(const Group& bands, const Cuts& cuts, const Placed& x, int64_t images, Skips skips) {
  std::vector<Parcel> parts;
  for (uint32_t r = 0; r < cuts.bands(); r++) {
    const Rows rows = common(cuts.has(cuts.band()), cuts.wants(r));
    if (r == cuts.band() || rows.count() == 0 || skips(r)) continue;
    for (int64_t b = 0; b < images; b++) parts.push_back({bands.rank(r), x.at(b, rows.from), uint64_t(rows.count() * x.row_bytes)});
  }
  return parts;
}

/// y = rows from whoever has them.
inline void take_rows(const Group& bands, const KernelCall& c) {
  const Cuts cuts(c);
  const int64_t element = int64_t(dtype_bytes(c.ins[0].dtype)), images = c.ins[0].dims[0];
  const Placed x = placed(c.ins[0], element), y = placed(c.outs[0], element);
  const Rows wants = cuts.wants(cuts.band()), own = common(cuts.has(cuts.band()), wants);
  if (!bands && own.count() < wants.count()) std::memset(c.outs[0].data, 0, size_t(images * y.height * y.row_bytes));
  if (own.count() > 0)
    for (int64_t b = 0; b < images; b++) std::memcpy(y.at(b, own.from), x.at(b, own.from), size_t(own.count() * x.row_bytes));
  bool all_alone = true;
  for (uint32_t r = 0; r < cuts.bands(); r++) all_alone = all_alone && cuts.alone(r);
  if (!bands || all_alone) return;
  std::vector<Parcel> takes;
  for (uint32_t r = 0; r < cuts.bands() && !cuts.alone(cuts.band()); r++)
    if (const Rows rows = common(cuts.has(r), wants); r != cuts.band() && rows.count() > 0)
      for (int64_t b = 0; b < images; b++) takes.push_back({bands.rank(r), y.at(b, rows.from), uint64_t(rows.count() * y.row_bytes)});
  trade(bands, sent(bands, cuts, x, images, [&](uint32_t r) { return cuts.alone(r); }), takes);
}

/// y = the sum of what the ranks have of its rows, each addition in Wide; `scratch`: sum_rows_scratch() elements of T.
template <class Wide, class T>
void sum_rows(const Group& bands, const KernelCall& c, T* scratch) {
  const Cuts cuts(c);
  const int64_t images = c.ins[0].dims[0], row = row_elements(c.ins[0]);
  const Placed x = placed(c.ins[0], sizeof(T)), y = placed(c.outs[0], sizeof(T));
  const Rows wants = cuts.wants(cuts.band());
  std::vector<Parcel> takes;
  if (bands) {
    T* at = scratch;
    for (uint32_t r = 0; r < cuts.bands(); r++)
      if (const Rows rows = common(cuts.has(r), wants); r != cuts.band() && rows.count() > 0)
        for (int64_t b = 0; b < images; b++, at += rows.count() * row)
          takes.push_back({bands.rank(r), at, uint64_t(rows.count() * row) * sizeof(T)});
    trade(bands, sent(bands, cuts, x, images, [](uint32_t) { return false; }), takes);
  }
  T* const sum = static_cast<T*>(c.outs[0].data);
  const int64_t elements = images * y.height * row;
  for (int64_t i = 0; i < elements; i++) sum[i] = T(Wide(0));
  const T* at = scratch;
  for (uint32_t r = 0; r < cuts.bands(); r++) {
    const Rows rows = common(cuts.has(r), wants);
    const bool is_own = r == cuts.band();
    if (rows.count() == 0 || (!is_own && !bands)) continue;
    const int64_t n = rows.count() * row;
    for (int64_t b = 0; b < images; b++) {
      const T* const from = is_own ? reinterpret_cast<const T*>(x.at(b, rows.from)) : at;
      T* const to = reinterpret_cast<T*>(y.at(b, rows.from));
      if (!is_own) at += n;
      for (int64_t i = 0; i < n; i++) to[i] = T(Wide(to[i]) + Wide(from[i]));
    }
  }
}

}  // namespace spillway::ops
