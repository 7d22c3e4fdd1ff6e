// Writes tapes by hand, for tests: lists of records that a test may spoil before bytes() puts them together.
// `classifier()` is a small network trained one step: x -> relu -> global pooling -> linear -> cross-entropy -> sgd; its
// relu may be swapped out to the lower tier and back, to other physical pages.
#pragma once
#include <cstring>
#include <string>
#include <vector>

#include "gen/ops.h"
#include "plan/reader.hpp"

namespace spillway::testing {

struct TapeBuilder : Sections {
  uint32_t version = TAPE_VERSION, page_bytes = PAGE_BYTES, events = 0;
  DType float_type = DType::f64;
  uint64_t budget = 0, peak = 0, tier_bytes = 0;

  uint64_t element() const { return dtype_bytes(float_type); }

  uint32_t buffer(uint64_t bytes) {
    buffers.push_back({(bytes + PAGE_BYTES - 1) / PAGE_BYTES, bytes});
    return uint32_t(buffers.size() - 1);
  }

  /// A residency of a whole buffer on consecutive physical pages.
  uint32_t residency(uint32_t buffer, uint32_t phys, bool for_ever = false) {
    const auto pages = uint32_t(buffers[buffer].pages), r = uint32_t(residencies.size());
    residencies.push_back({pages, for_ever ? 1u : 0u, 0});
    mappings.push_back({buffer, 0, phys, pages, r, 0});
    return r;
  }

  /// A dense whole value; rank 4 values that are `data` are stored channels-last.
  uint32_t view(uint32_t buffer, uint64_t offset, std::vector<uint32_t> shape, bool data, DType type) {
    ViewRecord v{};
    v.buffer = buffer;
    v.dtype = type;
    v.offset = offset;
    v.rank = uint32_t(shape.size());
    shape.resize(4, 1);
    for (int d = 0; d < 4; d++) v.dims[d] = v.extent[d] = shape[d];
    const uint64_t c = shape[1], h = shape[2], w = shape[3];
    const uint64_t last[4] = {h * w * c, 1, w * c, c}, natural[4] = {c * h * w, h * w, w, 1};
    std::memcpy(v.strides, data ? last : natural, sizeof last);
    views.push_back(v);
    return uint32_t(views.size() - 1);
  }

  uint32_t call(OpKind kind, std::vector<uint32_t> ins, std::vector<uint32_t> outs, std::vector<double> attributes = {}) {
    CallRecord c{};
    c.kind = uint16_t(kind);
    c.ins = uint16_t(ins.size());
    c.outs = uint16_t(outs.size());
    c.first_operand = uint32_t(operands.size());
    c.first_attr = uint32_t(attrs.size());
    c.attrs = uint32_t(attributes.size());
    c.workspace_view = c.op = c.mask = NONE;
    operands.insert(operands.end(), ins.begin(), ins.end());
    operands.insert(operands.end(), outs.begin(), outs.end());
    attrs.insert(attrs.end(), attributes.begin(), attributes.end());
    calls.push_back(c);
    return uint32_t(calls.size() - 1);
  }

  uint32_t binding(BindingRole role, uint32_t view, const std::string& name, Dist dist = Dist::none, double a = 0) {
    bindings.push_back({role, view, uint32_t(strings.size()), uint32_t(name.size()), dist, views[view].dtype, a, 0});
    strings.insert(strings.end(), name.begin(), name.end());
    return uint32_t(bindings.size() - 1);
  }

  uint32_t transfer(uint32_t residency, uint32_t buffer, uint64_t bytes, Far far, uint32_t binding, uint64_t far_offset) {
    transfers.push_back({residency, buffer, 0, bytes, far, binding, far_offset, 0});
    return uint32_t(transfers.size() - 1);
  }

  void emit(Tag tag, uint32_t a, uint32_t b = 0) { instrs.push_back({tag, a, b, 0}); }

  std::vector<std::byte> bytes() const;
};

inline std::vector<std::byte> TapeBuilder::bytes() const {
  HeaderRecord h{};
  h.version = version;
  h.float_type = float_type;
  h.page_bytes = page_bytes;
  h.events = events;
  h.budget_pages = budget;
  h.peak_pages = peak;
  h.tier_bytes = tier_bytes;
  std::memcpy(h.magic, TAPE_MAGIC, sizeof h.magic);
  std::vector<std::byte> out(sizeof h);
  uint64_t* entry = h.sections;
  each(*this, [&](const char*, const char*, const auto& records) {
    const uint64_t offset = out.size(), bytes = records.size() * sizeof(records[0]);
    out.resize((offset + bytes + 7) / 8 * 8);
    if (bytes) std::memcpy(out.data() + offset, records.data(), bytes);
    *entry++ = offset;
    *entry++ = records.size();
  });
  h.bytes = out.size();
  std::memcpy(out.data(), &h, sizeof h);
  h.checksum = tape_checksum(out);
  std::memcpy(out.data(), &h, sizeof h);
  return out;
}

struct ClassifierShape {
  uint32_t batch = 2, channels = 3, height = 300, width = 400, classes = 5;
};

/// The image takes P pages; swapped: 2 P + 2 pages, the second copy of the relu lies where the image was.
inline TapeBuilder classifier(bool swapped, DType real = DType::f64, ClassifierShape s = {}) {
  TapeBuilder t;
  t.float_type = real;
  const uint64_t e = t.element(), image = uint64_t(s.batch) * s.channels * s.height * s.width * e;
  const uint32_t small = t.buffer(8192), labels = t.buffer(4 * s.batch), x = t.buffer(image), y = t.buffer(image), back = t.buffer(image);
  const auto pages = uint32_t(t.buffers[x].pages);
  t.peak = t.budget = 2 * pages + 2;
  t.residency(small, 0, true);
  const uint32_t r_labels = t.residency(labels, 1), r_x = t.residency(x, 2), r_y = t.residency(y, 2 + pages);
  const uint32_t r_back = swapped ? t.residency(back, 2) : r_y;
  if (!swapped) t.mappings.push_back({back, 0, 2 + pages, pages, r_y, 0});

  uint64_t at = 0;
  const auto whole = [&](std::vector<uint32_t> shape, bool data) {
    uint64_t n = e;
    for (const uint32_t d : shape) n *= d;
    const uint64_t offset = at;
    at += (n + 63) / 64 * 64;
    return t.view(small, offset, shape, data, real);
  };
  const uint32_t C = s.channels, K = s.classes, B = s.batch;
  const std::vector<uint32_t> image_shape{B, C, s.height, s.width};
  const uint32_t w = whole({K, C}, false), b = whole({K}, false), dw = whole({K, C}, false), db = whole({K}, false),
                 loss = whole({1}, false);
  const uint32_t pooled = whole({B, C, 1, 1}, true), logits = whole({B, K, 1, 1}, true), dlogits = whole({B, K, 1, 1}, true);
  const uint32_t v_x = t.view(x, 0, image_shape, true, real), v_y = t.view(y, 0, image_shape, true, real),
                 v_back = t.view(back, 0, image_shape, true, real);
  const uint32_t v_labels = t.view(labels, 0, {B, 1, 1, 1}, true, DType::i32);
  const uint32_t fed_x = t.view(NONE, 0, image_shape, true, real), fed_labels = t.view(NONE, 0, {B, 1, 1, 1}, true, DType::i32);

  t.binding(BindingRole::param, w, "head.weight", Dist::uniform, 0.5);
  t.binding(BindingRole::param, b, "head.bias", Dist::constant, 0.25);
  const uint32_t b_x = t.binding(BindingRole::input, fed_x, "image"), b_labels = t.binding(BindingRole::target, fed_labels, "labels");
  t.binding(BindingRole::loss, loss, "loss");

  const uint32_t t_labels = t.transfer(r_labels, labels, 4 * B, Far::source, b_labels, 0),
                 t_x = t.transfer(r_x, x, image, Far::source, b_x, 0);
  t.events = 2;
  t.emit(Tag::mark, 0, 0);
  t.emit(Tag::acquire, r_labels);
  t.emit(Tag::swap_in, t_labels, 0);
  t.emit(Tag::acquire, r_x);
  t.emit(Tag::swap_in, t_x, 1);
  t.emit(Tag::wait, 1, 1);
  t.emit(Tag::acquire, r_y);
  t.emit(Tag::call, t.call(OpKind::relu, {v_x}, {v_y}, {0}));
  t.emit(Tag::release, r_x);
  if (swapped) {
    t.events = 4;
    t.tier_bytes = image;
    const uint32_t out = t.transfer(r_y, y, image, Far::tier, NONE, 0), in = t.transfer(r_back, back, image, Far::tier, NONE, 0);
    t.emit(Tag::swap_out, out, 2);
    t.emit(Tag::wait, 2, 0);
    t.emit(Tag::release, r_y);
    t.emit(Tag::acquire, r_back);
    t.emit(Tag::swap_in, in, 3);
    t.emit(Tag::wait, 3, 1);
  }
  t.emit(Tag::mark, 1, 0);
  t.emit(Tag::call, t.call(OpKind::global_avg_pool, {v_back}, {pooled}, {double(s.height) * s.width}));
  t.emit(Tag::release, r_back);
  t.emit(Tag::call, t.call(OpKind::linear, {pooled, w, b}, {logits}));
  t.emit(Tag::wait, 0, 1);
  t.emit(Tag::call, t.call(OpKind::softmax_xent, {logits, v_labels}, {loss}, {double(B), 1}));
  t.emit(Tag::call, t.call(OpKind::softmax_xent_bwd, {logits, v_labels}, {dlogits}, {double(B), 1}));
  t.emit(Tag::release, r_labels);
  t.emit(Tag::call, t.call(OpKind::linear_bwd_weights, {pooled, dlogits}, {dw, db}));
  t.emit(Tag::call, t.call(OpKind::sgd, {w, dw}, {}, {0.5, 0, 0, 0}));
  t.emit(Tag::call, t.call(OpKind::sgd, {b, db}, {}, {0.5, 0, 0, 0}));
  return t;
}

/// For devices whose kernels ask for workspace: a MiB for each call, from the page of small values.
inline TapeBuilder with_workspace(TapeBuilder t) {
  const uint64_t offset = t.buffers[0].bytes, bytes = 1 << 20;
  t.buffers[0].bytes += bytes;
  const uint32_t scratch = t.view(0, offset, {uint32_t(bytes / t.element())}, false, t.float_type);
  for (CallRecord& call : t.calls) call.workspace_view = scratch;
  return t;
}

}  // namespace spillway::testing
