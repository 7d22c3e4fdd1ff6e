// Grouped and depthwise convolutions between activations. In: a call that ops/conv2d.hpp has checked, floats or bf16, any padding and any
// slice of an image. Out: y or dx. A tile of the read side is packed as floats, one team of groups after the other, with the padding. The
// results of some pixels stay in registers. Groups with fewer channels than a vector share it: the tile then has each channel once for each
// lane that reads it. Invariant: each pixel adds its terms in the order of the window: the same bits for any tile and number of threads.
// Worked example: 24 channels a group at 8 lanes: 3 vectors of results for 4 pixels are 12 sums; each term is 3 loads and 4 broadcasts.
#pragma once
#include <omp.h>

#include "cpu/stored.hpp"
#include "cpu/tile_product.hpp"
#include "ops/conv2d.hpp"

namespace spillway::cpu::grouped {

#ifdef __AVX512F__
constexpr int64_t width = 16;
constexpr int sums_at_once = 24;
#else
constexpr int64_t width = 8;
constexpr int sums_at_once = 12;
#endif
using Lanes = float __attribute__((vector_size(width * sizeof(float))));

constexpr int64_t most_kernel = 7, most_stride = 4, most_dilation = 16;
inline bool applies(const ops::WindowAxis& a) { return a.kernel <= most_kernel && a.stride <= most_stride && a.dilation <= most_dilation; }
inline bool applies(const ops::Conv2d& g) { return g.groups > 1 && applies(g.window.h) && applies(g.window.w); }

inline Lanes load_lanes(const float* from) {
  Lanes lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
inline void store_lanes(float* to, const Lanes& lanes) { std::memcpy(to, &lanes, sizeof lanes); }
/// The first `count` lanes, in the type of the memory.
template <class T>
void store_some(T* to, const Lanes& lanes, int64_t count) {
  if constexpr (std::is_same_v<T, float>)
    if (count == width) return store_lanes(to, lanes);
  float held[width];
  store_lanes(held, lanes);
  if (count == width)
    for (int64_t i = 0; i < width; i++) to[i] = T(held[i]);
  else
    for (int64_t i = 0; i < count; i++) to[i] = T(held[i]);
}
/// The first `count` channels of a pixel; the others are 0.
template <class T>
Lanes load_some(const T* from, int64_t count) {
  if constexpr (std::is_same_v<T, float>)
    if (count == width) return load_lanes(from);
  float held[width] = {};
  if (count == width)
    for (int64_t i = 0; i < width; i++) held[i] = float(from[i]);
  else
    for (int64_t i = 0; i < count; i++) held[i] = float(from[i]);
  return load_lanes(held);
}

/// Groups that are computed together: one, or as many as fill a vector with results.
struct Teams {
  int64_t all_groups, read, written;  // channels of a group, on either side
  int64_t groups = 1;                 // of a team

  Teams(int64_t all, int64_t reads, int64_t writes) : all_groups(all), read(reads), written(writes) {
    if (read == written && written < width && width % written == 0) groups = width / written;
  }
  /// Each lane has its own group's element of the read side.
  bool spread() const { return groups > 1; }
  int64_t count() const { return over(all_groups, groups); }
  int64_t held(int64_t team) const { return std::min(groups, all_groups - team * groups); }
  int64_t vectors() const { return spread() ? 1 : over(written, width); }
  int64_t lanes() const { return vectors() * width; }
  /// Floats of a pixel in a tile.
  int64_t left() const { return spread() ? read * width : read; }
};
/// Neighbouring channels are packed together, so that whole lines of memory are read.
constexpr int64_t channels_at_once = 64;
inline int64_t teams_at_once(const Teams& t) { return std::min(t.count(), std::max<int64_t>(1, channels_at_once / (t.groups * t.read))); }

/// Position q of the results reads place (q·step + shift + k·tap)/parts with tap k of the window, if that is a whole number.
struct Axis {
  int64_t results, reads, kernel, step, shift, tap, parts;

  static Axis towards_y(const ops::WindowAxis& a) {
    return {a.out_size, a.in_size, a.kernel, a.stride, a.start(a.out_lo) - a.in_lo, a.dilation, 1};
  }
  static Axis towards_x(const ops::WindowAxis& a) {
    return {a.in_size, a.out_size, a.kernel, 1, a.in_lo + a.pad - a.out_lo * a.stride, -a.dilation, a.stride};
  }
  int64_t scaled(int64_t q, int64_t k) const { return q * step + shift + k * tap; }
  bool meets(int64_t q, int64_t k) const { return scaled(q, k) % parts == 0; }
  int64_t place(int64_t q, int64_t k) const {
    const int64_t s = scaled(q, k);
    return s >= 0 ? s / parts : -((-s + parts - 1) / parts);
  }
  bool inside(int64_t at) const { return at >= 0 && at < reads; }
  /// Places that results [from, to) may read, with the padding.
  int64_t lowest(int64_t from) const { return std::min(place(from, 0), place(from, kernel - 1)); }
  int64_t highest(int64_t to) const { return std::max(place(to - 1, 0), place(to - 1, kernel - 1)); }
  int64_t covered(int64_t count) const { return over(count * step + (kernel - 1) * std::abs(tap), parts) + 1; }
};

/// Tiles of whole rows of results.
struct Rows {
  Axis h, w;
  int64_t batch, tile_rows, columns, rows;

  Rows(const Axis& high, const Axis& wide, int64_t images, int64_t pixel_floats)
      : h(high), w(wide), batch(images), columns(w.highest(w.results) - w.lowest(0) + 1) {
    constexpr int64_t tile_floats = 1 << 15;
    const int64_t most = std::max<int64_t>(1, tile_floats / (columns * pixel_floats)), halo = (h.kernel - 1) * std::abs(h.tap);
    const int64_t wanted = std::clamp<int64_t>((most * h.parts - halo) / h.step, 1, h.results);
    rows = over(h.results, over(h.results, wanted));
    tile_rows = h.covered(rows);
  }
  int64_t chunks() const { return over(h.results, rows); }
  int64_t tiles() const { return batch * chunks(); }
};

/// Writes each channel of the groups of a vector to the lanes of its group.
template <int64_t Q, int64_t k, size_t... lane>
Lanes channel_of_groups(const Lanes& x, std::index_sequence<lane...>) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(x, x, (int64_t(lane) / Q * Q + k)...);
#else
  return __builtin_shuffle(x, (int __attribute__((vector_size(sizeof(Lanes))))){(int(lane) / int(Q) * int(Q) + int(k))...});
#endif
}
template <int64_t Q>
void spread_pixel(const Lanes& x, float* to) {
  [&]<size_t... k>(std::index_sequence<k...>) {
    (store_lanes(to + int64_t(k) * width, channel_of_groups<Q, int64_t(k)>(x, std::make_index_sequence<width>())), ...);
  }(std::make_index_sequence<Q>());
}

/// Pixels of a team one after the other; Q: channels of a group that are spread over lanes, or 0.
template <class T, int64_t Q>
void pack_pixels(const T* from, int64_t from_step, int64_t channels, int64_t pixels, float* to, int64_t to_step) {
  for (int64_t i = 0; i < pixels; i++, from += from_step, to += to_step)
    if constexpr (Q > 0)
      spread_pixel<Q>(load_some(from, channels), to);
    else {
      int64_t ch = 0;
      for (; ch + width <= channels; ch += width) store_lanes(to + ch, load_some(from + ch, width));
      for (int64_t i = ch; i < channels; i++) to[i] = float(from[i]);
      for (int64_t i = std::max(ch, channels); i < to_step; i++) to[i] = 0.0f;
    }
}
template <class T>
auto packing_of(const Teams& t) {
  if (!t.spread()) return pack_pixels<T, 0>;
  if constexpr (width > 8)
    if (t.read == 8) return pack_pixels<T, 8>;
  return t.read == 1 ? pack_pixels<T, 1> : t.read == 2 ? pack_pixels<T, 2> : pack_pixels<T, 4>;
}

/// Rows and columns of an image, packed for some teams: [team][row][column][floats of a pixel]. Those outside of the view are 0.
template <class T>
struct Packed {
  const Teams& teams;
  int64_t first_team, some, columns, pixel_floats;
  float* data;

  int64_t row_floats() const { return columns * pixel_floats; }
  void fill(const View& v, int64_t image, int64_t first_row, int64_t rows, int64_t first_column, bool as_read) const {
    const auto pack = as_read ? packing_of<T>(teams) : pack_pixels<T, 0>;
    const int64_t channels = as_read ? teams.read : teams.written;
    const int64_t before = std::clamp<int64_t>(-first_column, 0, columns),
                  end = std::clamp<int64_t>(v.dims[3] - first_column, before, columns);
    // Pieces of a row, so that the lines that teams share are read once.
    constexpr int64_t piece = 8;
    for (int64_t row = 0; row < rows; row++) {
      const int64_t y = first_row + row;
      const bool inside = y >= 0 && y < v.dims[2] && before < end;
      for (int64_t team = 0; team < some; team++) {
        float* const to = data + (team * rows + row) * row_floats();
        std::fill_n(to, (inside ? before : columns) * pixel_floats, 0.0f);
        if (inside) std::fill_n(to + end * pixel_floats, (columns - end) * pixel_floats, 0.0f);
      }
      for (int64_t at = before; inside && at < end; at += piece)
        for (int64_t team = 0; team < some; team++) {
          const int64_t group = (first_team + team) * teams.groups;
          pack(pixel_of<T>(v, image, y, first_column + at) + group * channels, v.strides[3], teams.held(first_team + team) * channels,
               std::min(piece, end - at), data + (team * rows + row) * row_floats() + at * pixel_floats, pixel_floats);
        }
    }
  }
};

/// A position of the window: the first float that it reads for a row of results, and its weights.
struct Tap {
  int64_t x, weights;
};

/// The terms of a row: `read` channels of each tap.
struct Terms {
  const Tap* taps;
  int64_t count, read, x_step, weights_step;
};

/// Results of P pixels in V vectors. The last vector has `last` channels.
template <class T, int P, int V, bool spread>
void multiply(const Terms& terms, const float* x, const float* weights, const Lanes* start, T* to, int64_t to_step, int64_t last) {
  Lanes sums[P][V];
#pragma GCC unroll 16
  for (int p = 0; p < P; p++)
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) sums[p][v] = start[v];
  const int64_t step = terms.x_step, four = 4 * step;
  for (int64_t t = 0; t < terms.count; t++) {
    const float* from = x + terms.taps[t].x;
    const float* w = weights + terms.taps[t].weights;
    for (int64_t i = 0; i < terms.read; i++, from += spread ? width : 1, w += terms.weights_step) {
      Lanes right[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; v++) right[v] = load_lanes(w + v * width);
#pragma GCC unroll 16
      for (int p = 0; p < P; p++) {
        const float* const left = from + p / 4 * four + p % 4 * step;
#pragma GCC unroll 4
        for (int v = 0; v < V; v++)
          if constexpr (spread)
            sums[p][v] += load_lanes(left) * right[v];
          else
            sums[p][v] += *left * right[v];
      }
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < P; p++)
#pragma GCC unroll 4
    for (int v = 0; v < V; v++) store_some(to + p * to_step + v * width, sums[p][v], v + 1 < V ? width : last);
}

constexpr int most_vectors = 3;
constexpr int most_pixels(int vectors) { return std::min(vectors == 1 ? 8 : 12, sums_at_once / vectors); }
template <class T>
using Multiply = void (*)(const Terms&, const float*, const float*, const Lanes*, T*, int64_t, int64_t);
/// By the number of pixels.
template <class T, int V, bool spread>
constexpr auto multiply_table = []<size_t... pixels>(std::index_sequence<pixels...>) {
  return std::array<Multiply<T>, sizeof...(pixels)>{multiply<T, int(pixels) + 1, V, spread>...};
}(std::make_index_sequence<most_pixels(V)>());
template <class T>
Multiply<T> multiply_of(bool spread, int64_t vectors, int64_t pixels) {
  const size_t at = size_t(pixels - 1);
  if (spread) return multiply_table<T, 1, true>[at];
  return vectors == 1 ? multiply_table<T, 1, false>[at] : vectors == 2 ? multiply_table<T, 2, false>[at] : multiply_table<T, 3, false>[at];
}

/// The forward convolution, or the data gradient: from `in` to `out` by weights, with a bias or without.
class Product {
 public:
  Product(const ops::Conv2d& g, bool towards_x)
      : towards_x_(towards_x),
        taps_(g.window.h.kernel * g.window.w.kernel),
        teams_(g.groups, towards_x ? g.group_out() : g.group_in(), towards_x ? g.group_in() : g.group_out()),
        some_(teams_at_once(teams_)),
        rows_(axis(g.window.h), axis(g.window.w), g.batch, some_ * teams_.left()) {}

  int64_t workspace_bytes() const { return (weight_floats() + use_threads() * tile_floats()) * int64_t(sizeof(float)); }

  void run(const View& in, const float* weights, const float* bias, const View& out, void* workspace) const {
    float* const packed = static_cast<float*>(workspace);
    pack_weights(weights, packed);
    with_element(in, [&](auto element) { run_as<decltype(element)>(in, packed, bias, out, packed + weight_floats()); });
  }

 private:
  Axis axis(const ops::WindowAxis& a) const { return towards_x_ ? Axis::towards_x(a) : Axis::towards_y(a); }
  int64_t tap_floats() const { return teams_.read * teams_.lanes(); }
  int64_t team_floats() const { return taps_ * tap_floats(); }
  int64_t weight_floats() const { return teams_.count() * team_floats(); }
  int64_t tile_floats() const { return some_ * rows_.tile_rows * rows_.columns * teams_.left(); }

  /// [team][tap][read channel][lane], from [O][C/groups][tap].
  void pack_weights(const float* weights, float* packed) const {
    const int64_t lanes = teams_.lanes(), read = teams_.read, written = teams_.written;
#pragma omp parallel for schedule(static)
    for (int64_t team = 0; team < teams_.count(); team++) {
      float* const to = packed + team * team_floats();
      std::fill_n(to, team_floats(), 0.0f);
      const auto put = [&](int64_t i, int64_t lane) {
        const int64_t group = team * teams_.groups + lane / written, o = lane % written;
        const float* const from = weights + (towards_x_ ? (group * read + i) * written + o : (group * written + o) * read + i) * taps_;
        for (int64_t tap = 0; tap < taps_; tap++) to[tap * tap_floats() + i * lanes + lane] = from[tap];
      };
      // In the order of memory.
      const int64_t held = teams_.held(team) * written, outer = towards_x_ ? read : held, inner = towards_x_ ? held : read;
      for (int64_t a = 0; a < outer; a++)
        for (int64_t b = 0; b < inner; b++) towards_x_ ? put(a, b) : put(b, a);
    }
  }

  template <class T>
  void run_as(const View& in, const float* weights, const float* bias, const View& out, float* scratch) const {
    const int64_t tiles = rows_.tiles(), count = teams_.count(), chunks = rows_.chunks();
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t tile = 0; tile < tiles; tile++)
      for (int64_t first = 0; first < count; first += some_) {
        const int64_t image = tile / chunks, from = tile % chunks * rows_.rows, to = std::min(rows_.h.results, from + rows_.rows);
        const int64_t first_row = rows_.h.lowest(from), rows = rows_.h.highest(to) - first_row + 1;
        const Packed<T> packed{teams_,        first,         std::min(some_, count - first),
                               rows_.columns, teams_.left(), scratch + omp_get_thread_num() * tile_floats()};
        packed.fill(in, image, first_row, rows, rows_.w.lowest(0), true);
        for (int64_t team = 0; team < packed.some; team++)
          for (int64_t row = from; row < to; row++)
            run_row<T>(packed.data + team * rows * packed.row_floats(), first_row, first + team, weights, bias, out, image, row);
      }
  }

  template <class T>
  void run_row(const float* x, int64_t first_row, int64_t team, const float* weights, const float* bias, const View& out, int64_t image,
               int64_t row) const {
    const auto& [h, w, batch, tile_rows, columns, rows] = rows_;
    const int64_t first_channel = team * teams_.groups * teams_.written, held = teams_.held(team) * teams_.written;
    const int64_t vectors = teams_.vectors(), chunks = over(vectors, most_vectors);
    for (int64_t phase = 0; phase < std::min(w.parts, w.results); phase++) {
      std::array<Tap, most_kernel * most_kernel> taps;
      int64_t count = 0;
      for (int64_t ky = 0; ky < h.kernel; ky++) {
        if (!h.meets(row, ky) || !h.inside(h.place(row, ky))) continue;
        for (int64_t kx = 0; kx < w.kernel; kx++)
          if (w.meets(phase, kx))
            taps[size_t(count++)] = {((h.place(row, ky) - first_row) * columns + w.place(phase, kx) - w.lowest(0)) * teams_.left(),
                                     (ky * w.kernel + kx) * tap_floats()};
      }
      const Terms terms{taps.data(), count, teams_.read, w.step * teams_.left(), teams_.lanes()};
      const int64_t pixels = over(w.results - phase, w.parts);
      T* const to = pixel_of<T>(out, image, row, phase) + first_channel;
      for (int64_t chunk = 0; chunk < chunks; chunk++) {
        const int64_t v = chunk * vectors / chunks, end = (chunk + 1) * vectors / chunks, blocks = over(pixels, most_pixels(int(end - v)));
        Lanes start[most_vectors] = {};
        if (bias)
          for (int64_t i = v; i < end; i++) start[i - v] = load_some(bias + first_channel + i * width, std::min(width, held - i * width));
        for (int64_t block = 0; block < blocks; block++) {
          const int64_t p = block * pixels / blocks, next = (block + 1) * pixels / blocks;
          multiply_of<T>(teams_.spread(), end - v, next - p)(terms, x + p * terms.x_step, weights + team * team_floats() + v * width, start,
                                                             to + p * w.parts * out.strides[3] + v * width, w.parts * out.strides[3],
                                                             std::min(width, held - (end - 1) * width));
        }
      }
    }
  }

  bool towards_x_;
  int64_t taps_;
  Teams teams_;
  int64_t some_;
  Rows rows_;
};

}  // namespace spillway::cpu::grouped
