// Compiles and runs oneDNN primitives on operands that lie in our formats, with the reorders in between.
#include "cpu/onednn.hpp"

#include <malloc.h>
#include <omp.h>

#include <algorithm>

#include "core/kernel.hpp"

namespace spillway::cpu {
namespace {

dnnl::stream& stream_of_thread() {
  thread_local dnnl::stream stream(cpu_engine());
  return stream;
}

dnnl::memory unbound(const dnnl::memory::desc& desc) { return {desc, cpu_engine(), DNNL_MEMORY_NONE}; }

void checked(dnnl_status_t status, const char* what) {
  if (status != dnnl_success) throw dnnl::error(status, what);
}

dnnl::reorder::primitive_desc reorder_between(const Argument& a) {
  const auto &from = a.written ? a.wanted : a.ours, &to = a.written ? a.ours : a.wanted;
  return {cpu_engine(), from, cpu_engine(), to, user_scratchpad()};
}

}  // namespace

std::string library() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

bool has_bf16() {
  constexpr unsigned needed = unsigned(dnnl::cpu_isa::avx512_core_bf16);
  return (unsigned(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

/// The calling thread's workers end: OpenMP hardly spins while there are more of them in all than processors, and a session's,
/// which begin on a thread of its own, would then sleep and be woken at every call. A hard pause: LLVM's runtime keeps them at a soft one.
void forget() {
  omp_pause_resource_all(omp_pause_hard);
  const int capacity = dnnl::get_primitive_cache_capacity();
  dnnl::set_primitive_cache_capacity(0);
  dnnl::set_primitive_cache_capacity(capacity);
  ::malloc_trim(0);
}

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

dnnl::primitive_attr user_scratchpad() {
  // Made afresh each time: copies of an attribute share one handle.
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attr;
}

Compiled::Compiled(MakePrimitive make, const dnnl::memory::desc& scratchpad, const std::vector<Argument>& arguments)
    : make_(std::move(make)), scratchpad_(scratchpad) {
  scratch_ = layout_.place(scratchpad_);
  for (const Argument& argument : arguments) {
    Placed placed{argument, std::nullopt, {}};
    if (placed.argument.ours != placed.argument.wanted) {
      placed.reorder = reorder_between(placed.argument);
      placed.panels = pointwise_weights::panels_of(placed.argument.ours, placed.argument.wanted);
      placed.offset = layout_.place(placed.argument.wanted);
      placed.scratch = layout_.place(placed.reorder->scratchpad_desc());
    }
    placed_.push_back(std::move(placed));
  }
}

void Compiled::prepare() const {
  std::call_once(code_->once, [this] {
    std::vector<dnnl::reorder> reorders;
    reorders.reserve(placed_.size());
    for (const Placed& placed : placed_)
      reorders.push_back(placed.reorder && placed.panels.kind == pointwise_weights::Panels::Kind::none ? dnnl::reorder(*placed.reorder)
                                                                                                       : dnnl::reorder());
    code_->primitive = make_();
    code_->reorders = std::move(reorders);
  });
}

Bound::Bound(const Compiled& compiled) : compiled_(compiled), scratchpad_(unbound(compiled.scratchpad_)) {
  for (const Compiled::Placed& placed : compiled.placed_) {
    const Argument& a = placed.argument;
    Operand o{unbound(a.wanted), {}, {}};
    if (placed.reorder) {
      o.ours = unbound(a.ours);
      o.scratch = unbound(placed.reorder->scratchpad_desc());
    }
    arguments_.push_back({a.id, o.used.get()});
    operands_.push_back(std::move(o));
  }
  arguments_.push_back({DNNL_ARG_SCRATCHPAD, scratchpad_.get()});
}

void Bound::reorder(size_t i, const dnnl::memory& from, const dnnl::memory& to) {
  const auto& [argument, unused, panels, offset, scratch] = compiled_.placed_[i];
  if (panels.kind != pointwise_weights::Panels::Kind::none) {
    const float* const source = static_cast<const float*>(from.get_data_handle());
    if (argument.written)
      pointwise_weights::into_rows(dims_of(argument.ours), panels, source, static_cast<float*>(to.get_data_handle()));
    else
      pointwise_weights::into_panels(dims_of(argument.ours), panels, source, to.get_data_handle());
    return;
  }
  const dnnl_exec_arg_t arguments[] = {
      {DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}, {DNNL_ARG_SCRATCHPAD, operands_[i].scratch.get()}};
  checked(dnnl_primitive_execute(compiled_.code_->reorders[i].get(), stream_of_thread().get(), 3, arguments), "a reorder failed");
}

void Bound::run(std::span<void* const> data, void* workspace) {
  char* const places = static_cast<char*>(workspace);
  scratchpad_.set_data_handle(places + compiled_.scratch_);
  for (size_t i = 0; i < operands_.size(); i++) {
    const Compiled::Placed& placed = compiled_.placed_[i];
    const Operand& o = operands_[i];
    o.used.set_data_handle(placed.reorder ? places + placed.offset : data[i]);
    if (!placed.reorder) continue;
    o.ours.set_data_handle(data[i]);
    o.scratch.set_data_handle(places + placed.scratch);
    if (!placed.argument.written) reorder(i, o.ours, o.used);
  }
  checked(dnnl_primitive_execute(compiled_.code_->primitive.get(), stream_of_thread().get(), int(arguments_.size()), arguments_.data()),
          "a primitive failed");
  for (size_t i = 0; i < operands_.size(); i++)
    if (compiled_.placed_[i].reorder && compiled_.placed_[i].argument.written) reorder(i, operands_[i].used, operands_[i].ours);
  stream_of_thread().wait();
}

}  // namespace spillway::cpu
