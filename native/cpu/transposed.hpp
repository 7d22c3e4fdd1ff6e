// Matrices transposed, one for each image: between pixels of channels and channels of pixels.
#pragma once
#include "cpu/stored.hpp"

namespace spillway::cpu {

/// y[column][row] = x[row][column] for each image, in blocks that stay in the nearest cache.
template <class T>
void transpose(const T* x, T* y, int64_t images, int64_t rows, int64_t columns) {
  constexpr int64_t block = 32;
#pragma omp parallel for schedule(static) collapse(2)
  for (int64_t image = 0; image < images; image++)
    for (int64_t first = 0; first < columns; first += block) {
      const T* from = x + image * rows * columns;
      T* to = y + image * rows * columns;
      for (int64_t row0 = 0; row0 < rows; row0 += block)
        for (int64_t column = first; column < std::min(columns, first + block); column++)
          for (int64_t row = row0; row < std::min(rows, row0 + block); row++) to[column * rows + row] = from[row * columns + column];
    }
}

inline void transpose_views(const View& x, const View& y, int64_t images, int64_t rows, int64_t columns) {
  with_element(x, [&](auto element) {
    using T = decltype(element);
    transpose(static_cast<const T*>(x.data), static_cast<T*>(y.data), images, rows, columns);
  });
}

}  // namespace spillway::cpu
