// Products of runs of live pixels with panels of 32 channels. Activations are read in place; weights are laid out in panels before.
#include "cpu/live.hpp"

#include <array>
#include <span>

#include "cpu/outside.hpp"
#include "cpu/runs.hpp"
#include "cpu/tile_product.hpp"
#include "cpu/zeros.hpp"

namespace spillway::cpu::live {
namespace {

/// Pixels of a run; rows and columns that are searched for runs at once; those that their windows cover at most. Several rows share the
/// weights of a panel while these are in a cache.
constexpr int64_t most_pixels = 4 * most_rows, band_rows = 4, most_columns = 128, most_covered_rows = 64, most_covered_columns = 1024;

/// Places from `from` to before `to`.
struct Range {
  int64_t from, to;
};

/// One axis between a written side and a read side. `turned`: the data gradient, from y to x.
struct Axis {
  int64_t first, stride, dilation, taps, read, written;
  bool turned;

  /// Columns that are written with the same taps are this far apart; those that are read then are `read_step` apart.
  int64_t step() const { return turned ? stride : 1; }
  int64_t read_step() const { return turned ? 1 : stride; }
  /// The read place of a written one, inside of the image or not; false if the tap joins none.
  bool joins(int64_t written_at, int64_t tap, int64_t& at) const {
    if (!turned) {
      at = first + written_at * stride + tap * dilation;
      return true;
    }
    const int64_t from = written_at - first - tap * dilation;
    at = from / stride;
    return from % stride == 0;
  }
  bool holds(int64_t at) const { return at >= 0 && at < read; }
  /// The read places that `count` written ones meet, from `at` on.
  Range covered(int64_t at, int64_t count) const {
    const int64_t last = at + count - 1, reach = (taps - 1) * dilation;
    const int64_t lo = turned ? (at - first - reach) / stride - 1 : first + at * stride;
    const int64_t hi = turned ? (last - first) / stride + 1 : first + last * stride + reach + 1;
    const int64_t from = std::clamp<int64_t>(lo, 0, read);
    return {from, std::clamp<int64_t>(hi, from, read)};
  }
};

Axis axis_of(const ops::WindowAxis& a, bool turned) {
  return {a.start(a.out_lo) - a.in_lo,     a.stride, a.dilation, a.kernel, turned ? a.out_size : a.in_size,
          turned ? a.in_size : a.out_size, turned};
}

/// Both axes and the numbers of channels; the weights' own order is [O,C,taps].
struct Shape {
  Axis rows, columns;
  int64_t batch, read, written;
  int64_t taps() const { return rows.taps * columns.taps; }
  int64_t panels() const { return over(written, panel_width); }
  int64_t panel_floats() const { return taps() * read * panel_width; }
  /// All panels are of 32 channels, but the last one is of 16 if that is enough.
  int64_t width(int64_t panel) const { return written - panel * panel_width > block_width ? panel_width : block_width; }
  int64_t floats() const { return taps() * read * rounded_up(written, block_width); }
};

Shape shape_of(const ops::Conv2d& g, bool turned) {
  return {axis_of(g.window.h, turned), axis_of(g.window.w, turned), g.batch, turned ? g.out_channels : g.in_channels,
          turned ? g.in_channels : g.out_channels};
}

/// c += a·b: `rows` of c and b are `blocks` wide, without gaps; a by the steps of its rows and terms.
template <int rows, int blocks>
void add_rows(const float* a, int64_t row_step, int64_t term_step, const float* b, float* c, int64_t terms) {
  constexpr int at_once = std::min(blocks, panel_blocks_at_once);
  constexpr int64_t width = blocks * block_width;
  for (int64_t at = 0; at < width; at += at_once * block_width) {
    Block sum[rows][at_once];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
      for (int j = 0; j < at_once; j++) sum[r][j] = load_block(c + r * width + at + j * block_width);
    for (int64_t k = 0; k < terms; k++) {
      Block right[at_once];
#pragma GCC unroll 2
      for (int j = 0; j < at_once; j++) right[j] = load_block(b + k * width + at + j * block_width);
#pragma GCC unroll 16
      for (int r = 0; r < rows; r++) {
        const float left = a[r * row_step + k * term_step];
#pragma GCC unroll 2
        for (int j = 0; j < at_once; j++) sum[r][j] += left * right[j];
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
      for (int j = 0; j < at_once; j++) store_block(c + r * width + at + j * block_width, sum[r][j]);
  }
}

using AddRows = void (*)(const float*, int64_t, int64_t, const float*, float*, int64_t);
/// By number of rows.
template <int blocks>
constexpr auto add_rows_table = []<size_t... rows>(std::index_sequence<rows...>) {
  return std::array<AddRows, sizeof...(rows)>{add_rows<int(rows) + 1, blocks>...};
}(std::make_index_sequence<most_rows>());

void add_product(int64_t width, const float* a, int64_t row_step, int64_t term_step, int64_t rows, const float* b, float* c,
                 int64_t terms) {
  const auto& table = width == panel_width ? add_rows_table<2> : add_rows_table<1>;
  for (int64_t row = 0; row < rows; row += most_rows)
    table[size_t(std::min<int64_t>(most_rows, rows - row) - 1)](a + row * row_step, row_step, term_step, b, c + row * width, terms);
}

/// The taps of one row of the window, for pixels of a run: body(read column of the first pixel, first pixel, pixels, first tap, taps). All
/// taps are one if they lie side by side and inside of the image.
template <class Body>
void each_tap(const Axis& columns, int64_t first, int64_t pixels, const Body& body) {
  int64_t at = 0;
  const int64_t last = (pixels - 1) * columns.read_step();
  const bool side_by_side = !columns.turned && columns.dilation == 1 && columns.joins(first, 0, at);
  if (side_by_side && at >= 0 && columns.holds(at + last + columns.taps - 1)) return body(at, int64_t(0), pixels, int64_t(0), columns.taps);
  for (int64_t tap = 0; tap < columns.taps; tap++) {
    if (!columns.joins(first, tap, at)) continue;
    const int64_t step = columns.read_step(), from = at < 0 ? over(-at, step) : 0;
    const int64_t to = std::min(pixels, at < columns.read ? over(columns.read - at, step) : 0);
    if (from < to) body(at + from * step, from, to - from, tap, int64_t(1));
  }
}

/// Columns of one row from `first` on, and which of them are live.
struct Found {
  int64_t first, count;
  std::array<bool, most_columns> live;
  OutsideRow is_outside{nullptr, 0};
};

/// Calls body(first column, pixels) for runs of live columns whose taps agree.
template <class Body>
void each_live_run(const Found& found, int64_t step, int64_t most, const Body& body) {
  for (int64_t phase = 0; phase < std::min(step, found.count); phase++)
    for (int64_t at = phase; at < found.count;) {
      int64_t pixels = 0;
      while (pixels < most && at + pixels * step < found.count && found.live[size_t(at + pixels * step)]) pixels++;
      if (pixels > 0) body(found.first + at, pixels);
      at += std::max<int64_t>(pixels, 1) * step;
    }
}

/// The columns of some written rows, from `row` on, whose windows hold numbers that are not 0.
void find_live(const Shape& s, const View& read, int64_t image, int64_t row, std::span<Found> found) {
  const Range rows = s.rows.covered(row, int64_t(found.size())), columns = s.columns.covered(found[0].first, found[0].count);
  std::array<std::array<bool, most_covered_columns>, most_covered_rows> held;
  for (int64_t at = rows.from; at < rows.to; at++)
    for (int64_t column = columns.from; column < columns.to; column++)
      held[size_t(at - rows.from)][size_t(column - columns.from)] = !all_zero(pixel_of(read, image, at, column), s.read);
  for (Found& of_row : found) {
    std::array<bool, most_covered_columns> any{};
    for (int64_t tap = 0, at = 0; tap < s.rows.taps; tap++)
      if (s.rows.joins(row, tap, at) && s.rows.holds(at))
        for (int64_t i = 0; i < columns.to - columns.from; i++) any[size_t(i)] |= held[size_t(at - rows.from)][size_t(i)];
    for (int64_t i = 0; i < of_row.count; i++) {
      bool live = false;
      for (int64_t tap = 0, at = 0; tap < s.columns.taps && !live; tap++)
        live = s.columns.joins(of_row.first + i, tap, at) && at >= columns.from && at < columns.to && any[size_t(at - columns.from)];
      of_row.live[size_t(i)] = live;
    }
    row++;
  }
}

/// The columns of some written rows, from `row` on, inside of a mask: all of them count as live.
void find_inside(const Shape& s, const Outside& outside, int64_t image, int64_t row, std::span<Found> found) {
  for (Found& of_row : found) {
    of_row.is_outside = OutsideRow(&outside, image * s.rows.written + row++);
    for (int64_t i = 0; i < of_row.count; i++) of_row.live[size_t(i)] = !of_row.is_outside(of_row.first + i);
  }
}

/// Weights as [panel of written channels][tap][read channel][lane]; those of channels that are not there are 0.
void lay_panels(const Shape& s, const float* weights, float* panels) {
  const int64_t outer = s.rows.turned ? s.taps() : s.read * s.taps(), inner = s.rows.turned ? s.written * s.taps() : s.taps();
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t panel = 0; panel < s.panels(); panel++)
    for (int64_t channel = 0; channel < s.read; channel++)
      for (int64_t lane = 0; lane < s.width(panel); lane++) {
        const int64_t written = panel * panel_width + lane, width = s.width(panel);
        float* const to = panels + panel * s.panel_floats() + channel * width + lane;
        const float* const from = weights + written * outer + channel * inner;
        for (int64_t tap = 0; tap < s.taps(); tap++) to[tap * s.read * width] = written < s.written ? from[tap] : 0.0f;
      }
}

/// The operands of a convolution between activations; the weights lie in panels.
struct Operands {
  const View &read, &written;
  const float *panels, *bias;
  const Outside* outside;
};

/// One panel of the found columns of a row.
void write_row(const Shape& s, const Operands& o, int64_t panel, int64_t image, int64_t row, Found& found) {
  const int64_t width = s.width(panel), first_channel = panel * panel_width, channels = std::min(width, s.written - first_channel);
  const float* const weights = o.panels + panel * s.panel_floats();
  const auto to = [&](int64_t column) { return pixel_of(o.written, image, row, column) + first_channel; };
  alignas(64) float level[panel_width] = {};
  if (o.bias) std::copy_n(o.bias + first_channel, channels, level);
  for (int64_t i = 0; i < found.count; i++) {
    if (found.is_outside(found.first + i))
      clear_elements(to(found.first + i), channels);
    else if (!found.live[size_t(i)])
      std::copy_n(level, channels, to(found.first + i));
  }
  end_stream();
  each_live_run(found, s.columns.step(), most_pixels, [&](int64_t first, int64_t pixels) {
    alignas(64) float sums[most_pixels * panel_width];
    for (int64_t i = 0; i < pixels; i++) std::copy_n(level, width, sums + i * width);
    for (int64_t tap_row = 0, at_row = 0; tap_row < s.rows.taps; tap_row++)
      if (s.rows.joins(row, tap_row, at_row) && s.rows.holds(at_row))
        each_tap(s.columns, first, pixels, [&](int64_t at, int64_t from, int64_t count, int64_t tap, int64_t taps) {
          add_product(width, pixel_of(o.read, image, at_row, at), s.columns.read_step() * s.read, 1, count,
                      weights + (tap_row * s.columns.taps + tap) * s.read * width, sums + from * width, taps * s.read);
        });
    for (int64_t i = 0; i < pixels; i++) std::copy_n(sums + i * width, channels, to(first + i * s.columns.step()));
  });
}

/// All panels of a part of some rows. Returns the number of skipped pixels.
int64_t write_part(const Shape& s, const Operands& o, int64_t image, int64_t row, int64_t column) {
  std::array<Found, band_rows> rows;
  const std::span<Found> found(rows.data(), size_t(std::min(band_rows, s.rows.written - row)));
  for (Found& of_row : found) {
    of_row.first = column;
    of_row.count = std::min(most_columns, s.columns.written - column);
  }
  if (o.outside)
    find_inside(s, *o.outside, image, row, found);
  else
    find_live(s, o.read, image, row, found);
  for (int64_t panel = 0; panel < s.panels(); panel++)
    for (size_t i = 0; i < found.size(); i++) write_row(s, o, panel, image, row + int64_t(i), found[i]);
  int64_t skipped = 0;
  for (const Found& of_row : found) skipped += std::count(of_row.live.begin(), of_row.live.begin() + of_row.count, false);
  return skipped;
}

double convolve(const Shape& s, const View& read, const float* weights, const float* bias, const View& written, void* scratch,
                const Outside* outside) {
  float* const panels = static_cast<float*>(scratch);
  lay_panels(s, weights, panels);
  const Operands operands{read, written, panels, bias, outside};
  int64_t skipped = 0;
#pragma omp parallel for schedule(dynamic) collapse(3) reduction(+ : skipped)
  for (int64_t image = 0; image < s.batch; image++)
    for (int64_t row = 0; row < s.rows.written; row += band_rows)
      for (int64_t column = 0; column < s.columns.written; column += most_columns) skipped += write_part(s, operands, image, row, column);
  return double(skipped) / double(s.batch * s.rows.written * s.columns.written);
}

/// The sums of one panel of dy and some rows of the window, over all live pixels of dy. Returns the number of the others.
int64_t sum_panel(const Shape& s, const View& x, const View& dy, int64_t number, Range tap_rows, const Outside* outside, float* panels) {
  const int64_t width = s.width(number), first_channel = number * panel_width;
  const int64_t channels = std::min(width, s.written - first_channel), rows = s.batch * s.rows.written;
  const int64_t row_floats = s.columns.taps * s.read * width;
  float* const sums = panels + number * s.panel_floats();
  std::fill(sums + tap_rows.from * row_floats, sums + tap_rows.to * row_floats, 0.0f);
  int64_t skipped = 0;
  Found found;
  for (int64_t i = 0; i < rows; i++) {
    const int64_t image = i / s.rows.written, row = i % s.rows.written;
    OutsideRow is_outside(outside, i);
    const auto gradient = [&](int64_t column) { return pixel_of(dy, image, row, column) + first_channel; };
    for (found.first = 0; found.first < s.columns.written; found.first += most_columns) {
      found.count = std::min(most_columns, s.columns.written - found.first);
      for (int64_t column = 0; column < found.count; column++) {
        found.live[size_t(column)] = !is_outside(found.first + column) && !all_zero(gradient(found.first + column), channels);
        skipped += !found.live[size_t(column)];
      }
      each_live_run(found, 1, most_columns, [&](int64_t first, int64_t pixels) {
        alignas(64) float panel[most_columns * panel_width];
        if (channels < width) std::fill_n(panel, pixels * width, 0.0f);
        for (int64_t p = 0; p < pixels; p++) std::copy_n(gradient(first + p), channels, panel + p * width);
        for (int64_t tap_row = tap_rows.from, at_row = 0; tap_row < tap_rows.to; tap_row++)
          if (s.rows.joins(row, tap_row, at_row) && s.rows.holds(at_row))
            each_tap(s.columns, first, pixels, [&](int64_t at, int64_t from, int64_t count, int64_t tap, int64_t taps) {
              add_product(width, pixel_of(x, image, at_row, at), 1, s.columns.read_step() * s.read, taps * s.read, panel + from * width,
                          sums + tap_row * row_floats + tap * s.read * width, count);
            });
      });
    }
  }
  return skipped;
}

/// The bias's gradient: sums of dy in double.
void sum_gradients(const View& dy, float* db) {
#pragma omp parallel for schedule(static)
  for (int64_t first = 0; first < dy.dims[1]; first += block_width) {
    const int64_t channels = std::min(block_width, dy.dims[1] - first);
    double sums[block_width] = {};
    for (int64_t i = 0; i < ops::pixels(dy); i++) {
      const float* const from = floats(dy) + i * dy.dims[1] + first;
      for (int64_t ch = 0; ch < channels; ch++) sums[ch] += double(from[ch]);
    }
    for (int64_t ch = 0; ch < channels; ch++) db[first + ch] = float(sums[ch]);
  }
}

}  // namespace

int64_t bytes(const ops::Conv2d& g, bool turned) {
  const auto fits = [](const ops::WindowAxis& a, int64_t written, int64_t covered) {
    return (written - 1) * a.stride + a.reach() + 2 <= covered;
  };
  const auto& [h, w] = g.window;
  if (g.groups != 1 || !fits(h, band_rows, most_covered_rows) || !fits(w, most_columns, most_covered_columns)) return 0;
  return shape_of(g, turned).floats() * int64_t(sizeof(float));
}

double forward(const ops::Conv2d& g, const KernelCall& c) {
  return convolve(shape_of(g, false), c.ins[0], floats(c.ins[1]), c.n_ins > 2 ? floats(c.ins[2]) : nullptr, c.outs[0], c.workspace,
                  masked_pixels(c));
}

double backward_data(const ops::Conv2d& g, const KernelCall& c) {
  return convolve(shape_of(g, true), c.ins[0], floats(c.ins[1]), nullptr, c.outs[0], c.workspace, masked_pixels(c));
}

double backward_weights(const ops::Conv2d& g, const KernelCall& c) {
  const Shape s = shape_of(g, false);
  float* const sums = static_cast<float*>(c.workspace);
  // One task for a panel, or up to three if threads would wait: each reads all of dy.
  const int64_t tap_rows = over(s.rows.taps, std::min<int64_t>(3, over(use_threads(), s.panels())));
  int64_t skipped = 0;
#pragma omp parallel for schedule(dynamic) collapse(2) reduction(+ : skipped)
  for (int64_t panel = 0; panel < s.panels(); panel++)
    for (int64_t tap_row = 0; tap_row < s.rows.taps; tap_row += tap_rows)
      skipped += sum_panel(s, c.ins[0], c.ins[1], panel, {tap_row, std::min(s.rows.taps, tap_row + tap_rows)}, masked_pixels(c), sums);
#pragma omp parallel for schedule(static)
  for (int64_t written = 0; written < s.written; written++)
    for (int64_t channel = 0; channel < s.read; channel++)
      for (int64_t tap = 0; tap < s.taps(); tap++)
        floats(c.outs[0])[(written * s.read + channel) * s.taps() + tap] =
            sums[written / panel_width * s.panel_floats() + (tap * s.read + channel) * s.width(written / panel_width) +
                 written % panel_width];
  if (c.n_outs > 1) sum_gradients(c.ins[1], floats(c.outs[1]));
  return double(skipped) / double(s.panels() * over(s.rows.taps, tap_rows) * s.batch * s.rows.written * s.columns.written);
}

}  // namespace spillway::cpu::live
