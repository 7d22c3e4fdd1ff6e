// One pass over the instructions. Facts are kept per view: "this view is a mask", "this view is 0 outside of that mask". A fact ends when a
// byte of its views is written, acquired, released or filled: a value that was swapped has none.
#include "runtime/outside.hpp"

#include <algorithm>
#include <map>

#include "gen/ops.h"
#include "plan/page_map.hpp"

namespace spillway {
namespace {

/// Instructions that are searched for the product with a mask: it follows its value closely.
constexpr size_t most_searched = 16;

constexpr uint32_t all_inputs = ~0u;
/// Operators whose cpu kernels leave pixels out. `zeros`: if these inputs are 0 at a pixel, the output is, or the pixel adds nothing to a
/// sum; none if results differ from 0 there. `writes`: the output has these pixels.
struct Rule {
  OpKind kind;
  uint32_t zeros;
  bool writes;
};
constexpr uint32_t first_input = 1, second_input = 2;
constexpr Rule RULES[] = {
    {OpKind::conv2d, 0, true},
    {OpKind::conv2d_relu, 0, true},
    {OpKind::conv2d_bwd_data, 0, true},
    {OpKind::bn_masked_apply, 0, true},
    {OpKind::bn_frozen, 0, true},
    {OpKind::bn_bwd_data, 0, true},
    {OpKind::relu, first_input, true},
    {OpKind::relu_bwd, second_input, true},
    {OpKind::add, all_inputs, true},
    {OpKind::add_relu, all_inputs, true},
    {OpKind::grad_sum, all_inputs, true},
    {OpKind::bn_stats, first_input, false},
    {OpKind::bn_bwd_reduce, second_input, false},
    {OpKind::conv2d_bwd_weights, second_input, false},
};

const Rule* rule_of(uint32_t kind) {
  const auto* const found = std::find_if(std::begin(RULES), std::end(RULES), [&](const Rule& r) { return uint32_t(r.kind) == kind; });
  return found == std::end(RULES) ? nullptr : found;
}
bool is_product(uint32_t kind) { return kind == uint32_t(OpKind::multiply) || kind == uint32_t(OpKind::multiply_bwd_data); }

bool same_pixels(const ViewRecord& a, const ViewRecord& b) {
  return a.rank == 4 && b.rank == 4 && a.dims[0] == b.dims[0] && a.dims[2] == b.dims[2] && a.dims[3] == b.dims[3];
}

/// Physical bytes [lo, hi).
struct ByteRange {
  uint64_t lo, hi;
};
/// In order, apart from each other.
using ByteRanges = std::vector<ByteRange>;

bool overlap(const ByteRanges& a, const ByteRanges& b) {
  for (size_t i = 0, k = 0; i < a.size() && k < b.size();) {
    if (a[i].lo < b[k].hi && b[k].lo < a[i].hi) return true;
    a[i].hi < b[k].hi ? i++ : k++;
  }
  return false;
}

/// For each physical byte, the last instruction that changed it.
class Changes {
 public:
  void set(ByteRange s, uint32_t instruction) {
    cut(s.lo);
    cut(s.hi);
    last_.erase(last_.lower_bound(s.lo), last_.lower_bound(s.hi));
    last_[s.lo] = instruction;
  }
  uint32_t latest(ByteRange s) const {
    uint32_t most = 0;
    for (auto it = std::prev(last_.upper_bound(s.lo)); it != last_.end() && it->first < s.hi; ++it) most = std::max(most, it->second);
    return most;
  }

 private:
  void cut(uint64_t at) { last_.emplace(at, std::prev(last_.upper_bound(at))->second); }

  std::map<uint64_t, uint32_t> last_{{0, 0}};  // by first byte, up to the next
};

class Search {
 public:
  Search(const Tape& tape, const PageMap& map) : tape_(tape), map_(map), facts_(tape.views.size()) {
    // Views of equal content have one number.
    std::map<std::vector<uint64_t>, uint32_t> known;
    for (const ViewRecord& v : tape.views) {
      std::vector<uint64_t> key{v.buffer, uint32_t(v.dtype), v.offset, v.rank};
      for (int d = 0; d < 4; d++) key.insert(key.end(), {v.dims[d], v.strides[d]});
      same_.push_back(known.emplace(std::move(key), uint32_t(same_.size())).first->second);
    }
  }

  std::vector<OutsideOf> run() {
    std::vector<OutsideOf> found(tape_.calls.size());
    for (now_ = 1; now_ <= tape_.instrs.size(); now_++) {
      const InstrRecord& instr = tape_.instrs[now_ - 1];
      switch (instr.tag) {
        case Tag::call:
          found[instr.a] = call(tape_.calls[instr.a]);
          break;
        case Tag::exchange:
          change(written_by(tape_.calls[instr.a]));
          break;
        case Tag::acquire:
        case Tag::release:
          for (const PageRun& run : map_.runs(instr.a)) changes_.set({run.page * PAGE_BYTES, (run.page + run.count) * PAGE_BYTES}, now_);
          break;
        case Tag::swap_in: {
          const TransferRecord& t = tape_.transfers[instr.a];
          ByteRanges filled;
          add_spans(t.buffer, t.offset, t.offset + t.bytes, filled);
          change(filled);
          break;
        }
        default:
          break;
      }
    }
    return found;
  }

 private:
  /// A fact of a view, until one of its bytes changes. `since`: the instruction; `mask`: the view is 0 outside of this mask.
  struct Fact {
    uint32_t since = 0, mask = NONE;
    bool is_mask = false;
  };

  void add_spans(uint32_t buffer, uint64_t lo, uint64_t hi, ByteRanges& spans) const {
    bool unmapped = false;
    map_.walk(tape_, buffer, lo, hi, unmapped, [&](const PhysSpan& s) {
      spans.push_back({s.lo, s.hi});
      return true;
    });
  }
  void add_spans(uint32_t view, ByteRanges& spans) const {
    const ViewRecord& v = tape_.views[view];
    if (v.buffer == NONE) return;
    for_each_block(v, [&](uint64_t lo, uint64_t hi) {
      add_spans(v.buffer, lo, hi, spans);
      return true;
    });
  }
  static ByteRanges in_order(ByteRanges spans) {
    std::sort(spans.begin(), spans.end(), [](const ByteRange& a, const ByteRange& b) { return a.lo < b.lo; });
    ByteRanges apart;
    for (const ByteRange& s : spans)
      if (!apart.empty() && s.lo <= apart.back().hi)
        apart.back().hi = std::max(apart.back().hi, s.hi);
      else
        apart.push_back(s);
    return apart;
  }
  ByteRanges spans_of(uint32_t view) const {
    ByteRanges spans;
    add_spans(view, spans);
    return in_order(std::move(spans));
  }
  uint32_t operand(const CallRecord& c, uint32_t i) const { return same_[tape_.operands[c.first_operand + i]]; }
  ByteRanges written_by(const CallRecord& c) const {
    const OpInfo& op = *op_info(c.kind);
    ByteRanges spans;
    for (uint32_t i = 0; i < uint32_t(c.ins) + c.outs; i++)
      if (i >= c.ins || op.in(i).written) add_spans(operand(c, i), spans);
    if (c.workspace_view != NONE) add_spans(c.workspace_view, spans);
    return in_order(std::move(spans));
  }
  ByteRanges touched_by(const CallRecord& c) const {
    ByteRanges spans;
    for (uint32_t i = 0; i < uint32_t(c.ins) + c.outs; i++) add_spans(operand(c, i), spans);
    if (c.workspace_view != NONE) add_spans(c.workspace_view, spans);
    return in_order(std::move(spans));
  }
  void change(const ByteRanges& spans) {
    for (const ByteRange& s : spans) changes_.set(s, now_);
  }
  bool is_unchanged(uint32_t view, uint32_t since) const {
    if (since == 0) return false;
    const ByteRanges spans = spans_of(view);
    return std::all_of(spans.begin(), spans.end(), [&](const ByteRange& s) { return changes_.latest(s) <= since; });
  }

  bool is_mask(uint32_t view) const { return facts_[view].is_mask && is_unchanged(view, facts_[view].since); }
  /// The mask of a view that is 0 outside of it, or NONE.
  uint32_t mask_of(uint32_t view) const {
    const Fact& fact = facts_[view];
    return fact.mask != NONE && is_unchanged(view, fact.since) && is_mask(fact.mask) && facts_[fact.mask].since <= fact.since ? fact.mask
                                                                                                                              : NONE;
  }
  /// The mask that a product multiplies its first input by, or NONE.
  uint32_t factor_of(const CallRecord& c) const {
    if (!is_product(c.kind)) return NONE;
    const uint32_t factor = operand(c, 1);
    return is_mask(factor) && same_pixels(tape_.views[factor], tape_.views[operand(c, 2)]) ? factor : NONE;
  }
  bool in_place(const CallRecord& c) const {
    return std::any_of(&tape_.operands[c.first_operand], &tape_.operands[c.first_operand] + c.ins,
                       [&](uint32_t in) { return same_[in] == operand(c, c.ins); });
  }
  /// Inputs that are 0 outside of one mask make the result 0 there. Returns the mask, or NONE.
  uint32_t kept_mask(const CallRecord& c, uint32_t zeros) const {
    uint32_t mask = NONE;
    for (uint32_t i = 0; i < c.ins; i++) {
      if (!(zeros >> std::min(i, 31u) & 1)) continue;
      const uint32_t of = mask_of(operand(c, i));
      if (of == NONE || (mask != NONE && of != mask)) return NONE;
      mask = of;
    }
    return mask;
  }

  /// A rectifier's gradient is 0 where its value y is: the mask of y, or NONE.
  uint32_t shut_mask(const CallRecord& c) const {
    const bool shuts = c.kind == uint32_t(OpKind::relu_bwd) && ReluBwdAttrs::read(tape_.attrs.data() + c.first_attr).slope == 0;
    return shuts ? mask_of(operand(c, 0)) : NONE;
  }
  bool is_written(uint32_t view, const std::vector<ByteRanges>& written) const {
    const ByteRanges own = spans_of(view);
    return std::any_of(written.begin(), written.end(), [&](const ByteRanges& w) { return overlap(own, w); });
  }

  /// The mask of a later operator that sets this output to 0 outside, in place, before another one reads it; or NONE.
  uint32_t later_mask(uint32_t output) const {
    const ByteRanges own = spans_of(output);
    std::vector<ByteRanges> written;
    const size_t end = std::min<size_t>(now_ + most_searched, tape_.instrs.size());
    for (size_t i = now_; i < end; i++) {
      const InstrRecord& instr = tape_.instrs[i];
      if (instr.tag == Tag::mark || instr.tag == Tag::acquire || instr.tag == Tag::release) continue;
      if (instr.tag != Tag::call) return NONE;
      const CallRecord& c = tape_.calls[instr.a];
      if (overlap(own, touched_by(c))) {
        if (c.outs != 1 || operand(c, c.ins) != output) return NONE;
        if (const uint32_t mask = factor_of(c); mask != NONE && operand(c, 0) == output) return is_written(mask, written) ? NONE : mask;
        if (const uint32_t mask = shut_mask(c); mask != NONE && operand(c, 0) != output)
          return is_written(mask, written) || is_written(operand(c, 0), written) ? NONE : mask;
        const Rule* const rule = rule_of(c.kind);
        if (!rule || !rule->writes || rule->zeros == 0 || !in_place(c)) return NONE;
      }
      written.push_back(written_by(c));
    }
    return NONE;
  }
  /// Clamped to 0 and 1, one number for each pixel (dsl/masks.ts).
  bool is_clamp_to_mask(const CallRecord& c) const {
    if (c.kind != uint32_t(OpKind::clamp)) return false;
    const ClampAttrs a = ClampAttrs::read(tape_.attrs.data() + c.first_attr);
    const ViewRecord& y = tape_.views[operand(c, c.ins)];
    return a.low == 0 && a.high == 1 && y.rank == 4 && y.extent[1] == 1;
  }
  bool is_nearest(const CallRecord& c) const { return UpsampleAttrs::read(tape_.attrs.data() + c.first_attr).mode == 0; }
  /// Returns true if the boxes that an element-wise operator reads are the output's, two in a sum: then its kernel leaves pixels out.
  bool are_equal_boxes(const CallRecord& c, const Rule& rule) const {
    if (rule.zeros == 0) return true;
    for (uint32_t i = 0; i < c.ins; i++)
      if (!std::equal(std::begin(tape_.views[operand(c, i)].dims), std::end(tape_.views[operand(c, i)].dims),
                      std::begin(tape_.views[operand(c, c.ins)].dims)))
        return false;
    return rule.zeros != all_inputs || c.ins == 2;
  }
  OutsideOf call(const CallRecord& c);
  bool has_f16(const CallRecord& c) const {
    return std::any_of(&tape_.operands[c.first_operand], &tape_.operands[c.first_operand] + c.ins + c.outs,
                       [&](uint32_t view) { return tape_.views[view].dtype == DType::f16; });
  }

  const Tape& tape_;
  const PageMap& map_;
  std::vector<uint32_t> same_;  // by view: the first of equal content
  std::vector<Fact> facts_;     // by view
  Changes changes_;
  uint32_t now_ = 0;  // the number of the instruction, from 1
};

OutsideOf Search::call(const CallRecord& c) {
  if (c.outs == 0) {
    change(written_by(c));
    return {};
  }
  const uint32_t output = operand(c, c.ins);
  OutsideOf found;
  Fact fact{now_};
  const Rule* const rule = rule_of(c.kind);
  if (has_f16(c)) {
    // Its kernel computes on copies.
  } else if (const uint32_t factor = factor_of(c); factor != NONE) {
    fact.mask = factor;
    const bool in_place = operand(c, 0) == output;
    // Unless zeros are known to be there: the kernel reads them in place, which is quicker than writing them again.
    if (!in_place || mask_of(output) == factor) found = {factor, !in_place};
  } else if (rule && !rule->writes) {
    found.mask = kept_mask(c, rule->zeros);
  } else if (rule && are_equal_boxes(c, *rule)) {
    found.mask = kept_mask(c, rule->zeros);
    if (found.mask == NONE) found.mask = shut_mask(c);
    if (found.mask == NONE) found.mask = later_mask(output);
    found.fills = found.mask != NONE && !(in_place(c) && mask_of(output) == found.mask);
    fact.mask = found.mask;
  } else {
    fact.is_mask = is_clamp_to_mask(c) || (c.kind == uint32_t(OpKind::upsample) && is_nearest(c) && is_mask(operand(c, 0)));
  }
  const ByteRanges written = written_by(c);
  // A mask that nobody reads later gives its bytes to outputs and scratch.
  if (found.mask != NONE && overlap(spans_of(found.mask), written)) {
    found = {};
    fact.mask = NONE;
  }
  change(written);
  facts_[output] = fact;
  return found;
}

}  // namespace

std::vector<OutsideOf> outside_of(const Tape& tape) {
  Tape sorted = tape;
  const Result<PageMap> map = PageMap::of(sorted);
  return map.ok() ? Search(sorted, map.value()).run() : std::vector<OutsideOf>(tape.calls.size());
}

}  // namespace spillway
