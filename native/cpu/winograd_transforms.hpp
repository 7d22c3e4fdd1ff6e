// The transforms of Winograd's F(4x4, 3x3) convolution (Lavin and Gray 2015), sixteen channels at a time.
// In: 6x6 pixels, 3x3 weights or 4x4 results. Out: their 6x6 forms, in which convolution is a product at each place.
// Worked example in one dimension: y = At[(G w) * (Bt x)] for 6 pixels x, 3 weights w, 4 results y; the gradient of w is
// Gt[(Bt x) * (A dy)], that of x is again a convolution.
#pragma once
#include "cpu/tile_product.hpp"

namespace spillway::cpu::winograd {

constexpr int places = 36;

/// Bt: 6 pixels.
inline void image_form(const Block (&d)[6], Block (&t)[6]) {
  const Block even = d[4] - 4.0f * d[2], odd = d[3] - 4.0f * d[1], near = d[4] - d[2], far = 2.0f * (d[3] - d[1]);
  t[0] = 4.0f * d[0] - 5.0f * d[2] + d[4];
  t[1] = even + odd;
  t[2] = even - odd;
  t[3] = near + far;
  t[4] = near - far;
  t[5] = 4.0f * d[1] - 5.0f * d[3] + d[5];
}

/// G: 3 weights.
inline void weight_form(const Block (&w)[3], Block (&t)[6]) {
  const Block sum = (w[0] + w[2]) * (-1.0f / 6), middle = w[1] * (1.0f / 6);
  const Block outer = w[0] * (1.0f / 24) + w[2] * (1.0f / 6), twelfth = w[1] * (1.0f / 12);
  t[0] = w[0] * 0.25f;
  t[1] = sum - middle;
  t[2] = sum + middle;
  t[3] = outer + twelfth;
  t[4] = outer - twelfth;
  t[5] = w[2];
}

/// Gt: back to 3 weights.
inline void weight_of_form(const Block (&t)[6], Block (&w)[3]) {
  const Block sum = (t[1] + t[2]) * (1.0f / 6), outer = t[3] + t[4];
  w[0] = 0.25f * t[0] - sum + outer * (1.0f / 24);
  w[1] = (t[2] - t[1]) * (1.0f / 6) + (t[3] - t[4]) * (1.0f / 12);
  w[2] = outer * (1.0f / 6) - sum + t[5];
}

/// At: 4 results.
inline void result_of_form(const Block (&t)[6], Block (&y)[4]) {
  const Block near = t[1] + t[2], far = t[3] + t[4], near_difference = t[1] - t[2], far_difference = t[3] - t[4];
  y[0] = t[0] + near + far;
  y[1] = near_difference + 2.0f * far_difference;
  y[2] = near + 4.0f * far;
  y[3] = near_difference + 8.0f * far_difference + t[5];
}

/// A: 4 gradients of results.
inline void gradient_form(const Block (&y)[4], Block (&t)[6]) {
  const Block even = y[0] + y[2], odd = y[1] + y[3], even_far = y[0] + 4.0f * y[2], odd_far = 2.0f * y[1] + 8.0f * y[3];
  t[0] = y[0];
  t[1] = even + odd;
  t[2] = even - odd;
  t[3] = even_far + odd_far;
  t[4] = even_far - odd_far;
  t[5] = y[3];
}

/// The same along rows and columns: f takes `n` blocks to `m`; `read(row, column)` and `write(row, column, block)`.
template <int n, int m, class F, class Read, class Write>
inline void both_ways(F f, const Read& read, const Write& write) {
  Block half[m][n];
#pragma GCC unroll 6
  for (int column = 0; column < n; column++) {
    Block in[n], out[m];
#pragma GCC unroll 6
    for (int row = 0; row < n; row++) in[row] = read(row, column);
    f(in, out);
#pragma GCC unroll 6
    for (int row = 0; row < m; row++) half[row][column] = out[row];
  }
#pragma GCC unroll 6
  for (int row = 0; row < m; row++) {
    Block out[m];
    f(half[row], out);
#pragma GCC unroll 6
    for (int column = 0; column < m; column++) write(row, column, out[column]);
  }
}

}  // namespace spillway::cpu::winograd
