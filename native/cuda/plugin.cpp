// The table of the cuda device, and the one function that the plugin exports. Exceptions end here, as words.
#include <algorithm>
#include <exception>

#include "cuda/conv2d.hpp"
#include "cuda/linear.hpp"
#include "cuda/own_kernels.hpp"

namespace spillway {

namespace cuda {
namespace {

Context* of(DeviceContext* c) { return reinterpret_cast<Context*>(c); }

/// f gives a Status.
template <class F>
Code reported(Words* words, F f) {
  try {
    return report(words, f());
  } catch (const std::exception& e) {
    return report(words, failed(Code::device, e.what()));
  }
}

/// f gives a Result; its value goes to `into`.
template <class T, class F>
Code reported_value(Words* words, T* into, F f) {
  return reported(words, [&]() -> Status {
    auto result = f();
    if (!result.ok()) return result.status();
    *into = result.value();
    return {};
  });
}

template <size_t N>
Status name_carrier(char (&into)[N]) {
  if (!nccl().ok()) return nccl().status();
  int version = 0;
  if (nccl().value().ncclGetVersion(&version) != NCCL_SUCCESS) return failed(Code::device, "NCCL does not report its version");
  std::snprintf(into, N, "NCCL %s", nccl_version(version).c_str());
  return {};
}

bool is_product(uint32_t wire) {
  const OpKind kind = OpKind(wire);
  return kind == OpKind::linear || kind == OpKind::linear_bwd_data || kind == OpKind::linear_bwd_weights;
}

Code open(const OpenOptions* options, DeviceContext** into, Words* words) {
  return reported(words, [&]() -> Status {
    auto opened = Context::open(*options);
    if (!opened.ok()) return opened.status();
    *into = reinterpret_cast<DeviceContext*>(std::move(opened).value().release());
    return {};
  });
}

Ready* of(DeviceCall* c) { return reinterpret_cast<Ready*>(c); }

Result<std::vector<Way>> ways_of(const Context& context, const KernelCall& call, uint32_t most) {
  const OwnFunctions& f = *own_functions(call.kind);
  if (Status s = context.takes(call); !s.ok()) return s;
  if (Status s = f.check(call); !s.ok()) return s;
  if (f.library)
    return is_product(call.kind) ? linear_ways(call, context.precision(), most) : convolution_ways(call, context.precision(), most);
  return std::vector{Way{0, true, uint64_t(f.workspace(call)), "own"}};
}

Result<std::unique_ptr<Ready>> ready(const Context& context, const KernelCall& call) {
  const OwnFunctions& f = *own_functions(call.kind);
  if (Status s = context.takes(call); !s.ok()) return s;
  if (Status s = f.check(call); !s.ok()) return s;
  if (!f.library) return ready_own(call);
  return is_product(call.kind) ? ready_linear(call, context.precision()) : ready_convolution(call, context.precision());
}

Code ways(DeviceContext* c, const KernelCall* call, uint32_t most, Way* into, uint32_t* n, Words* words) {
  return reported(words, [&]() -> Status {
    const Result<std::vector<Way>> found = ways_of(*of(c), *call, most);
    if (!found.ok()) return found.status();
    *n = uint32_t(std::min<size_t>(most, found.value().size()));
    std::copy_n(found.value().begin(), *n, into);
    return {};
  });
}

Code prepare(DeviceContext* c, const KernelCall* call, DeviceCall** into, uint64_t* workspace_bytes, Words* words) {
  return reported(words, [&]() -> Status {
    auto made = ready(*of(c), *call);
    if (!made.ok()) return made.status();
    *workspace_bytes = uint64_t(made.value()->workspace_bytes());
    *into = reinterpret_cast<DeviceCall*>(std::move(made).value().release());
    return {};
  });
}

Code run(DeviceContext* c, const Addressed* addressed, Words* words) {
  return reported(words, [&] {
    Ready& call = *of(addressed->call);
    call.place(addressed->at);
    of(c)->waits_later(addressed->beside);
    return call.run(*of(c));
  });
}

Code run_together(DeviceContext* c, const Addressed* calls, uint32_t n, Words* words) {
  return reported(words, [&] {
    std::vector<OwnedCall> owned;
    std::vector<KernelCall> placed;
    owned.reserve(n);
    for (uint32_t i = 0; i < n; i++) {
      owned.push_back(of(calls[i].call)->owned());
      owned.back().place(calls[i].at);
      placed.push_back(owned.back().call);
    }
    return run_own_together(placed.data(), n, *of(c));
  });
}

uint32_t most_together(uint32_t wire) {
  const OwnFunctions* f = own_functions(wire);
  return f ? f->together : 1;
}

constexpr Device DEVICE{
    .version = DEVICE_TABLE_VERSION,
    .bytes = sizeof(Device),
    .name = "cuda",
    .float_type = DType::f32,
    .precisions =
        precision_bit(Precision::fp32) | precision_bit(Precision::tf32) | precision_bit(Precision::bf16) | precision_bit(Precision::fp16),
    .asynchronous = true,
    .facts = [](DeviceFacts* into, Words* w) { return reported(w, [&] { return device_facts(*into); }); },
    .has_kernel = [](uint32_t wire) { return own_functions(wire) != nullptr; },
    .forget = nullptr,
    .set_threads = nullptr,
    .bind_threads = nullptr,
    .open = open,
    .close = [](DeviceContext* c) { delete of(c); },
    .map = [](DeviceContext* c, const PoolLayout* l, std::byte** at,
              Words* w) { return reported_value(w, at, [&] { return of(c)->map(*l); }); },
    .pool_bytes = [](DeviceContext* c) { return of(c)->pool_bytes(); },
    .memory = [](DeviceContext* c, DeviceMemory* into, Words* w) { return reported_value(w, into, [&] { return of(c)->memory(); }); },
    .pin = [](DeviceContext* c, uint64_t bytes, std::byte** at,
              Words* w) { return reported_value(w, at, [&] { return of(c)->pin(bytes); }); },
    .ways = ways,
    .prepare = prepare,
    .release = [](DeviceContext*, DeviceCall* call) { delete of(call); },
    .run = run,
    .run_together = run_together,
    .most_together = most_together,
    .begin_step = [](DeviceContext* c, const StepContext* s, Words* w) { return reported(w, [&] { return of(c)->begin_step(*s); }); },
    .copy = [](DeviceContext* c, Lane lane, void* to, const void* from, uint64_t n,
               Words* w) { return reported(w, [&] { return of(c)->copy(lane, to, from, n); }); },
    .record = [](DeviceContext* c, Lane lane, uint32_t e, Words* w) { return reported(w, [&] { return of(c)->record(lane, e); }); },
    .wait = [](DeviceContext* c, Lane lane, uint32_t e, Words* w) { return reported(w, [&] { return of(c)->wait(lane, e); }); },
    .finish = [](DeviceContext* c, Lane lane, Words* w) { return reported(w, [&] { return of(c)->finish(lane); }); },
    .stamp = [](DeviceContext* c, Lane lane, uint32_t n, Words* w) { return reported(w, [&] { return of(c)->stamp(lane, n); }); },
    .seconds_between = [](DeviceContext* c, uint32_t from, uint32_t to) { return of(c)->seconds_between(from, to); },
    .begin_capture = [](DeviceContext* c, Words* w) { return reported(w, [&] { return of(c)->begin_capture(); }); },
    .end_capture = [](DeviceContext* c, uint32_t* graph,
                      Words* w) { return reported_value(w, graph, [&] { return of(c)->end_capture(); }); },
    .launch = [](DeviceContext* c, uint32_t graph, Words* w) { return reported(w, [&] { return of(c)->launch(graph); }); },
    .carrier = [](char (*name)[64], Words* w) { return reported(w, [&] { return name_carrier(*name); }); },
    .leave_ranks = [](DeviceContext* c) { of(c)->leave_ranks(); },
};

}  // namespace
}  // namespace cuda
}  // namespace spillway

extern "C" __attribute__((visibility("default"))) const spillway::Device* spillway_device_table(uint32_t version) {
  return version == spillway::DEVICE_TABLE_VERSION ? &spillway::cuda::DEVICE : nullptr;
}
