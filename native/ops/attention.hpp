// Legality and geometry of attention within groups of pixels, and of its gradient: x `[B,3C,H,W]` and y `[B,C,H,W]`, both dense and whole.
// Worked example: in windows of 2x2, group 1 of 4x4 pixels has the tokens (0,2), (0,3), (1,2), (1,3); in a grid of 2x2, (0,1), (0,3),
// (2,1), (2,3).
#pragma once
#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

/// A pixel of a group: its number in the image, and its side of the borders that a shift brings together.
struct Token {
  int64_t pixel;
  int side;
};

/// The places of queries, keys, values and groups. The attributes of the operator and of its gradient are the same.
struct AttentionPlan {
  AttentionAttrs a;
  int64_t images, head, height, width;

  AttentionPlan(const KernelCall& c)
      : a(AttentionAttrs::read(c.attrs)),
        images(c.ins[0].dims[0]),
        head(c.ins[0].dims[1] / (3 * a.heads)),
        height(c.ins[0].dims[2]),
        width(c.ins[0].dims[3]) {}

  SPILLWAY_BOTH int64_t tokens() const { return a.window_h * a.window_w; }
  SPILLWAY_BOTH int64_t groups() const { return height / a.window_h * (width / a.window_w); }
  SPILLWAY_BOTH int64_t channels() const { return a.heads * head; }
  SPILLWAY_BOTH int64_t pixels() const { return height * width; }
  SPILLWAY_BOTH int64_t distances() const { return (2 * a.window_h - 1) * (2 * a.window_w - 1); }

  /// The first channel of a head: of its queries (part 0), keys (1) or values (2).
  SPILLWAY_BOTH int64_t channel(int64_t part, int64_t of) const {
    return a.head_first ? (of * 3 + part) * head : (part * a.heads + of) * head;
  }
  SPILLWAY_BOTH Token token(int64_t group, int64_t number) const {
    const int64_t across = width / a.window_w, down = height / a.window_h;
    const int64_t row = number / a.window_w, column = number % a.window_w;
    if (a.grid) return {(row * down + group / across) * width + column * across + group % across, 0};
    int64_t h = group / across * a.window_h + row + a.shift_h, w = group % across * a.window_w + column + a.shift_w;
    const bool below = h >= height, beyond = w >= width;
    if (below) h -= height;
    if (beyond) w -= width;
    return {h * width + w, below * 2 + beyond};
  }
  /// The place in a table of the distance of two tokens, for head 0.
  SPILLWAY_BOTH int64_t distance(int64_t query, int64_t key) const {
    const int64_t rows = query / a.window_w - key / a.window_w + a.window_h - 1,
                  columns = query % a.window_w - key % a.window_w + a.window_w - 1;
    return (rows * (2 * a.window_w - 1) + columns) * a.heads;
  }
};

inline Status check_attention_sizes(const KernelCall& c, const View& y, const View* table) {
  const View& x = c.ins[0];
  const auto a = AttentionAttrs::read(c.attrs);
  if (!is_of_whole_images(x) || !is_of_whole_images(y) || !same_pixels(x, y))
    return refuse(c, "x and y must be the same whole images, dense");
  if (x.dims[1] % (3 * a.heads) != 0 || y.dims[1] * 3 != x.dims[1]) return refuse(c, "x must have queries, keys and values of all heads");
  if (x.dims[1] / (3 * a.heads) > 256) return refuse(c, "a head must have at most 256 channels");
  if (a.window_h > x.dims[2] || a.window_w > x.dims[3] || x.dims[2] % a.window_h != 0 || x.dims[3] % a.window_w != 0)
    return refuse(c, "windows must divide the image");
  if (a.shift_h >= a.window_h || a.shift_w >= a.window_w || (a.grid && a.shift_h + a.shift_w > 0))
    return refuse(c, "shifts must be less than a window, and 0 for a grid");
  if (table && !is_matrix(*table, (2 * a.window_h - 1) * (2 * a.window_w - 1), a.heads))
    return refuse(c, "the table must have a number for each distance and head");
  return {};
}

inline Status check_attention(const KernelCall& c) { return check_attention_sizes(c, c.outs[0], c.n_ins > 1 ? &c.ins[1] : nullptr); }

inline Status check_attention_bwd(const KernelCall& c) {
  if (Status s = check_attention_sizes(c, c.ins[1], c.n_ins > 2 ? &c.ins[2] : nullptr); !s.ok()) return s;
  if (!is_of_whole_images(c.outs[0]) || !same_box(c.outs[0], c.ins[0])) return refuse(c, "dx must be like x");
  if (c.n_outs + 1 != c.n_ins) return refuse(c, "the table and its gradient must come together");
  return c.n_outs < 2 || (is_whole(c.outs[1]) && same_dims(c.outs[1], c.ins[2])) ? Status{} : refuse(c, "dtable must be like the table");
}

}  // namespace spillway::ops
