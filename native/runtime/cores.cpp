// Reads the mask, the control groups and the environment.
// Worked example: processors 0-7, 6 threads, no quota: compute on 0-5, copies on 6-7. With a quota of 4: 4 threads by default,
// and none is bound, since the quota is of time, not of processors.
#include "runtime/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace spillway {
namespace {

/// Room for more processors than any system has.
constexpr int MOST_PROCESSORS = 8192;

class Mask {
 public:
  Mask() : bits_(CPU_ALLOC_SIZE(MOST_PROCESSORS) / sizeof(unsigned long)) {}
  explicit Mask(const Processors& processors) : Mask() {
    for (const int p : processors) CPU_SET_S(size_t(p), bytes(), set());
  }
  bool read() { return ::sched_getaffinity(0, bytes(), set()) == 0; }
  void apply() { ::sched_setaffinity(0, bytes(), set()); }
  bool holds(int p) { return CPU_ISSET_S(size_t(p), bytes(), set()); }

 private:
  size_t bytes() const { return bits_.size() * sizeof(unsigned long); }
  cpu_set_t* set() { return reinterpret_cast<cpu_set_t*>(bits_.data()); }
  std::vector<unsigned long> bits_;
};

/// Quota over period; 0: none.
double quota_of_version_2(const std::string& folder) {
  std::ifstream file(folder + "/cpu.max");
  double quota = 0, period = 0;
  return file >> quota >> period && period > 0 ? quota / period : 0;
}
double quota_of_version_1(const std::string& folder) {
  double quota = 0, period = 0;
  if (!(std::ifstream(folder + "/cpu.cfs_quota_us") >> quota) || !(std::ifstream(folder + "/cpu.cfs_period_us") >> period)) return 0;
  return quota > 0 && period > 0 ? quota / period : 0;
}

double least_granted(double a, double b) { return a > 0 && b > 0 ? std::min(a, b) : std::max(a, b); }

/// The least quota of a group and of those above it, as far as they are visible.
template <class Quota>
double least_along(const std::string& root, std::string group, Quota quota) {
  double least = 0;
  while (true) {
    least = least_granted(least, quota(root + group));
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos) return least;
    group.resize(slash);
  }
}

/// Returns true if `controllers`, a list with commas, has `cpu`.
bool names_cpu(const std::string& controllers) { return ("," + controllers + ",").find(",cpu,") != std::string::npos; }

const char* set_in_environment(const char* name) {
  const char* value = std::getenv(name);
  return value && *value ? value : nullptr;
}

}  // namespace

Processors allowed_processors() {
  Mask mask;
  Processors allowed;
  if (mask.read())
    for (int p = 0; p < MOST_PROCESSORS; p++)
      if (mask.holds(p)) allowed.push_back(p);
  return allowed;
}

double granted_processors(const std::string& root, const std::string& membership) {
  double least = least_granted(quota_of_version_2(root), quota_of_version_1(root + "/cpu"));
  std::ifstream file(membership);
  for (std::string line; std::getline(file, line);) {  // hierarchy:controllers:/path
    std::istringstream parts(line);
    std::string hierarchy, controllers, group;
    if (!std::getline(parts, hierarchy, ':') || !std::getline(parts, controllers, ':') || !std::getline(parts, group) || group == "/")
      continue;
    if (controllers.empty())
      least = least_granted(least, least_along(root, group, quota_of_version_2));
    else if (names_cpu(controllers))
      least = least_granted(least, least_along(root + "/cpu", group, quota_of_version_1));
  }
  return least;
}

int threads_asked_for() {
  const char* text = set_in_environment("OMP_NUM_THREADS");
  const long asked = text ? std::strtol(text, nullptr, 10) : 0;
  return int(std::clamp<long>(asked, 0, MOST_PROCESSORS));
}

bool user_places_threads() {
  for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"})
    if (set_in_environment(name)) return true;
  return false;
}

int available_cores() {
  const int allowed = int(std::max<size_t>(1, allowed_processors().size()));
  const double granted = granted_processors();
  return granted > 0 ? std::clamp(int(granted), 1, allowed) : allowed;
}

int default_threads() {
  const int asked = threads_asked_for();
  return asked > 0 ? asked : available_cores();
}

Placement placement(const Processors& allowed, int threads, double granted, bool user_places) {
  const int count = int(allowed.size());
  const bool whole = granted <= 0 || granted >= count;
  if (user_places || !whole || threads > count || 2 * threads <= count) return {};
  return {{allowed.begin(), allowed.begin() + threads}, {allowed.begin() + threads, allowed.end()}};
}

BoundThreads::BoundThreads(const Device& device, int threads) : device_(device) {
  if (!device.bind_threads) return;
  Processors allowed = allowed_processors();
  const Placement where = placement(allowed, threads, granted_processors(), user_places_threads());
  if (where.compute.empty()) return;
  device.bind_threads(where.compute.data(), uint32_t(where.compute.size()), true);
  before_ = std::move(allowed);
}

BoundThreads::~BoundThreads() {
  if (!before_.empty()) device_.bind_threads(before_.data(), uint32_t(before_.size()), false);
}

void run_on(const Processors& processors) {
  if (!processors.empty()) Mask(processors).apply();
}

}  // namespace spillway
