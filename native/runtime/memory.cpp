// Reads /proc/meminfo and the control group's limit (version 2, as seen from inside).
#include "runtime/memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <string>

namespace spillway {
namespace {

constexpr uint64_t UNLIMITED = std::numeric_limits<uint64_t>::max();

uint64_t system_leaves() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (uint64_t kib = 0; file >> key >> kib; std::getline(file, unit))
    if (key == "MemAvailable:") return kib * 1024;
  return UNLIMITED;
}

uint64_t group_leaves() {
  uint64_t limit = 0, used = 0;
  if (!(std::ifstream("/sys/fs/cgroup/memory.max") >> limit)) return UNLIMITED;  // 'max', or no such file
  if (!(std::ifstream("/sys/fs/cgroup/memory.current") >> used)) return limit;
  return limit > used ? limit - used : 0;
}

}  // namespace

uint64_t available_memory() { return std::min(system_leaves(), group_leaves()); }

}  // namespace spillway
