// The other ranks' GPUs: NCCL carries bytes between them in the order of a stream. In: the communicator of the processes that run on them,
// which hands NCCL's id round. Out: grouped sends and receives, and a wait for a stream that ends where other ranks do not come. Invariant:
// all of a rank's exchanges are on one stream, in the order of the plan, which is that of all ranks: NCCL's kernels never wait for one
// another crosswise. A failure is everybody's: after it nothing is sent, and nothing waits.
#pragma once
#include <memory>
#include <mutex>

#include "core/communicator.hpp"
#include "cuda/libraries.hpp"

namespace spillway::cuda {

class Ranks {
 public:
  /// All ranks come here at once, each with a GPU of its own.
  static Result<std::unique_ptr<Ranks>> open(Communicator& host, int device, cudaStream_t stream);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  /// Whose these are.
  const Communicator& host() const { return host_; }
  /// As an engine's `trade`, in the order of the stream.
  Status trade(const Parcel* sends, size_t n_sends, const Parcel* takes, size_t n_takes);
  /// Waits for a stream, no longer than ranks wait for one another. Any thread may call it.
  Status finish(cudaStream_t stream);
  /// Ends all waits of the current work.
  void leave();

 private:
  Ranks(Communicator& host, cudaStream_t stream, NcclComm comm) : host_(host), stream_(stream), comm_(comm) {}
  Status looked_at();
  Status lose(Status why);

  Communicator& host_;
  const cudaStream_t stream_;
  std::mutex mutex_;
  NcclComm comm_;  // null once it is lost
  Status lost_;
  double lost_at_ = 0;
};

}  // namespace spillway::cuda
