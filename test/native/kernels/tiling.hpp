// An operator on a random grid of boxes of its iteration space, on slices by the op table, its outputs added together: the sum must equal
// one untiled call.
#pragma once
#include <map>

#include "test/native/kernels/comparing.hpp"
#include "test/native/kernels/report.hpp"
#include "test/native/kernels/windows.hpp"

namespace spillway::test {

/// Cuts [0, extent) into at most three pieces at random places.
inline std::vector<std::pair<int64_t, int64_t>> cut(Random& r, int64_t extent) {
  std::vector<int64_t> at{0, extent};
  for (int64_t i = r.between(0, 2); i > 0; i--) at.push_back(r.between(0, extent));
  std::sort(at.begin(), at.end());
  std::vector<std::pair<int64_t, int64_t>> pieces;
  for (size_t i = 0; i + 1 < at.size(); i++)
    if (at[i] < at[i + 1]) pieces.push_back({at[i], at[i + 1]});
  return pieces;
}

using Pieces = std::vector<std::pair<int64_t, int64_t>>;
/// `by_rows`: rows and columns are cut, too.
inline std::vector<Box> grid(Random& r, const Dims& d, bool by_rows = true) {
  std::vector<Box> boxes;
  const auto images = cut(r, d[0]), rows = by_rows ? cut(r, d[2]) : Pieces{{0, d[2]}}, columns = by_rows ? cut(r, d[3]) : Pieces{{0, d[3]}};
  for (const auto& [b0, b1] : images)
    for (const auto& [h0, h1] : rows)
      for (const auto& [w0, w1] : columns) boxes.push_back({{b0, 0, h0, w0}, {b1 - b0, d[1], h1 - h0, w1 - w0}});
  return boxes;
}

/// The box of an operand that an iteration box touches, and up to `margin` rows and columns more on each side.
inline Box touched(const Call& call, const Operand& operand, const Box& iteration, int64_t margin) {
  const Dims& d = operand.value.dims;
  if (!operand.tensor || operand.laid) return whole(d);
  Box box = whole(d);
  box.lo[0] = iteration.lo[0];
  box.size[0] = iteration.size[0];
  for (int axis = 0; axis < 2 && operand.spatial != Reach::all; axis++) {
    const WindowShape& s = call.window;
    int64_t lo = iteration.lo[2 + axis], hi = lo + iteration.size[2 + axis];
    if (operand.spatial == Reach::window) {
      hi = (hi - 1) * s.stride[axis] - s.pad[axis] + reach(s, axis);
      lo = lo * s.stride[axis] - s.pad[axis];
      if (hi <= 0 || lo >= d[2 + axis]) return {{0, 0, 0, 0}, {0, 0, 0, 0}};
      hi = std::min(d[2 + axis], hi + margin);
      lo = std::max<int64_t>(0, lo - margin);
    } else if (operand.spatial == Reach::met) {
      const auto [first, last] = call.meets(axis, lo, hi);
      const int64_t more = call.dense ? 0 : margin;
      lo = std::max<int64_t>(0, first - more);
      hi = std::min(d[2 + axis], last + 1 + more);
    }
    box.lo[2 + axis] = lo;
    box.size[2 + axis] = hi - lo;
  }
  return box;
}

inline bool empty(const Box& box) {
  return std::any_of(box.size.begin(), box.size.end(), [](int64_t n) { return n <= 0; });
}

/// Statistics merge by Chan's rule: those of the batch as a whole, those of images by the images of a tile.
class Moments {
 public:
  static bool are_made_by(const Call& call) { return call.kind == OpKind::bn_stats || call.kind == OpKind::group_norm_stats; }

  void merge(const Call& call, const Setting& setting, const Box& tile, const Box& box, const Array& part, Array& whole) {
    const bool of_batch = call.kind == OpKind::bn_stats;
    double& merged = merged_[of_batch ? 0 : tile.lo[0]];
    const double elements = double(count_of(tile.size)) * 4 / double(count_of(part.dims));
    Array sofar(part.dims);
    each_place(box, [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      sofar.at(b - box.lo[0], c - box.lo[1], h - box.lo[2], w - box.lo[3]) = whole.at(b, c, h, w);
    });
    const auto operand = [&](const Array& a) { return of_batch ? parameter(a, 2) : tensor(a); };
    const Call merging{OpKind::merge_moments, {elements, merged}, {operand(part)}, {operand(sofar)}};
    const Array sum = run_whole(merging, setting)[0];
    each_place(box, [&](int64_t b, int64_t c, int64_t h, int64_t w) {
      whole.at(b, c, h, w) = sum.at(b - box.lo[0], c - box.lo[1], h - box.lo[2], w - box.lo[3]);
    });
    merged += elements;
  }

 private:
  std::map<int64_t, double> merged_;  // by first image
};

/// Runs the call tile by tile; statistics merge by merge_moments, everything else by addition.
inline std::vector<Array> run_tiled(const Call& call, const Setting& setting, Random& r) {
  const int64_t margin = r.pick<int64_t>({0, 0, 1, 4});
  std::vector<Array> sums;
  for (const Operand& out : call.outs) sums.push_back(Array(out.value.dims));
  Moments moments;
  const Operand& anchor = call.operand(call.anchor);
  for (const Box& tile : grid(r, anchor.value.dims, anchor.spatial != Reach::all)) {
    std::vector<Box> boxes;
    for (size_t i = 0; i < call.operands(); i++) boxes.push_back(touched(call, call.operand(i), tile, margin));
    // A window that lies wholly in the padding reads nothing: no tile can consist of it alone.
    if (std::any_of(boxes.begin(), boxes.end(), empty)) throw std::out_of_range("empty slice");
    const std::vector<Array> parts = run_on(call, setting, boxes);
    for (size_t i = 0; i < parts.size(); i++) {
      const Box& box = boxes[call.ins.size() + i];
      if (Moments::are_made_by(call))
        moments.merge(call, setting, tile, box, parts[i], sums[i]);
      else
        add_box(sums[i], box, parts[i]);
    }
  }
  return sums;
}

inline void compare_tiled(Report& report, const Call& call, const Setting& setting, double tolerance, Random& r) {
  try {
    const std::vector<Array> tiled = run_tiled(call, setting, r), expected = reference(call, setting.dtype);
    const std::vector<double> sizes = sizes_held(call, setting);
    for (size_t i = 0; i < expected.size(); i++) {
      const double error = error_of(tiled[i], expected[i], sizes, i);
      report.check(error <= tolerance,
                   name_of(call) + " in tiles, output " + std::to_string(i) + ": relative error " + std::to_string(error));
    }
  } catch (const std::out_of_range&) {
  } catch (const Failure& e) {
    report.check(false, name_of(call) + " in tiles: " + e.what());
  }
}

/// Calls on parameters alone, and calls that update their input, do not tile.
inline bool tiles(const Call& call) { return !call.outs.empty() && call.operand(call.anchor).tensor && call.kind != OpKind::merge_sum; }

}  // namespace spillway::test
