// cuDNN's backend descriptors as owned values, and its engines for one operation. In: an operation. Out: an execution plan
// whose engine repeats bit for bit, in the precision asked for, or none. Invariant: the same operation gets the same engine.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "cuda/libraries.hpp"
#include "runtime/device.hpp"

namespace spillway::cuda {

/// One handle for the process; its users take turns.
Result<cudnnHandle_t> cudnn_handle();

class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(Descriptor&& o) noexcept : raw_(std::exchange(o.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&& o) noexcept { std::swap(raw_, o.raw_); return *this; }
  ~Descriptor() { if (raw_) cudnn().value().cudnnBackendDestroyDescriptor(raw_); }

  static Result<Descriptor> create(cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t raw() const { return raw_; }

  /// Sets attributes one after the other and finalizes; the first failure is kept.
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values);
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) { return set(name, CUDNN_TYPE_INT64, int64_t(values.size()), values.data()); }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other) { return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.raw_); }
  Status finalize();

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
  Status failure_;
};

/// An engine's plan and the scratch that it wants.
struct ExecutionPlan {
  Descriptor plan;
  int64_t workspace_bytes = 0;
};

/// The first engine in cuDNN's order that is deterministic, precise enough, and content with `most_workspace`; nothing when
/// cuDNN has none.
Result<std::unique_ptr<ExecutionPlan>> choose_engine(const Descriptor& operation, Precision precision, int64_t most_workspace);

/// Tensors by number and address.
struct Bound { int64_t id; void* at; };
Status execute(const ExecutionPlan& plan, const std::vector<Bound>& tensors, void* workspace, cudaStream_t stream);

}  // namespace spillway::cuda
