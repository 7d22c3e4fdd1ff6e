// The weight gradient of grouped and depthwise convolutions. In: x and dy, floats or bf16, packed as by grouped.hpp. Out: dw. The sums of
// some weights stay in registers along the rows of a tile. They are floats over few pixels, then double. Invariant: the parts of the work
// depend on the shape only and are added in order: the same bits for any number of threads.
#pragma once
#include "cpu/grouped.hpp"

namespace spillway::cpu::grouped {

/// Rows of results, and a row's pixels, whose products are added.
struct Pixels {
  const float* x;
  const float* dy;
  int64_t rows, pixels;
  int64_t x_row, x_step, x_tap_row, x_tap;  // floats from a row or pixel of dy to the next, and from a tap's
  int64_t dy_row, dy_step;
};

/// sums[row of taps][tap][channel][vector] += Σ x·dy; `sums` has the steps of the weights.
struct SumSteps {
  int64_t row, tap, channel;
};
template <int R, int C, int I, int V, bool spread>
void add_products(const Pixels& of, float* sums, SumSteps step) {
  Lanes total[R][C][I][V];
  const auto each = [&](const auto& f) {
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)
#pragma GCC unroll 8
      for (int c = 0; c < C; c++)
#pragma GCC unroll 24
        for (int i = 0; i < I; i++)
#pragma GCC unroll 4
          for (int v = 0; v < V; v++) f(total[r][c][i][v], sums + r * step.row + c * step.tap + i * step.channel + v * width);
  };
  each([](Lanes& held, const float* at) { held = load_lanes(at); });
  for (int64_t row = 0; row < of.rows; row++) {
    const float* x = of.x + row * of.x_row;
    const float* dy = of.dy + row * of.dy_row;
    for (int64_t p = 0; p < of.pixels; p++, x += of.x_step, dy += of.dy_step) {
      Lanes right[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) right[v] = load_lanes(dy + v * width);
#pragma GCC unroll 8
      for (int r = 0; r < R; r++)
#pragma GCC unroll 8
        for (int c = 0; c < C; c++) {
          const float* const left = x + r * of.x_tap_row + c * of.x_tap;
#pragma GCC unroll 24
          for (int i = 0; i < I; i++)
#pragma GCC unroll 4
            for (int v = 0; v < V; v++)
              if constexpr (spread)
                total[r][c][i][v] += load_lanes(left + i * width) * right[v];
              else
                total[r][c][i][v] += left[i] * right[v];
        }
    }
  }
  each([](const Lanes& held, float* at) { store_lanes(at, held); });
}

using AddProducts = void (*)(const Pixels&, float*, SumSteps);
/// Sums that are added at once.
struct Sums {
  int64_t rows = 1, columns = 1, channels = 1;
  AddProducts add = nullptr;
};

template <int V>
Sums sums_of_vectors(int64_t channels) {
  Sums found;
  const auto attempt = [&]<int I>() {
    if constexpr (I * V <= sums_at_once)
      if (channels % I == 0) found = {1, 1, I, add_products<1, 1, I, V, false>};
  };
  attempt.template operator()<1>();
  attempt.template operator()<2>();
  attempt.template operator()<3>();
  attempt.template operator()<4>();
  attempt.template operator()<6>();
  attempt.template operator()<8>();
  attempt.template operator()<12>();
  return found;
}
inline Sums sums_of(const Teams& t, int64_t vectors, int64_t rows, int64_t columns) {
  if (!t.spread())
    return vectors == 1 ? sums_of_vectors<1>(t.read) : vectors == 2 ? sums_of_vectors<2>(t.read) : sums_of_vectors<3>(t.read);
  if (t.read == 1) {
    if (rows % 3 == 0 && columns % 3 == 0) return {3, 3, 1, add_products<3, 3, 1, 1, true>};
    if (columns % 5 == 0) return {1, 5, 1, add_products<1, 5, 1, 1, true>};
    if (columns % 7 == 0) return {1, 7, 1, add_products<1, 7, 1, 1, true>};
    return {1, 1, 1, add_products<1, 1, 1, 1, true>};
  }
  if (t.read == 2) return columns % 3 == 0 ? Sums{1, 3, 2, add_products<1, 3, 2, 1, true>} : Sums{1, 1, 2, add_products<1, 1, 2, 1, true>};
  if (t.read == 4) return columns % 3 == 0 ? Sums{1, 3, 4, add_products<1, 3, 4, 1, true>} : Sums{1, 1, 4, add_products<1, 1, 4, 1, true>};
  return {1, 1, 8, add_products<1, 1, 8, 1, true>};
}

/// Tiles are parts of the work for sixteen threads. Floats take `pixels_at_once` products before they are added to doubles.
class WeightGradient {
 public:
  static constexpr int64_t pixels_at_once = 4096;

  explicit WeightGradient(const ops::Conv2d& g)
      : taps_(g.window.h.kernel * g.window.w.kernel),
        teams_(g.groups, g.group_in(), g.group_out()),
        some_(teams_at_once(teams_)),
        rows_(Axis::towards_y(g.window.h), Axis::towards_y(g.window.w), g.batch, some_ * (teams_.left() + teams_.lanes())),
        parts_(std::min(rows_.tiles(), over(16, over(teams_.count(), some_)))) {}

  int64_t workspace_bytes() const {
    return parts_ * total() * int64_t(sizeof(double)) + use_threads() * scratch_floats() * int64_t(sizeof(float));
  }

  void run(const View& x, const View& dy, float* dw, void* workspace) const {
    double* const totals = static_cast<double*>(workspace);
    float* const scratch = reinterpret_cast<float*>(totals + parts_ * total());
    with_element(x, [&](auto element) { run_as<decltype(element)>(x, dy, totals, scratch); });
    give(totals, dw);
  }

 private:
  int64_t team_floats() const { return taps_ * teams_.read * teams_.lanes(); }
  int64_t total() const { return teams_.count() * team_floats(); }
  int64_t x_floats() const { return some_ * rows_.tile_rows * rows_.columns * teams_.left(); }
  int64_t dy_floats() const { return some_ * rows_.rows * rows_.w.results * teams_.lanes(); }
  int64_t scratch_floats() const { return rounded_up(x_floats() + dy_floats() + some_ * team_floats(), 16); }

  template <class T>
  void run_as(const View& x, const View& dy, double* totals, float* scratch) const {
    const int64_t count = teams_.count();
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t part = 0; part < parts_; part++)
      for (int64_t first = 0; first < count; first += some_) {
        const int64_t some = std::min(some_, count - first);
        float* const own = scratch + omp_get_thread_num() * scratch_floats();
        const Packed<T> read{teams_, first, some, rows_.columns, teams_.left(), own};
        const Packed<T> given{teams_, first, some, rows_.w.results, teams_.lanes(), own + x_floats()};
        add_tiles(x, dy, part, read, given, own + x_floats() + dy_floats(), totals + part * total() + first * team_floats());
      }
  }

  template <class T>
  void add_tiles(const View& x, const View& dy, int64_t part, const Packed<T>& read, const Packed<T>& given, float* sums,
                 double* totals) const {
    const int64_t tiles = rows_.tiles(), chunks = rows_.chunks(), end = (part + 1) * tiles / parts_, size = read.some * team_floats();
    std::fill_n(totals, size, 0.0);
    std::fill_n(sums, size, 0.0f);
    int64_t pixels = 0;
    for (int64_t tile = part * tiles / parts_; tile < end; tile++) {
      const int64_t image = tile / chunks, from = tile % chunks * rows_.rows, to = std::min(rows_.h.results, from + rows_.rows);
      const int64_t first_row = rows_.h.lowest(from), rows = rows_.h.highest(to) - first_row + 1;
      read.fill(x, image, first_row, rows, rows_.w.lowest(0), true);
      given.fill(dy, image, from, to - from, 0, false);
      for (int64_t team = 0; team < read.some; team++)
        add_team(read, read.data + team * rows * read.row_floats(), first_row, given, given.data + team * (to - from) * given.row_floats(),
                 from, to, sums + team * team_floats());
      pixels += (to - from) * rows_.w.results;
      if (pixels < pixels_at_once && tile + 1 < end) continue;
      for (int64_t i = 0; i < size; i++) totals[i] += double(sums[i]);
      std::fill_n(sums, size, 0.0f);
      pixels = 0;
    }
  }

  template <class T>
  void add_team(const Packed<T>& read, const float* x, int64_t first_row, const Packed<T>& given, const float* dy, int64_t from, int64_t to,
                float* sums) const {
    const auto& [h, w, batch, tile_rows, columns, rows] = rows_;
    const int64_t left = teams_.left(), lanes = teams_.lanes(), vectors = teams_.vectors(), chunks = over(vectors, most_vectors);
    const SumSteps steps{w.kernel * teams_.read * lanes, teams_.read * lanes, lanes};
    for (int64_t chunk = 0; chunk < chunks; chunk++) {
      const int64_t v = chunk * vectors / chunks, end = (chunk + 1) * vectors / chunks;
      const Sums block = sums_of(teams_, end - v, h.kernel, w.kernel);
      for (int64_t ky = 0; ky < h.kernel; ky += block.rows) {
        // Rows of dy for which one of these rows of the window lies in x.
        int64_t first = from, last = to;
        while (first < last && h.place(first, ky + block.rows - 1) < 0) first++;
        while (first < last && h.place(last - 1, ky) >= h.reads) last--;
        for (int64_t kx = 0; kx < w.kernel; kx += block.columns)
          for (int64_t i = 0; i < teams_.read; i += block.channels) {
            const int64_t at = (h.place(first, ky) - first_row) * columns + w.place(0, kx) - w.lowest(0);
            block.add(
                {x + at * left + i * (teams_.spread() ? width : 1), dy + (first - from) * given.row_floats() + v * width, last - first,
                 w.results, h.step * read.row_floats(), w.step * left, h.tap * read.row_floats(), w.tap * left, given.row_floats(), lanes},
                sums + ky * steps.row + kx * steps.tap + i * steps.channel + v * width, steps);
          }
      }
    }
  }

  /// Adds the parts in order, and puts the sums into [O][C/groups][tap].
  void give(double* totals, float* dw) const {
    const int64_t read = teams_.read, written = teams_.written, lanes = teams_.lanes();
#pragma omp parallel for schedule(static)
    for (int64_t team = 0; team < teams_.count(); team++) {
      double* const sums = totals + team * team_floats();
      for (int64_t part = 1; part < parts_; part++)
        for (int64_t i = 0; i < team_floats(); i++) sums[i] += totals[part * total() + team * team_floats() + i];
      for (int64_t lane = 0; lane < teams_.held(team) * written; lane++)
        for (int64_t i = 0; i < read; i++)
          for (int64_t tap = 0; tap < taps_; tap++)
            dw[((team * teams_.groups * written + lane) * read + i) * taps_ + tap] = float(sums[(tap * read + i) * lanes + lane]);
    }
  }

  int64_t taps_;
  Teams teams_;
  int64_t some_;
  Rows rows_;
  int64_t parts_;
};

}  // namespace spillway::cpu::grouped
