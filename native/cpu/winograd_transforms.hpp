// The transforms of Winograd's F(4x4, 3x3) convolution (Lavin and Gray 2015), sixteen channels at a time. In: 6x6
// pixels, 3x3 weights or 4x4 results. Out: their 6x6 forms: there, convolution is a product at each place. Worked
// example in one dimension: y = At[(G w) * (Bt x)] for 6 pixels x, 3 weights w, 4 results y; the gradient of w is Gt[(Bt
// x) * (A dy)], that of x is again a convolution.
#pragma once
#include "cpu/tile_product.hpp"

namespace spillway::cpu::winograd {

/// A transform maps `from` blocks to others, `share` of them at a time: `outputs[part]` are those of a part. One part at a time, the
/// intermediate values fit the registers.
struct ToForm {
  static constexpr int parts = 2, share = 3;
  static constexpr int outputs[parts][share] = {{0, 1, 2}, {3, 4, 5}};
};

/// Bt: 6 pixels.
struct ImageForm : ToForm {
  static constexpr int from = 6;
  template <int part>
  static void apply(const Block (&d)[from], Block (&t)[share]) {
    if constexpr (part == 0) {
      const Block even = d[4] - 4.0f * d[2], odd = d[3] - 4.0f * d[1];
      t[0] = 4.0f * d[0] - 5.0f * d[2] + d[4];
      t[1] = even + odd;
      t[2] = even - odd;
    } else {
      const Block near = d[4] - d[2], far = 2.0f * (d[3] - d[1]);
      t[0] = near + far;
      t[1] = near - far;
      t[2] = 4.0f * d[1] - 5.0f * d[3] + d[5];
    }
  }
};

/// G: 3 weights.
struct WeightForm : ToForm {
  static constexpr int from = 3;
  template <int part>
  static void apply(const Block (&w)[from], Block (&t)[share]) {
    if constexpr (part == 0) {
      const Block sum = (w[0] + w[2]) * (-1.0f / 6), middle = w[1] * (1.0f / 6);
      t[0] = w[0] * 0.25f;
      t[1] = sum - middle;
      t[2] = sum + middle;
    } else {
      const Block outer = w[0] * (1.0f / 24) + w[2] * (1.0f / 6), twelfth = w[1] * (1.0f / 12);
      t[0] = outer + twelfth;
      t[1] = outer - twelfth;
      t[2] = w[2];
    }
  }
};

/// Gt: back to 3 weights.
struct WeightOfForm {
  static constexpr int from = 6, parts = 1, share = 3;
  static constexpr int outputs[parts][share] = {{0, 1, 2}};
  template <int part>
  static void apply(const Block (&t)[from], Block (&w)[share]) {
    const Block sum = (t[1] + t[2]) * (1.0f / 6), outer = t[3] + t[4];
    w[0] = 0.25f * t[0] - sum + outer * (1.0f / 24);
    w[1] = (t[2] - t[1]) * (1.0f / 6) + (t[3] - t[4]) * (1.0f / 12);
    w[2] = outer * (1.0f / 6) - sum + t[5];
  }
};

/// At: 4 results.
struct ResultOfForm {
  static constexpr int from = 6, parts = 2, share = 2;
  static constexpr int outputs[parts][share] = {{0, 2}, {1, 3}};
  template <int part>
  static void apply(const Block (&t)[from], Block (&y)[share]) {
    if constexpr (part == 0) {
      const Block near = t[1] + t[2], far = t[3] + t[4];
      y[0] = t[0] + near + far;
      y[1] = near + 4.0f * far;
    } else {
      const Block near = t[1] - t[2], far = t[3] - t[4];
      y[0] = near + 2.0f * far;
      y[1] = near + 8.0f * far + t[5];
    }
  }
};

/// A: 4 gradients of results.
struct GradientForm : ToForm {
  static constexpr int from = 4;
  template <int part>
  static void apply(const Block (&y)[from], Block (&t)[share]) {
    if constexpr (part == 0) {
      const Block even = y[0] + y[2], odd = y[1] + y[3];
      t[0] = y[0];
      t[1] = even + odd;
      t[2] = even - odd;
    } else {
      const Block even = y[0] + 4.0f * y[2], odd = 2.0f * y[1] + 8.0f * y[3];
      t[0] = even + odd;
      t[1] = even - odd;
      t[2] = y[3];
    }
  }
};

template <class F, int part, class Write>
inline void along_row(const Block (&row)[F::from], const Write& write) {
  Block out[F::share];
  F::template apply<part>(row, out);
#pragma GCC unroll 6
  for (int k = 0; k < F::share; k++) write(F::outputs[part][k], out[k]);
}

/// One part of the rows of a result.
template <class F, int part, class Read, class Write>
inline void part_of_rows(const Read& read, const Write& write) {
  Block half[F::share][F::from];
#pragma GCC unroll 6
  for (int column = 0; column < F::from; column++) {
    Block in[F::from], out[F::share];
#pragma GCC unroll 6
    for (int row = 0; row < F::from; row++) in[row] = read(row, column);
    F::template apply<part>(in, out);
#pragma GCC unroll 6
    for (int k = 0; k < F::share; k++) half[k][column] = out[k];
  }
#pragma GCC unroll 6
  for (int k = 0; k < F::share; k++) {
    const auto write_row = [&](int column, const Block& b) { write(F::outputs[part][k], column, b); };
    along_row<F, 0>(half[k], write_row);
    if constexpr (F::parts == 2) along_row<F, 1>(half[k], write_row);
  }
}

/// A transform along a number of rows, each by itself: `read(row, column)` and `write(row, column,
/// block)`.
template <class F, int rows, class Read, class Write>
inline void along_rows(const Read& read, const Write& write) {
#pragma GCC unroll 3
  for (int row = 0; row < rows; row++) {
    Block in[F::from];
#pragma GCC unroll 6
    for (int column = 0; column < F::from; column++) in[column] = read(row, column);
    const auto write_row = [&](int column, const Block& b) { write(row, column, b); };
    along_row<F, 0>(in, write_row);
    if constexpr (F::parts == 2) along_row<F, 1>(in, write_row);
  }
}

/// A transform along columns and rows.
template <class F, class Read, class Write>
inline void both_ways(const Read& read, const Write& write) {
  part_of_rows<F, 0>(read, write);
  if constexpr (F::parts == 2) part_of_rows<F, 1>(read, write);
}

}  // namespace spillway::cpu::winograd
