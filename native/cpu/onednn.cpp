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

dnnl::memory bind(const dnnl::memory::desc& desc, void* data) { return {desc, cpu_engine(), data}; }

dnnl::reorder::primitive_desc reorder_between(const Argument& a) {
  const auto &from = a.written ? a.wanted : a.ours, &to = a.written ? a.ours : a.wanted;
  return {cpu_engine(), from, cpu_engine(), to, user_scratchpad()};
}

struct Registry {
  std::mutex mutex;
  std::vector<Forgettable*> members;
};

/// Outlives every cache: they are function-local statics, and so is this, made by the first of them.
Registry& registry() {
  static Registry all;
  return all;
}

}  // namespace

Forgettable::Forgettable() {
  const std::lock_guard lock(registry().mutex);
  registry().members.push_back(this);
}

Forgettable::~Forgettable() {
  const std::lock_guard lock(registry().mutex);
  std::erase(registry().members, this);
}

std::string library() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

bool has_bf16() {
  constexpr unsigned needed = unsigned(dnnl::cpu_isa::avx512_core_bf16);
  return (unsigned(dnnl::get_effective_cpu_isa()) & needed) == needed;
}

/// Kernels of open sessions are compiled again when they next run, so this belongs before a session, not beside one.
/// The calling thread's workers end: OpenMP hardly spins while there are more of them in all than processors, and a session's,
/// which begin on a thread of its own, would then sleep and be woken at every call.
void forget() {
  omp_pause_resource_all(omp_pause_soft);
  {
    const std::lock_guard lock(registry().mutex);
    for (Forgettable* f : registry().members) f->forget();
  }
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

Compiled::Compiled(MakePrimitive make, const dnnl::memory::desc& scratchpad, std::vector<Argument> arguments)
    : make_(std::move(make)), scratchpad_(scratchpad) {
  scratch_ = layout_.place(scratchpad_);
  for (Argument& argument : arguments) {
    Placed placed{std::move(argument), std::nullopt, {}};
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
    for (const Placed& placed : placed_)
      reorders.push_back(placed.reorder && placed.panels.kind == pointwise_weights::Panels::Kind::none ? dnnl::reorder(*placed.reorder) : dnnl::reorder());
    code_->primitive = make_();
    code_->reorders = std::move(reorders);
  });
}

void Compiled::reorder(size_t i, const dnnl::memory& from, const dnnl::memory& to, char* workspace) const {
  if (const auto& panels = placed_[i].panels; panels.kind != pointwise_weights::Panels::Kind::none) {
    const Argument& a = placed_[i].argument;
    const float* const source = static_cast<const float*>(from.get_data_handle());
    if (a.written) pointwise_weights::into_rows(a.ours.dims(), panels, source, static_cast<float*>(to.get_data_handle()));
    else pointwise_weights::into_panels(a.ours.dims(), panels, source, to.get_data_handle());
    return;
  }
  const dnnl::memory scratch = bind(placed_[i].reorder->scratchpad_desc(), workspace + placed_[i].scratch);
  code_->reorders[i].execute(stream_of_thread(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}, {DNNL_ARG_SCRATCHPAD, scratch}});
}

void Compiled::run(const std::vector<void*>& data, void* workspace) const {
  prepare();
  char* const scratch = static_cast<char*>(workspace);
  std::unordered_map<int, dnnl::memory> memories{{DNNL_ARG_SCRATCHPAD, bind(scratchpad_, scratch + scratch_)}};
  for (size_t i = 0; i < placed_.size(); i++) {
    const auto& [argument, reorders, panels, offset, unused] = placed_[i];
    const dnnl::memory used = bind(argument.wanted, reorders ? scratch + offset : data[i]);
    if (reorders && !argument.written) reorder(i, bind(argument.ours, data[i]), used, scratch);
    memories.emplace(argument.id, used);
  }
  code_->primitive.execute(stream_of_thread(), memories);
  for (size_t i = 0; i < placed_.size(); i++)
    if (const Argument& a = placed_[i].argument; placed_[i].reorder && a.written)
      reorder(i, memories.at(a.id), bind(a.ours, data[i]), scratch);
  stream_of_thread().wait();
}

}  // namespace spillway::cpu
