// 3x3 convolutions of stride 1 by Winograd's F(4x4, 3x3), with a fourth of the multiplications, on channels-last activations in place (T:
// floats, or bf16 computed in floats). In: geometry; activations, weights in PyTorch's order, scratch. Out: results, or weight gradients.
// Invariant: the same bits for any number of threads; any padding on each side, and any slice of an image. At dilation d, pixels d apart
// are a tile. If few of them are below one another (27 rows of a band have 1 or 2 at dilation 24), tiles are single rows of four, by F(4,
// 3) along them: half of the multiplications.
#pragma once
#include <cstdint>

#include "core/kernel.hpp"

namespace spillway::cpu::winograd {

/// `rows` x `columns` pixels of `channels` each, for each of the batch's images.
struct Plane {
  int64_t rows, columns, channels;
};

/// Rows of one axis: row r of dst reads rows r + shift of src, and the next two steps. Missing rows of src are zero.
struct Sight {
  int64_t shift, step = 1;
};

struct Geometry {
  int64_t batch;
  Plane src, dst;
  Sight rows, columns;
};

/// Products of one channel with one, over all images; and those of windows with the pixels that are there.
int64_t products(const Geometry& g);
int64_t products_of_windows(const Geometry& g);

/// Whose first index the weights' is: dst's channels (forward), or src's, and then turned around (the data gradient).
enum class Weights { forward, turned };

/// The operations on results as they are written: a bias, then a rectifier.
struct Finish {
  const float* bias = nullptr;
  bool rectifies = false;
  float slope = 0;
};

int64_t convolve_bytes(const Geometry& g, int threads);
/// dst = src * weights, finished. `seeks`: tiles that read only zeros are skipped; returns their share. `outside`: pixels of dst that are
/// 0; tiles that hold no others are skipped in place of these. Or null.
template <class T>
double convolve(const Geometry& g, int threads, bool seeks, const Outside* outside, Weights order, const T* src, const float* weights,
                const Finish& finish, T* dst, void* scratch);

int64_t weight_gradient_bytes(const Geometry& g, int threads);
/// dw [dst channels, src channels, 3, 3] from src and the gradient of dst. `seeks`: tiles where one of them is 0 are skipped; returns their
/// share. `outside`: pixels where the gradient is 0 and need not be read, or null.
template <class T>
double weight_gradient(const Geometry& g, int threads, bool seeks, const Outside* outside, const T* src, const T* ddst, float* dw,
                       void* scratch);

}  // namespace spillway::cpu::winograd
