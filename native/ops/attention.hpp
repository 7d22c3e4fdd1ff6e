// Legality and geometry of attention and of its gradient, dense and whole. It is within groups of pixels of x `[B,3C,H,W]`, or from all
// pixels of q `[B,C,H,W]` to those of kv `[B,2C,h,w]`. Worked example: in windows of 2x2, group 1 of 4x4 pixels has the tokens (0,2),
// (0,3), (1,2), (1,3); in a grid of 2x2, (0,1), (0,3), (2,1), (2,3).
#pragma once
#include "ops/both.hpp"
#include "ops/check.hpp"

namespace spillway::ops {

/// A pixel of a group: its number in the image, and its side of the borders that a shift brings together.
struct Token {
  int64_t pixel;
  int side;
};

/// The places of queries, keys, values and groups. The attributes of an operator and of its gradient are the same.
struct AttentionPlan {
  bool apart;  // keys and values are another operand than the queries
  AttentionAttrs a;
  int64_t images, head, height, width, key_height, key_width;

  explicit AttentionPlan(const KernelCall& c)
      : apart(c.kind == uint32_t(OpKind::attend) || c.kind == uint32_t(OpKind::attend_bwd)),
        a(apart ? of_image(AttendAttrs::read(c.attrs), c.ins[0]) : AttentionAttrs::read(c.attrs)),
        images(c.ins[0].dims[0]),
        head(c.ins[0].dims[1] / ((apart ? 1 : 3) * a.heads)),
        height(c.ins[0].dims[2]),
        width(c.ins[0].dims[3]),
        key_height(c.ins[apart].dims[2]),
        key_width(c.ins[apart].dims[3]) {}

  /// The operands of keys and values, of their gradient, and of y's gradient.
  int64_t keys_at() const { return apart; }
  int64_t gradient_at() const { return 1 + apart; }

  SPILLWAY_BOTH int64_t tokens() const { return a.window_h * a.window_w; }
  SPILLWAY_BOTH int64_t keys() const { return apart ? key_pixels() : tokens(); }
  SPILLWAY_BOTH int64_t groups() const { return height / a.window_h * (width / a.window_w); }
  SPILLWAY_BOTH int64_t channels() const { return a.heads * head; }
  SPILLWAY_BOTH int64_t pixels() const { return height * width; }
  SPILLWAY_BOTH int64_t key_pixels() const { return key_height * key_width; }
  /// Rows and columns of the pixels that a table has distances of; a class token is no pixel.
  SPILLWAY_BOTH int64_t rows() const { return a.across ? (a.window_w - 1) / a.across : a.window_h; }
  SPILLWAY_BOTH int64_t columns() const { return a.across ? a.across : a.window_w; }
  SPILLWAY_BOTH int64_t offsets() const { return (2 * rows() - 1) * (2 * columns() - 1); }
  SPILLWAY_BOTH int64_t distances() const { return offsets() + (a.across ? 3 : 0); }
  /// Channels of the operand of the queries, and of that of the keys.
  SPILLWAY_BOTH int64_t query_row() const { return channels() * (apart ? 1 : 3); }
  SPILLWAY_BOTH int64_t key_row() const { return channels() * (apart ? 2 : 3); }

  /// The first channel of a head in its operand: of its queries (part 0), keys (1) or values (2).
  SPILLWAY_BOTH int64_t channel(int64_t part, int64_t of) const {
    if (apart && part == 0) return of * head;
    const int64_t parts = apart ? 2 : 3, place = part - apart;
    return a.head_first ? (of * parts + place) * head : (place * a.heads + of) * head;
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
  SPILLWAY_BOTH Token key(int64_t group, int64_t number) const { return apart ? Token{number, 0} : token(group, number); }
  /// The place in a table of the distance of two tokens, for head 0.
  SPILLWAY_BOTH int64_t distance(int64_t query, int64_t key) const {
    const int64_t across = columns(), tokens_before = a.across ? 1 : 0;
    if (tokens_before && (query == 0 || key == 0)) return (offsets() + (query ? 1 : key ? 0 : 2)) * a.heads;
    const int64_t q = query - tokens_before, k = key - tokens_before;
    const int64_t down = q / across - k / across + rows() - 1, beside = q % across - k % across + across - 1;
    return (down * (2 * across - 1) + beside) * a.heads;
  }
  /// Calls f(key) for each key at a distance of a query, by the number of the distance.
  template <class F>
  SPILLWAY_BOTH void each_key(int64_t distance, int64_t query, F f) const {
    const int64_t across = columns(), tokens_before = a.across ? 1 : 0, number = distance - offsets();
    if (number == 0 && query == 0)
      for (int64_t k = 1; k < tokens(); k++) f(k);
    if ((number == 1 && query > 0) || (number == 2 && query == 0)) f(0);
    if (number >= 0 || query < tokens_before) return;
    const int64_t q = query - tokens_before;
    const int64_t h = q / across - (distance / (2 * across - 1) - rows() + 1), w = q % across - (distance % (2 * across - 1) - across + 1);
    if (h >= 0 && h < rows() && w >= 0 && w < across) f(h * across + w + tokens_before);
  }

 private:
  static AttentionAttrs of_image(const AttendAttrs& a, const View& q) {
    return {a.heads, a.head_first, q.dims[2], q.dims[3], 0, 0, 0, 0, a.scale, 0};
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
  if (a.across > 0 && (a.window_h != 1 || a.window_w == 1 || (a.window_w - 1) % a.across != 0 || a.shift_w > 0))
    return refuse(c, "a class token must be before whole rows of pixels");
  if (table && !is_matrix(*table, AttentionPlan(c).distances(), a.heads))
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

inline Status check_attend_sizes(const KernelCall& c, const View& y) {
  const View &q = c.ins[0], &kv = c.ins[1];
  const auto a = AttendAttrs::read(c.attrs);
  if (!is_of_whole_images(q) || !is_of_whole_images(kv) || !is_of_whole_images(y) || !same_box(q, y))
    return refuse(c, "q and y must be the same whole images, and kv whole images, dense");
  if (kv.dims[0] != q.dims[0] || kv.origin[0] != q.origin[0]) return refuse(c, "q and kv must have the same images");
  if (q.dims[1] % a.heads != 0 || kv.dims[1] != 2 * q.dims[1]) return refuse(c, "kv must have keys and values of all heads of q");
  return q.dims[1] / a.heads <= 256 ? Status{} : refuse(c, "a head must have at most 256 channels");
}

inline Status check_attend(const KernelCall& c) { return check_attend_sizes(c, c.outs[0]); }

inline Status check_attend_bwd(const KernelCall& c) {
  if (Status s = check_attend_sizes(c, c.ins[2]); !s.ok()) return s;
  for (const int i : {0, 1})
    if (!is_of_whole_images(c.outs[i]) || !same_box(c.outs[i], c.ins[i])) return refuse(c, "dq must be like q, and dkv like kv");
  return {};
}

}  // namespace spillway::ops
