// cuDNN's backend descriptors as owned values, and its engines for one graph of operations. In: operations. Out: execution plans
// in the precision asked for, in cuDNN's order: those that repeat bit for bit, and apart from them those that need not.
// Invariant: the same operations have the same engines for the life of the process.
#pragma once
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "cuda/libraries.hpp"
#include "cuda/rank.hpp"
#include "runtime/device.hpp"

namespace spillway::cuda {

/// One handle for the process; its users take turns.
Result<cudnnHandle_t> cudnn_handle();

class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(Descriptor&& o) noexcept : raw_(std::exchange(o.raw_, nullptr)), failure_(std::move(o.failure_)) {}
  Descriptor& operator=(Descriptor&& o) noexcept {
    std::swap(raw_, o.raw_);
    std::swap(failure_, o.failure_);
    return *this;
  }
  ~Descriptor() {
    if (raw_) cudnn().value().cudnnBackendDestroyDescriptor(raw_);
  }

  static Result<Descriptor> create(cudnnBackendDescriptorType_t type);
  /// Creates one, lets `fill` set its attributes, and finalizes it.
  template <class F>
  static Result<Descriptor> make(cudnnBackendDescriptorType_t type, F fill) {
    Result<Descriptor> made = create(type);
    if (!made.ok()) return made;
    Descriptor d = std::move(made).value();
    fill(d);
    const Status s = d.finalize();
    return s.ok() ? Result<Descriptor>(std::move(d)) : Result<Descriptor>(s);
  }
  cudnnBackendDescriptor_t raw() const { return raw_; }

  /// Sets attributes one after the other and finalizes; the first failure is kept.
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count, const void* values);
  Descriptor& set(cudnnBackendAttributeName_t name, const std::vector<int64_t>& values) {
    return set(name, CUDNN_TYPE_INT64, int64_t(values.size()), values.data());
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &other.raw_);
  }
  Status finalize();

 private:
  cudnnBackendDescriptor_t raw_ = nullptr;
  Status failure_;
};

/// The plan of an engine, its scratch, and the number of the engine in cuDNN.
struct ExecutionPlan {
  Descriptor plan;
  int64_t workspace_bytes = 0, engine = 0;
};

/// Which engines are asked for.
struct EngineLimits {
  bool tensor_cores;  // products may round what they read
  int64_t most_workspace;
};

class Engines {
 public:
  /// Engines of cuDNN's heuristics for these operations, the functional fallbacks after the fast ones. A fallback by an engine that was
  /// found before is left out: on an H100 one in fp32 was wrong by 3e-4, and its first was right to 1e-6.
  static Result<Engines> of(std::vector<Descriptor> operations, const EngineLimits& limits);
  /// In cuDNN's order; null if there are fewer. A failing engine is left out. If none is left, the result is that reason.
  Result<const ExecutionPlan*> nth(const Rank& choice);

 private:
  Engines(std::vector<Descriptor> operations, Descriptor graph, const EngineLimits& limits, cudnnHandle_t handle)
      : limits_(limits), handle_(handle), operations_(std::move(operations)), graph_(std::move(graph)) {}
  void try_next();
  void try_until(const Rank& choice);

  EngineLimits limits_;
  cudnnHandle_t handle_;
  std::vector<Descriptor> operations_;
  Descriptor graph_;
  std::vector<Descriptor> configs_;
  size_t fallbacks_ = 0, tried_ = 0;                      // configs_ from there on are fallbacks
  std::set<int64_t> numbers_;                             // of engines that were found
  Status failure_;                                        // of the first engine that failed
  std::vector<std::unique_ptr<ExecutionPlan>> found_[2];  // those that repeat bit for bit, and the loose
};

/// Tensors by number and address.
struct Bound {
  int64_t id;
  void* at;
};
Status execute(const ExecutionPlan& plan, const std::vector<Bound>& tensors, void* workspace, cudaStream_t stream);

}  // namespace spillway::cuda
