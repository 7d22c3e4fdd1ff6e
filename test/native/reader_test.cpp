// The tape reader: good tapes pass, and each kind of spoiled tape is refused in words that name the fault.
#include <ctime>
#include <functional>
#include <limits>

#include "test/native/checking.hpp"
#include "test/native/tape_builder.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

Status read_status(const TapeBuilder& t) {
  const Result<Tape> r = read_tape(t.bytes());
  return r.ok() ? Status{} : r.status();
}

struct Spoiled {
  const char* says;
  std::function<void(TapeBuilder&)> spoil;
};

/// Index of the n-th instruction with this tag.
size_t find(const TapeBuilder& t, Tag tag, int n = 0) {
  for (size_t i = 0; i < t.instrs.size(); i++)
    if (t.instrs[i].tag == tag && n-- == 0) return i;
  throw std::runtime_error("no such instruction");
}

void drop(TapeBuilder& t, Tag tag, int n = 0) { t.instrs.erase(t.instrs.begin() + ptrdiff_t(find(t, tag, n))); }
void move(TapeBuilder& t, size_t from, size_t to) {
  const InstrRecord i = t.instrs[from];
  t.instrs.erase(t.instrs.begin() + ptrdiff_t(from));
  t.instrs.insert(t.instrs.begin() + ptrdiff_t(to), i);
}

// In the swapped classifier: residencies 0 small, 1 labels, 2 x, 3 y, 4 back; buffers in the same order; transfers 0 labels,
// 1 x, 2 y out, 3 y in; events likewise; calls 0 relu, 1 pool, 2 linear, 3 loss, 4 its backward, 5 weights, 6 and 7 sgd.
const Spoiled SPOILED[] = {
    {"tape version 7", [](auto& t) { t.version = 7; }},
    {"unknown float type", [](auto& t) { t.float_type = DType(2); }},
    {"pages of 4096", [](auto& t) { t.page_bytes = 4096; }},
    {"exceeds the budget", [](auto& t) { t.budget--; }},
    {"exceed the end of the pool", [](auto& t) { t.peak--; }},
    {"the header says",
     [](auto& t) {
       t.peak++;
       t.budget++;
     }},
    {"buffer 0: 0 bytes", [](auto& t) { t.buffers[0].bytes = 0; }},
    {"bytes in 1 pages", [](auto& t) { t.buffers[0].bytes = PAGE_BYTES + 1; }},
    {"buffer 2: ", [](auto& t) { t.buffers[2].pages = 1ull << 40; }},
    {"mapping 1: there is no buffer", [](auto& t) { t.mappings[1].buffer = 9; }},
    {"mapping 1: there is no residency", [](auto& t) { t.mappings[1].residency = 9; }},
    {"exceed the end of buffer 2", [](auto& t) { t.mappings[2].va_page = 1; }},
    {"exceed the end of the pool", [](auto& t) { t.mappings[3].phys_page++; }},
    {"exceed the end of the pool", [](auto& t) { t.mappings[3].phys_page = 0xffffffff; }},
    {"no pages", [](auto& t) { t.mappings[1].count = 0; }},
    {"is mapped twice", [](auto& t) { t.mappings.push_back(t.mappings[1]); }},
    {"maps physical page",
     [](auto& t) {
       t.buffers[1] = {2, 8};
       t.mappings.push_back({1, 1, 1, 1, 1, 0});
       t.residencies[1].pages = 2;
     }},
    {"maps other pages in buffer",
     [](auto& t) {
       t.buffers.push_back({1, 64});
       t.mappings.push_back({5, 0, 0, 1, 1, 0});
     }},
    {"residency 2: the record says", [](auto& t) { t.residencies[2].pages--; }},
    {"residency 2: unknown flags", [](auto& t) { t.residencies[2].flags = 4; }},
    {"unknown element type", [](auto& t) { t.views[0].dtype = DType(6); }},
    {"rank 5", [](auto& t) { t.views[0].rank = 5; }},
    {"there is no buffer 7", [](auto& t) { t.views[0].buffer = 7; }},
    {"not a multiple of the element size", [](auto& t) { t.views[0].offset = 4; }},
    {"is empty", [](auto& t) { t.views[0].dims[0] = 0; }},
    {"exceeds the whole value", [](auto& t) { t.views[8].origin[2] = 1; }},
    {"exceeds the end of buffer", [](auto& t) { t.views[0].offset = 8192; }},
    {"exceeds the end of buffer", [](auto& t) { t.views[0].offset = ~7ull; }},
    {"exceeds the end of buffer", [](auto& t) { t.views[8].strides[0] = ~0ull; }},
    {"exceeds the end of buffer", [](auto& t) { t.views[8].strides[2] = 1ull << 61; }},
    {"share an address", [](auto& t) { t.views[8].strides[2] = 0; }},
    {"share an address", [](auto& t) { t.views[9].strides[3] = 2; }},
    {"no call makes mask 3", [](auto& t) { t.calls[0].mask = 3; }},
    {"its output is no mask",
     [](auto& t) {
       t.calls[0].mask = 0;
       t.calls[0].flags = 2;
     }},
    {"makes mask 4294967295 of 8 calls", [](auto& t) { t.calls[0].flags = 2; }},
    {"unknown flags 8", [](auto& t) { t.calls[0].flags = 8; }},
    {"unknown operator 99", [](auto& t) { t.calls[0].kind = 99; }},
    {"call 0: relu: 2 inputs", [](auto& t) { t.calls[0].ins = 2; }},
    {"call 0: relu: 0 outputs", [](auto& t) { t.calls[0].outs = 0; }},
    {"operands exceed the end", [](auto& t) { t.calls[0].first_operand = 0xfffffff0; }},
    {"there is no view 77", [](auto& t) { t.operands[0] = 77; }},
    {"is a template", [](auto& t) { t.operands[0] = 12; }},
    {"not stored channels-last",
     [](auto& t) {
       const uint64_t natural[4] = {360000, 120000, 400, 1};
       std::memcpy(t.views[8].strides, natural, sizeof natural);
     }},
    {"call 0: relu: output 0 (y): view 9 has element type bf16", [](auto& t) { t.views[9].dtype = DType::bf16; }},
    {"element type bf16 is not the tape's float type", [](auto& t) { t.views[0].dtype = t.bindings[0].dtype = DType::bf16; }},
    {"has element type i32", [](auto& t) { t.operands[t.calls[2].first_operand] = 11; }},
    {"is not dense and whole",
     [](auto& t) {
       t.views[0].origin[0] = 1;
       t.views[0].extent[0] = 6;
     }},
    {"has rank 2, not 4", [](auto& t) { t.operands[t.calls[2].first_operand] = 0; }},
    {"attributes instead of 1", [](auto& t) { t.calls[0].attrs = 0; }},
    {"attributes exceed the end", [](auto& t) { t.calls[0].first_attr = 1000; }},
    {"is not finite", [](auto& t) { t.attrs[0] = std::numeric_limits<double>::infinity(); }},
    {"is not an integer", [](auto& t) { t.attrs[t.calls[1].first_attr] = 0.5; }},
    {"is not an integer", [](auto& t) { t.attrs[t.calls[1].first_attr] = 1e300; }},
    {"is not a contiguous range of bytes", [](auto& t) { t.calls[0].workspace_view = 8; }},
    {"there is no view 99", [](auto& t) { t.calls[0].workspace_view = 99; }},
    {"overlaps operand", [](auto& t) { t.calls[2].workspace_view = 1; }},
    {"transfer 2: offset", [](auto& t) { t.transfers[2].offset = 8; }},
    {"transfer 2: it exceeds the end of buffer", [](auto& t) { t.transfers[2].bytes = 1ull << 40; }},
    {"transfer 2: it exceeds the end of the lower tier", [](auto& t) { t.tier_bytes -= 1; }},
    {"transfer 2: tier offset", [](auto& t) { t.transfers[2].far_offset = 512; }},
    {"transfer 1: it exceeds the end of binding", [](auto& t) { t.transfers[1].far_offset = 8; }},
    {"transfer 1: it starts or ends inside an element", [](auto& t) { t.transfers[1].bytes -= 1; }},
    {"names no binding", [](auto& t) { t.transfers[1].binding = NONE; }},
    {"the reserved field", [](auto& t) { t.instrs[find(t, Tag::call)].b = 1; }},
    {"the reserved field", [](auto& t) { t.views[3].reserved = 1; }},
    {"is not an input", [](auto& t) { t.transfers[1].binding = 0; }},
    {"there is no binding", [](auto& t) { t.transfers[1].binding = 50; }},
    {"name exceeds the end", [](auto& t) { t.bindings[0].name_bytes = 0xffffffff; }},
    {"two bindings are named 'image'",
     [](auto& t) {
       t.bindings[3].name_offset = t.bindings[2].name_offset;
       t.bindings[3].name_bytes = t.bindings[2].name_bytes;
     }},
    {"unknown role", [](auto& t) { t.bindings[0].role = BindingRole(9); }},
    {"unknown distribution", [](auto& t) { t.bindings[0].dist = Dist(9); }},
    {"in its view", [](auto& t) { t.bindings[0].dtype = DType::f32; }},
    {"its view has no buffer", [](auto& t) { t.bindings[4].view = t.bindings[2].view; }},
    {"its home exceeds the end of the lower tier",
     [](auto& t) {
       t.bindings[0].view = t.bindings[2].view;
       t.bindings[0].home = 4096;
     }},
    {"is not a multiple of",
     [](auto& t) {
       t.bindings[0].view = t.bindings[2].view;
       t.bindings[0].home = 8;
     }},
    {"only a value that is in the lower tier between steps may have a home there", [](auto& t) { t.bindings[0].home = 4096; }},
    {"its home overlaps another binding's", [](auto& t) { t.bindings[0].view = t.bindings[1].view = t.bindings[2].view; }},
    {"moves only a part of the residency's bytes of 'head.weight'",
     [](auto& t) {
       t.bindings[0].view = t.bindings[2].view;
       t.transfers[2].bytes -= 4096;
     }},
    {"has another offset in the home of 'head.weight'",
     [](auto& t) {
       t.bindings[0].view = t.bindings[2].view;
       t.transfers[2].offset = 4096;
       t.transfers[2].bytes -= 4096;
     }},
    {"bytes behind the homes in its buffer",
     [](auto& t) {
       t.bindings[0].view = t.view(NONE, 0, {1, 1, 1, 8}, false, DType::f64);
     }},
    {"has another offset in the home of 'head.weight'",
     [](auto& t) {
       t.bindings[0].view = t.view(NONE, 4096, {1, 1, 1, 8}, false, DType::f64);
       t.bindings[0].home = 8192;
       t.transfers[2].offset = 8192;
     }},
    {"the template of an input or output has no offset", [](auto& t) { t.views[t.bindings[2].view].offset = 4096; }},
    {"was written after its last copy to its home",
     [](auto& t) {  // the relu that is back is what has a home: another call writes it
       t.bindings[0].view = t.bindings[2].view;
       const size_t read = find(t, Tag::call, 1);
       t.instrs.insert(t.instrs.begin() + ptrdiff_t(read), {Tag::call, t.call(OpKind::relu, {10}, {10}, {0}), 0, 0});
     }},
    {"no call writes this loss", [](auto& t) { t.bindings[4].view = t.view(0, 4096, {1}, false, DType::f64); }},
    {"not held permanently", [](auto& t) { t.bindings[0].view = 9; }},

    {"unknown instruction", [](auto& t) { t.instrs[0].tag = Tag(9); }},
    {"there is no call", [](auto& t) { t.instrs[find(t, Tag::call)].a = 100; }},
    {"there is no residency", [](auto& t) { t.instrs[find(t, Tag::acquire)].a = 100; }},
    {"there is no transfer", [](auto& t) { t.instrs[find(t, Tag::swap_in)].a = 100; }},
    {"there is no event", [](auto& t) { t.instrs[find(t, Tag::swap_in)].b = 100; }},
    {"unknown cause", [](auto& t) { t.instrs[find(t, Tag::wait)].b = 3; }},
    {"events, but only", [](auto& t) { t.events = 0xffffffff; }},
    {"is held already", [](auto& t) { t.instrs[find(t, Tag::acquire, 1)].a = 1; }},
    {"belongs to residency 3",
     [](auto& t) {
       move(t, find(t, Tag::release, 1), find(t, Tag::call, 1));
       t.mappings[4].phys_page = t.mappings[3].phys_page;
     }},
    {"residency 3 has a copy in progress", [](auto& t) { drop(t, Tag::wait, 1); }},
    {"is not held", [](auto& t) { drop(t, Tag::acquire, 2); }},
    {"is not held", [](auto& t) { move(t, find(t, Tag::release), find(t, Tag::call)); }},
    {"is held permanently", [](auto& t) { t.instrs[find(t, Tag::release)].a = 0; }},
    {"still held at the end", [](auto& t) { drop(t, Tag::release, 3); }},
    {"still swapping these bytes in", [](auto& t) { drop(t, Tag::wait, 0); }},
    {"still swapping these bytes out",
     [](auto& t) {
       const size_t after = find(t, Tag::swap_out) + 1;
       t.instrs.insert(t.instrs.begin() + ptrdiff_t(after), {Tag::call, 0, 0, 0});
       move(t, find(t, Tag::release), after);
     }},
    {"has a wait before its signal", [](auto& t) { move(t, find(t, Tag::wait), 0); }},
    {"belongs to a copy; its wait has the wrong cause, ranks", [](auto& t) { t.instrs[find(t, Tag::wait)].b = 2; }},
    {"is signalled twice", [](auto& t) { t.instrs[find(t, Tag::swap_in, 1)].b = 0; }},
    {"is never waited for",
     [](auto& t) {
       drop(t, Tag::wait, 3);
       t.calls[3].ins = 2;
       drop(t, Tag::call, 3);
       drop(t, Tag::call, 3);
       drop(t, Tag::release, 3);
       t.residencies[1].flags = 1;
       drop(t, Tag::acquire);
       t.bindings.pop_back();
     }},
    {"is never signalled", [](auto& t) { t.events++; }},
    {"nothing was written to tier byte",
     [](auto& t) {
       t.tier_bytes *= 2;
       t.transfers[3].far_offset = 4096;
     }},
    {"no wait for the copy that writes tier byte",
     [](auto& t) {
       move(t, find(t, Tag::wait, 1), find(t, Tag::call, 1));
       drop(t, Tag::release, 1);
       t.peak = t.budget = 12;
     }},
    {"comes from the data source", [](auto& t) { t.instrs[find(t, Tag::swap_out)].a = 1; }},
    {"it names no binding", [](auto& t) { t.transfers[2].far = Far::sink; }},
    {"is not an output",
     [](auto& t) {
       t.transfers[2].far = Far::sink;
       t.transfers[2].binding = 0;
     }},
    {"bytes of residency 4, not 3", [](auto& t) { t.transfers[3].residency = 3; }},
};

void good_tapes() {
  for (const bool swapped : {false, true})
    for (const DType real : {DType::f32, DType::f64}) {
      const Status s = read_status(classifier(swapped, real));
      check(s.ok(), "a good tape passes", __FILE__, __LINE__, s.message);
    }
}

void spoiled_tapes() {
  for (const Spoiled& s : SPOILED) {
    TapeBuilder t = classifier(true);
    s.spoil(t);
    const Status status = read_status(t);
    test(s.says, [&] { check(contains(status.message, s.says), s.says, __FILE__, __LINE__, status.message); });
  }
}

/// The classifier's tape with a weight that is laid out and a convolution that reads it: the last views are w, laid, x, y, in its image's
/// buffer.
TapeBuilder with_laid_weight() {
  TapeBuilder t = classifier(true);
  const uint32_t b = 2;
  const uint32_t w = t.view(b, 0, {4, 3, 3, 3}, false, DType::f64), laid = t.view(b, 4096, {4, 3, 3, 3}, true, DType::f64);
  const uint32_t x = t.view(b, 8192, {1, 3, 8, 8}, true, DType::f64), y = t.view(b, 16384, {1, 4, 6, 6}, true, DType::f64);
  t.call(OpKind::lay_out, {w}, {laid});
  t.call(OpKind::conv2d, {x, laid}, {y}, {1, 1, 0, 0, 0, 0, 1, 1, 1});
  return t;
}

void in_bf16(TapeBuilder& t, std::initializer_list<size_t> views) {
  for (const size_t v : views) t.views[v].dtype = DType::bf16;
}

/// A weight has its natural order in floats, or channels innermost in the stored type of activations; the layout call writes that.
void laid_weights() {
  const size_t Y = with_laid_weight().views.size() - 1, X = Y - 1, LAID = Y - 2, W = Y - 3;
  const std::string w = "view " + std::to_string(W), laid = "view " + std::to_string(LAID);
  const auto says = [](const std::function<void(TapeBuilder&)>& change) {
    TapeBuilder t = with_laid_weight();
    change(t);
    const std::string message = read_status(t).message;
    return message.find("not dense and whole") != std::string::npos || message.find("element type") != std::string::npos ? message
                                                                                                                         : std::string();
  };
  const auto conv_reads = [](TapeBuilder& t, size_t view) { t.operands[t.calls.back().first_operand + 1] = uint32_t(view); };
  CHECK(says([](auto&) {}).empty());
  CHECK(says([&](auto& t) { in_bf16(t, {LAID, X, Y}); }).empty());
  CHECK(says([&](auto& t) { conv_reads(t, W); }).empty());
  CHECK(says([&](auto& t) {
          in_bf16(t, {LAID, X, Y});
          conv_reads(t, W);
        }).empty());
  CHECK(contains(says([&](auto& t) { in_bf16(t, {LAID}); }), "conv2d: input 1 (w): " + laid + " has element type bf16"));
  CHECK(contains(says([&](auto& t) { in_bf16(t, {X, Y}); }), "conv2d: input 1 (w): " + laid + " is not dense and whole"));
  CHECK(contains(says([&](auto& t) {
                   in_bf16(t, {W, X, Y});
                   conv_reads(t, W);
                 }),
                 "lay_out: input 0 (w): " + w + " has element type bf16"));
  CHECK(contains(says([&](auto& t) { t.views[LAID].strides[0] = 28; }), laid + " is not dense and whole"));
  CHECK(contains(says([&](auto& t) { t.views[LAID].extent[2] = 4; }), laid + " is not dense and whole"));
  CHECK(contains(says([&](auto& t) { t.operands[t.calls[t.calls.size() - 2].first_operand + 1] = W; }),
                 "lay_out: output 0 (laid): " + w + " is not dense and whole"));
  CHECK(contains(says([&](auto& t) { t.operands[t.calls[t.calls.size() - 2].first_operand] = LAID; }),
                 "lay_out: input 0 (w): " + laid + " is not dense and whole"));
}

void raw_bytes() {
  const std::vector<std::byte> good = classifier(true).bytes();
  for (size_t n = 0; n < good.size(); n += n < 400 ? 1 : 97) CHECK(!read_tape(std::span(good).first(n)).ok());
  for (size_t i = 0; i < good.size(); i += 7) {
    std::vector<std::byte> flipped = good;
    flipped[i] ^= std::byte(1 << i % 8);
    CHECK(!read_tape(flipped).ok());
  }
}

/// A long chain of relus between two values that come and go: `calls` calls, three instructions each.
TapeBuilder long_tape(uint32_t calls, uint32_t mappings_each) {
  TapeBuilder t;
  const uint64_t bytes = mappings_each * PAGE_BYTES;
  uint32_t views[3], r[3];
  const uint32_t side = mappings_each * 512;
  for (int i = 0; i < 3; i++) {
    const uint32_t b = t.buffer(bytes);
    views[i] = t.view(b, 0, {1, 1, side, 1024}, true, DType::f32);
    r[i] = uint32_t(t.residencies.size());
    t.residencies.push_back({mappings_each, i == 0 ? 1u : 0u, 0});
    for (uint32_t p = 0; p < mappings_each; p++) t.mappings.push_back({b, p, i * mappings_each + (mappings_each - 1 - p), 1, r[i], 0});
  }
  t.float_type = DType::f32;
  t.peak = t.budget = 3 * mappings_each;
  t.emit(Tag::acquire, r[1]);
  for (uint32_t i = 0; i < calls; i++) {
    t.emit(Tag::acquire, r[2]);
    t.emit(Tag::call, t.call(OpKind::relu, {views[1]}, {views[2]}, {0}));
    t.emit(Tag::release, r[1]);
    std::swap(r[1], r[2]);
    std::swap(views[1], views[2]);
  }
  t.emit(Tag::release, r[1]);
  return t;
}

double seconds_to_read(const TapeBuilder& t) {
  const std::vector<std::byte> bytes = t.bytes();
  const std::clock_t start = std::clock();  // of the processor: others may keep it busy
  const Result<Tape> r = read_tape(bytes);
  const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  check(r.ok(), "a long tape passes", __FILE__, __LINE__, r.ok() ? "" : r.status().message);
  return seconds;
}

}  // namespace

int main() {
  test("good tapes pass", good_tapes);
  spoiled_tapes();
  test("laid-out weights have their layout", laid_weights);
  test("truncated and flipped bytes are refused", raw_bytes);
  test("200 000 instructions over 3 000 mappings, and 30 000 mappings, take seconds at most under any sanitizer", [] {
    CHECK(seconds_to_read(long_tape(66'000, 8)) < 5);
    CHECK(seconds_to_read(long_tape(100, 10'000)) < 5);
  });
  return finish();
}
