// The engines for the exchanges of ranks, and their functions for a run beside its operators. In: an engine. Out: this process's rank, or
// the ranks of this process's threads. Invariant: a wait for a rank that has ended returns an error.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/communicator.hpp"

namespace spillway {

struct CloseCommunicator {
  void operator()(Communicator* c) const { c->engine->close(c); }
};
using OwnCommunicator = std::unique_ptr<Communicator, CloseCommunicator>;

/// Ranks that are threads of this process.
Result<std::vector<OwnCommunicator>> open_thread_ranks(uint32_t ranks);
/// This process's rank, by a plugin that stays loaded as long as the process.
Result<OwnCommunicator> open_plugin_rank(const std::string& path);

/// The answers of ranks before each step: the largest one counts for all.
enum class Accord : uint8_t { go_on, stop, interrupted };
Result<Accord> agree(Communicator&, Accord own);

using Bytes = std::vector<std::byte>;
/// Each rank's bytes, in the order of ranks.
Result<std::vector<Bytes>> exchange(Communicator&, std::span<const std::byte> own);

}  // namespace spillway
