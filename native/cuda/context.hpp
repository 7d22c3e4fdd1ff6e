// One session's share of the GPU: lanes are streams, events are events, graphs are captured streams; the pool, pinned memory
// and the step's scalars on the device. Invariant: everything is owned here, and given back when it ends, also after the device
// has failed.
#pragma once
#include <memory>
#include <mutex>

#include "cuda/pinned.hpp"
#include "cuda/pool.hpp"
#include "cuda/ranks.hpp"
#include "runtime/device.hpp"

namespace spillway::cuda {

class Context {
 public:
  static Result<std::unique_ptr<Context>> open(const OpenOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Result<std::byte*> map(const PoolLayout& layout);
  uint64_t pool_bytes() const { return pool_.bytes(); }
  Result<DeviceMemory> memory() const;
  Result<std::byte*> pin(uint64_t bytes) { return pinned_.allocate(bytes); }

  Status begin_step(const StepContext& step);
  Status copy(Lane lane, void* to, const void* from, uint64_t bytes);
  Status record(Lane lane, uint32_t event);
  Status wait(Lane lane, uint32_t event);
  Status finish(Lane lane);
  Status stamp(Lane lane, uint32_t number);
  double seconds_between(uint32_t from, uint32_t to) const;

  /// Work of f on the lane of ranks follows all earlier compute and precedes all later compute.
  template <class F>
  Status in_turn(F f) const {
    SPILLWAY_CUDA(cudaEventRecord(turn_[0], stream(Lane::compute)));
    SPILLWAY_CUDA(cudaStreamWaitEvent(stream(Lane::ranks), turn_[0], 0));
    SPILLWAY_TRY(f());
    SPILLWAY_CUDA(cudaEventRecord(turn_[1], stream(Lane::ranks)));
    return checked(cudaStreamWaitEvent(stream(Lane::compute), turn_[1], 0), "cudaStreamWaitEvent");
  }
  /// For the next call: true if compute continues, and waits for its exchange later.
  void waits_later(bool beside) { waits_later_ = beside; }
  bool waits_later() const { return waits_later_; }
  void leave_ranks() {
    if (ranks_) ranks_->leave();
  }

  Status begin_capture();
  Result<uint32_t> end_capture();
  Status launch(uint32_t graph);

  cudaStream_t stream(Lane lane) const { return streams_[size_t(lane)]; }
  /// On the device.
  const StepContext* step() const { return step_; }
  /// The same, as the host knows it.
  const StepContext* step_here() const { return step_here_; }
  /// Null for who is alone.
  Ranks* ranks() const { return ranks_.get(); }
  /// Counters on the device, zero between launches. Blocks of a kernel that wait for each other count
  /// there.
  uint32_t* arrivals() const { return arrivals_; }
  Precision precision() const { return precision_; }
  /// Refuses calls in a precision that the GPU lacks.
  Status takes(const KernelCall& call) const;

 private:
  explicit Context(const OpenOptions& options) : precision_(options.precision), counts_memory_(options.counts_memory) {}
  Status open_counted(const PoolLayout& layout);
  Status create(const OpenOptions& options);
  Status meet(Communicator* others);

  const Precision precision_;
  const bool counts_memory_;
  int device_ = 0;
  uint32_t capability_ = 0;  // 75 is 7.5
  bool waits_later_ = false;
  cudaStream_t streams_[LANES] = {};
  std::vector<cudaEvent_t> events_, stamps_;
  cudaEvent_t turn_[2] = {};
  std::vector<cudaGraphExec_t> graphs_;
  Pinned pinned_;
  StepContext* step_ = nullptr;               // on the device
  StepContext* step_here_ = nullptr;          // pinned
  uint32_t* arrivals_ = nullptr;              // on the device
  uint64_t before_pool_ = 0, with_pool_ = 0;  // bytes taken
  Pool pool_;
  std::unique_ptr<Ranks> ranks_;
};

/// The facts of the machine, or the reason why it cannot be used.
Status device_facts(DeviceFacts& into);

}  // namespace spillway::cuda
