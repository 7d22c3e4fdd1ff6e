// A call prepared for the GPU: all that follows from its shapes, way and precision is computed. In: a call that its operator
// has checked. Out: its scratch, and its work on a context's compute lane. Invariant: a run checks nothing and looks nothing
// up.
#pragma once
#include <memory>

#include "core/owned_call.hpp"
#include "cuda/context.hpp"
#include "cuda/rank.hpp"

namespace spillway::cuda {

class Ready {
 public:
  explicit Ready(const KernelCall& c) : owned_(c) {}
  Ready(const Ready&) = delete;
  Ready& operator=(const Ready&) = delete;
  virtual ~Ready() = default;
  virtual int64_t workspace_bytes() const = 0;
  /// Runs the call, whose operands have addresses.
  virtual Status run(const Context& context) const = 0;

  void place(void* const* at) { owned_.place(at); }
  const OwnedCall& owned() const { return owned_; }
  const KernelCall& call() const { return owned_.call; }

 private:
  OwnedCall owned_;
};

/// A library's facts of a way: its scratch, and the number of its engine, if it has one.
struct LibraryWay {
  int64_t bytes, engine;
};
constexpr int64_t NO_NUMBER = -1;

/// Those of a library's ways that f describes, in order: "cuDNN 2 (38)".
template <class F>
Result<std::vector<Way>> library_ways(uint32_t most, const char* library, F f) {
  std::vector<Way> ways;
  for (const uint32_t first : {uint32_t(0), FIRST_LOOSE})
    for (uint32_t rank = 0; ways.size() < most && rank < (first == 0 ? MOST_REPEATING : MOST_LOOSE); rank++) {
      const Result<LibraryWay> found = f(first + rank);
      if (!found.ok() && first + rank == 0) return found.status();
      if (!found.ok()) break;
      Way way{first + rank, first == 0, uint64_t(found.value().bytes), {}};
      const char* const loose = first == 0 ? "" : "loose ";
      if (found.value().engine == NO_NUMBER)
        std::snprintf(way.name, sizeof way.name, "%s %s%u", library, loose, rank + 1);
      else
        std::snprintf(way.name, sizeof way.name, "%s %s%u (%lld)", library, loose, rank + 1, static_cast<long long>(found.value().engine));
      ways.push_back(way);
    }
  return ways;
}

}  // namespace spillway::cuda
