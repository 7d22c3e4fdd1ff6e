// Asks cuDNN's heuristics for engines, and leaves out those with unwanted notes. A plan is made at the first request of its
// rank: some engines are compiled then, which takes long.
#include "cuda/backend.hpp"

#include <algorithm>
#include <mutex>

namespace spillway::cuda {
namespace {

const Cudnn& api() { return cudnn().value(); }

bool has_note(const std::vector<cudnnBackendNumericalNote_t>& notes, cudnnBackendNumericalNote_t note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

using Notes = std::vector<cudnnBackendNumericalNote_t>;
struct EngineFacts {
  Notes notes;
  int64_t number;
};

Result<EngineFacts> facts_of(const Descriptor& config) {
  Result<Descriptor> engine = Descriptor::create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  if (!engine.ok()) return engine.status();
  int64_t found = 0;
  cudnnBackendDescriptor_t into = engine.value().raw();
  SPILLWAY_TRY(
      checked(api().cudnnBackendGetAttribute(config.raw(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &found, &into),
              "asking for an engine"));
  Notes notes(CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  SPILLWAY_TRY(checked(api().cudnnBackendGetAttribute(into, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                                      int64_t(notes.size()), &found, notes.data()),
                       "asking for an engine's notes"));
  notes.resize(size_t(std::clamp<int64_t>(found, 0, int64_t(notes.size()))));
  int64_t number = 0;
  SPILLWAY_TRY(checked(api().cudnnBackendGetAttribute(into, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &found, &number),
                       "asking for an engine's number"));
  return EngineFacts{std::move(notes), number};
}

enum class Worth { exact, loose, nothing };

/// Large Winograd tiles lose digits. Tensor cores round their inputs, and down-converting engines round them further than requested.
Worth worth_of(const Notes& notes, bool tensor_cores) {
  if (has_note(notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return Worth::nothing;
  if (has_note(notes, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return Worth::nothing;
  if (has_note(notes, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6) || has_note(notes, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13))
    return Worth::nothing;
  if (!tensor_cores && has_note(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE)) return Worth::nothing;
  return has_note(notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) ? Worth::loose : Worth::exact;
}

/// Empty when cuDNN knows none in this mode; any other answer is a failure.
Result<std::vector<Descriptor>> configs_of(const Descriptor& graph, cudnnBackendHeurMode_t mode) {
  constexpr int64_t MOST = 32;
  Result<Descriptor> made = Descriptor::create(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  if (!made.ok()) return made.status();
  Descriptor heuristics = std::move(made).value();
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  std::vector<Descriptor> configs;
  const auto none_or = [&](const Status& why) {
    return why.code == Code::illegal ? Result<std::vector<Descriptor>>(std::vector<Descriptor>()) : Result<std::vector<Descriptor>>(why);
  };
  if (Status s = heuristics.finalize(); !s.ok()) return none_or(within(s, "cuDNN's heuristics: "));
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < MOST; i++) {
    Result<Descriptor> config = Descriptor::create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (!config.ok()) return config.status();
    configs.push_back(std::move(config).value());
    raw.push_back(configs.back().raw());
  }
  int64_t found = 0;
  const Status asked = checked(api().cudnnBackendGetAttribute(heuristics.raw(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                              CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST, &found, raw.data()),
                               "cuDNN's heuristics");
  if (!asked.ok()) return none_or(asked);
  configs.resize(size_t(std::clamp<int64_t>(found, 0, MOST)));
  return configs;
}

/// Refused when the engine does not take the operation after all.
Result<std::unique_ptr<ExecutionPlan>> plan_of(cudnnHandle_t handle, const Descriptor& config) {
  Result<Descriptor> made = Descriptor::create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  if (!made.ok()) return made.status();
  auto plan = std::make_unique<ExecutionPlan>();
  plan->plan = std::move(made).value();
  plan->plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle).set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  SPILLWAY_TRY(plan->plan.finalize());
  int64_t found = 0;
  SPILLWAY_TRY(checked(api().cudnnBackendGetAttribute(plan->plan.raw(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                                      &found, &plan->workspace_bytes),
                       "asking for an engine's workspace"));
  return plan;
}

}  // namespace

Result<cudnnHandle_t> cudnn_handle() {
  static std::mutex mutex;
  static cudnnHandle_t made = nullptr;  // of the process, which does not give it back
  const std::lock_guard lock(mutex);
  if (made) return made;
  if (!cudnn().ok()) return cudnn().status();
  const Status s = checked(api().cudnnCreate(&made), "cudnnCreate");
  return s.ok() ? Result<cudnnHandle_t>(made) : Result<cudnnHandle_t>(s);
}

Result<Descriptor> Descriptor::create(cudnnBackendDescriptorType_t type) {
  Descriptor d;
  const Status s = checked(api().cudnnBackendCreateDescriptor(type, &d.raw_), "cudnnBackendCreateDescriptor");
  return s.ok() ? Result<Descriptor>(std::move(d)) : Result<Descriptor>(s);
}

Descriptor& Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  if (failure_.ok()) failure_ = checked(api().cudnnBackendSetAttribute(raw_, name, type, count, values), "cudnnBackendSetAttribute");
  return *this;
}

Status Descriptor::finalize() { return failure_.ok() ? checked(api().cudnnBackendFinalize(raw_), "cudnnBackendFinalize") : failure_; }

// ---------------------------------------------------------------- engines

Result<Engines> Engines::of(std::vector<Descriptor> operations, const EngineLimits& limits) {
  const Result<cudnnHandle_t> handle = cudnn_handle();
  if (!handle.ok()) return handle.status();
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const Descriptor& o : operations) raw.push_back(o.raw());
  const cudnnHandle_t raw_handle = handle.value();
  Result<Descriptor> graph = Descriptor::make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, [&](Descriptor& d) {
    d.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, int64_t(raw.size()), raw.data())
        .set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &raw_handle);
  });
  if (!graph.ok()) return graph.status();
  Engines e(std::move(operations), std::move(graph).value(), limits, raw_handle);
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    Result<std::vector<Descriptor>> configs = configs_of(e.graph_, mode);
    if (!configs.ok()) return configs.status();
    e.fallbacks_ = e.configs_.size();
    for (Descriptor& config : configs.value()) e.configs_.push_back(std::move(config));
  }
  return e;
}

void Engines::try_next() {
  const bool is_fallback = tried_ >= fallbacks_;
  const Descriptor& config = configs_[tried_++];
  const auto left_out = [&](const Status& why) {
    if (why.code != Code::illegal && failure_.ok()) failure_ = why;
  };
  const Result<EngineFacts> facts = facts_of(config);
  if (!facts.ok()) return left_out(facts.status());
  if (is_fallback && numbers_.contains(facts.value().number)) return;
  const Worth worth = worth_of(facts.value().notes, limits_.tensor_cores);
  if (worth == Worth::nothing) return;
  Result<std::unique_ptr<ExecutionPlan>> plan = plan_of(handle_, config);
  if (!plan.ok()) return left_out(plan.status());
  plan.value()->engine = facts.value().number;
  if (plan.value()->workspace_bytes > limits_.most_workspace) return;
  numbers_.insert(facts.value().number);
  found_[worth == Worth::loose].push_back(std::move(plan).value());
}

void Engines::try_until(const Rank& choice) {
  while (found_[choice.loose].size() <= choice.rank && tried_ < configs_.size()) try_next();
}

Result<const ExecutionPlan*> Engines::nth(const Rank& choice) {
  try_until(choice);
  const auto& found = found_[choice.loose];
  if (found.size() > choice.rank) return found[choice.rank].get();
  if (found_[0].empty() && !failure_.ok()) return failure_;
  return static_cast<const ExecutionPlan*>(nullptr);
}

Status execute(const ExecutionPlan& plan, const std::vector<Bound>& tensors, void* workspace, cudaStream_t stream) {
  const Result<cudnnHandle_t> handle = cudnn_handle();
  if (!handle.ok()) return handle.status();
  std::vector<int64_t> ids;
  std::vector<void*> addresses;
  for (const Bound& b : tensors) {
    ids.push_back(b.id);
    addresses.push_back(b.at);
  }
  Result<Descriptor> made = Descriptor::create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  if (!made.ok()) return made.status();
  Descriptor pack = std::move(made).value();
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
      .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, int64_t(addresses.size()), addresses.data())
      .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
  SPILLWAY_TRY(pack.finalize());
  static std::mutex mutex;
  const std::lock_guard lock(mutex);  // the handle has one stream at a time
  SPILLWAY_TRY(checked(api().cudnnSetStream(handle.value(), stream), "cudnnSetStream"));
  return checked(api().cudnnBackendExecute(handle.value(), plan.plan.raw(), pack.raw()), "cudnnBackendExecute");
}

}  // namespace spillway::cuda
