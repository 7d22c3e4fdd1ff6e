// cuda_launches TAPE tf32|bf16: what a step of a plan launches on the cuda device, counted on the imitated CUDA, where nothing runs: no
// memory, and no GPU. In: a tape. Out: a line of JSON for each call in its order, {"call", "kind", "kernels", "products", "bytes"}: own
// kernels, calls of cuDNN or cuBLAS, bytes of its operands; calls that go to the device in one go stand at the first of them. Exit code 1
// with a reason.
#include <dlfcn.h>

#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include "gen/ops.h"
#include "plan/reader.hpp"
#include "runtime/devices.hpp"
#include "runtime/open_device.hpp"
#include "runtime/together.hpp"

namespace {

using namespace spillway;

/// The addresses of the tape's buffers, one after the other.
class Addresses {
 public:
  explicit Addresses(const Tape& tape) : tape_(tape) {
    for (const BufferRecord& b : tape.buffers) {
      starts_.push_back(next_);
      next_ += b.pages * PAGE_BYTES;
    }
  }
  void* of(uint32_t view) const {
    if (view == NONE || tape_.views[view].buffer == NONE) return nullptr;
    return reinterpret_cast<void*>(starts_[tape_.views[view].buffer] + tape_.views[view].offset);
  }

 private:
  const Tape& tape_;
  std::vector<uint64_t> starts_;
  uint64_t next_ = uint64_t(1) << 44;
};

View shape_of(const ViewRecord& r) {
  View v;
  v.dtype = r.dtype;
  v.rank = r.rank;
  for (int d = 0; d < 4; d++) {
    v.dims[d] = r.dims[d];
    v.strides[d] = int64_t(r.strides[d]);
    v.origin[d] = r.origin[d];
    v.extent[d] = r.extent[d];
  }
  return v;
}

struct Counted {
  int64_t kernels = 0, products = 0;
};

class Step {
 public:
  Step(const Tape& tape, OpenDevice& device, void (*counted)(int64_t*, int64_t*))
      : tape_(tape), device_(device), counted_(counted), addresses_(tape) {}

  Status prepare() {
    for (const CallRecord& c : tape_.calls) {
      std::vector<View> views;
      std::vector<void*> at;
      for (uint32_t i = 0; i < uint32_t(c.ins) + c.outs; i++) {
        const uint32_t view = tape_.operands[c.first_operand + i];
        views.push_back(shape_of(tape_.views[view]));
        at.push_back(addresses_.of(view));
      }
      at.push_back(reinterpret_cast<void*>(uint64_t(1) << 46));
      Result<PreparedCall> made = device_.prepare({.kind = c.kind,
                                                   .ins = views.data(),
                                                   .n_ins = c.ins,
                                                   .outs = views.data() + c.ins,
                                                   .n_outs = c.outs,
                                                   .attrs = tape_.attrs.data() + c.first_attr,
                                                   .n_attrs = c.attrs,
                                                   .way = c.way});
      if (!made.ok()) return within(made.status(), "call ", calls_.size(), " (", op_info(c.kind)->kind, "): ");
      calls_.push_back({std::move(made).value(), std::move(at)});
    }
    return {};
  }

  Status run() {
    std::vector<const CallGroup*> group_of(tape_.calls.size(), nullptr);
    const std::vector<CallGroup> groups = calls_together(tape_, device_.device());
    for (const CallGroup& g : groups)
      for (const uint32_t call : g.calls) group_of[call] = &g;
    for (uint32_t call = 0; call < calls_.size(); call++) {
      const CallGroup* const group = group_of[call];
      const Counted before = now();
      Status s;
      if (!group)
        s = device_.run(addressed(call));
      else if (group->calls.front() == call)
        s = together(*group);
      if (!s.ok()) return within(s, "call ", call, ": ");
      const Counted after = now();
      std::printf("{\"call\":%u,\"kind\":\"%s\",\"kernels\":%" PRId64 ",\"products\":%" PRId64 ",\"bytes\":%" PRIu64 "}\n", call,
                  op_info(tape_.calls[call].kind)->kind, after.kernels - before.kernels, after.products - before.products,
                  bytes_of(tape_.calls[call]));
    }
    return {};
  }

 private:
  struct Call {
    PreparedCall prepared;
    std::vector<void*> at;
  };
  Addressed addressed(uint32_t call) const { return calls_[call].prepared.at(calls_[call].at.data()); }
  Status together(const CallGroup& g) {
    std::vector<Addressed> all;
    for (const uint32_t call : g.calls) all.push_back(addressed(call));
    return device_.run_together(all);
  }
  Counted now() const {
    Counted c;
    counted_(&c.kernels, &c.products);
    return c;
  }
  uint64_t bytes_of(const CallRecord& c) const {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < uint32_t(c.ins) + c.outs; i++) bytes += dense_bytes(tape_.views[tape_.operands[c.first_operand + i]]);
    return bytes;
  }

  const Tape& tape_;
  OpenDevice& device_;
  void (*counted_)(int64_t*, int64_t*);
  const Addresses addresses_;
  std::vector<Call> calls_;
};

Status count(const char* file_name, Precision precision) {
  std::ifstream file(file_name, std::ios::binary);
  if (!file) return refuse("cannot read ", file_name);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const Result<Tape> tape = read_tape(std::as_bytes(std::span(bytes)));
  if (!tape.ok()) return tape.status();
  const Result<const Device*> device = load_plugin(SPILLWAY_HOST_CUDA);
  if (!device.ok()) return device.status();
  Result<OpenDevice> opened = OpenDevice::open(*device.value(), {1, 0, precision});
  if (!opened.ok()) return opened.status();
  OpenDevice open = std::move(opened).value();
  void* const library = ::dlopen(SPILLWAY_HOST_CUDA, RTLD_NOW | RTLD_NOLOAD);
  const auto control = [&](const char* name) { return ::dlsym(library, name); };
  Step step(tape.value(), open, reinterpret_cast<void (*)(int64_t*, int64_t*)>(control("spillway_host_cuda_counted")));
  if (Status s = step.prepare(); !s.ok()) return s;
  reinterpret_cast<void (*)()>(control("spillway_host_cuda_count"))();
  return step.run();
}

}  // namespace

int main(int argc, char** argv) {
  const Status s = argc == 3 ? count(argv[1], std::string_view(argv[2]) == "bf16" ? Precision::bf16 : Precision::tf32)
                             : refuse("usage: cuda_launches TAPE tf32|bf16");
  if (!s.ok()) std::fprintf(stderr, "cuda_launches: %s\n", s.message.c_str());
  return s.ok() ? 0 : 1;
}
