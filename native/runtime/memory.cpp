// Reads /proc/meminfo, and the limits of the control groups that hold the process: version 1 and 2, from its own group to the outermost
// that can be seen, wherever they are mounted (src/machine/groups.ts tells the same for planning).
#include "runtime/memory.hpp"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

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

/// The names that a version uses for its limits, for the held memory, and for the reclaimable part
/// of its statistics.
struct Names {
  std::vector<const char*> limits;
  const char *usage, *droppable;
};
const Names V1{{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"};
const Names V2{{"memory.max", "memory.high"}, "memory.current", "inactive_file"};

uint64_t group_leaves(const std::string& folder, const Names& names) {
  uint64_t limit = UNLIMITED, used = 0;
  for (const char* name : names.limits) {
    uint64_t n = 0;
    if (std::ifstream(folder + "/" + name) >> n) limit = std::min(limit, n);  // 'max' is no number
  }
  if (limit == UNLIMITED || !(std::ifstream(folder + "/" + names.usage) >> used)) return UNLIMITED;
  std::ifstream statistics(folder + "/memory.stat");
  std::string key;
  for (uint64_t n = 0; statistics >> key >> n;)
    if (key == names.droppable) used -= std::min(used, n);
  return limit > used ? limit - used : 0;
}

bool has_memory(const std::string& list) { return ("," + list + ",").find(",memory,") != std::string::npos; }

/// The process's own group: a line `number:controllers:group`, of version 2 without controllers.
std::string own_group(bool second) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), last = line.find(':', first + 1);
    if (last == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, last - first - 1);
    if (second ? controllers.empty() && line[0] == '0' : has_memory(controllers)) return line.substr(last + 1);
  }
  return "";
}

/// The least of a mounted hierarchy, from the process's own group up to the mount.
uint64_t hierarchy_leaves(const std::string& mount, const std::string& root, bool second) {
  std::string group = own_group(second);
  if (group.empty()) return UNLIMITED;
  if (root != "/") group = group.rfind(root, 0) == 0 ? group.substr(root.size()) : "";
  uint64_t least = UNLIMITED;
  for (;; group.erase(group.rfind('/'))) {
    least = std::min(least, group_leaves(mount + group, second ? V2 : V1));
    if (group.empty() || group.rfind('/') == std::string::npos) return least;
  }
}

uint64_t groups_leave() {
  uint64_t least = UNLIMITED;
  std::ifstream file("/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream place(line), source(line.substr(dash + 3));
    std::string skipped, root, mount, type, from, options;
    place >> skipped >> skipped >> skipped >> root >> mount;
    source >> type >> from >> options;
    if (type == "cgroup2" || (type == "cgroup" && has_memory(options)))
      least = std::min(least, hierarchy_leaves(mount, root, type == "cgroup2"));
  }
  return least;
}

}  // namespace

uint64_t available_memory() { return std::min(system_leaves(), groups_leave()); }

}  // namespace spillway
