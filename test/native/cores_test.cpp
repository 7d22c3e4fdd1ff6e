// serial
// How many processors may be kept busy, where threads go, and that they get there: masks, quotas, the user's settings.
#include <sched.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "runtime/cores.hpp"
#include "runtime/devices.hpp"
#include "test/native/checking.hpp"

using namespace spillway;
using namespace spillway::testing;
namespace fs = std::filesystem;

namespace {

/// A tree of control groups as a container may see it.
struct Groups {
  std::string root = "/tmp/spillway-groups-XXXXXX";
  Groups() {
    if (!::mkdtemp(root.data())) throw std::runtime_error("no directory");
  }
  ~Groups() { fs::remove_all(root); }
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root + path).parent_path());
    std::ofstream(root + path) << text << '\n';
  }
  double granted() const { return granted_processors(root, root + "/membership"); }
};

void no_quota() {
  const Groups g;
  CHECK(g.granted() == 0);
  g.put("/membership", "0::/a/b");
  g.put("/a/b/cpu.max", "max 100000");
  CHECK(g.granted() == 0);
}

void least_quota_counts() {
  const Groups g;
  g.put("/membership", "0::/a/b");
  g.put("/a/b/cpu.max", "400000 100000");
  CHECK(g.granted() == 4);
  g.put("/a/cpu.max", "150000 100000");
  CHECK(g.granted() == 1.5);
  g.put("/cpu.max", "100000 100000");  // of the container, whose own group is the root
  CHECK(g.granted() == 1);
}

void version_1() {
  const Groups g;
  g.put("/membership", "4:memory:/x\n3:cpu,cpuacct:/jobs/1\n0::/");
  g.put("/cpu/cpu.cfs_quota_us", "-1");
  g.put("/cpu/cpu.cfs_period_us", "100000");
  CHECK(g.granted() == 0);
  g.put("/cpu/jobs/cpu.cfs_quota_us", "300000");
  g.put("/cpu/jobs/cpu.cfs_period_us", "100000");
  CHECK(g.granted() == 3);
}

void placements() {
  const Processors eight{0, 1, 2, 3, 8, 9, 10, 11};
  const Placement six = placement(eight, 6, 0, false);
  CHECK((six.compute == Processors{0, 1, 2, 3, 8, 9}));
  CHECK((six.copies == Processors{10, 11}));
  const Placement all = placement(eight, 8, 8, false);
  CHECK(all.compute == eight && all.copies.empty());
  CHECK(placement(eight, 4, 0, false).compute.empty());  // there is room for the system to find
  CHECK(placement(eight, 9, 0, false).compute.empty());  // more threads than processors
  CHECK(placement(eight, 8, 6, false).compute.empty());  // a quota of time
  CHECK(placement(eight, 8, 0, true).compute.empty());   // the user's business
  CHECK((placement({5}, 1, 0, false).compute == Processors{5}));
}

void asked_by_environment() {
  const int cores = available_cores();
  CHECK(cores >= 1 && cores <= int(allowed_processors().size()));
  ::unsetenv("OMP_NUM_THREADS");
  CHECK(default_threads() == cores);
  for (const auto& [text, threads] : {std::pair("3", 3), {"2,4", 2}, {"", cores}, {"many", cores}, {"-1", cores}}) {
    ::setenv("OMP_NUM_THREADS", text, 1);
    CHECK(default_threads() == threads);
  }
  ::unsetenv("OMP_NUM_THREADS");
  for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"}) {
    CHECK(!user_places_threads());
    ::setenv(name, "0", 1);
    CHECK(user_places_threads());
    ::unsetenv(name);
  }
}

/// In a thread of its own, so that the mask of the others stays.
template <class Body>
void apart(Body body) {
  std::thread(body).join();
}

void quota_of_mask() {
  apart([] {
    const Processors all = allowed_processors();
    run_on({all.back()});
    CHECK((allowed_processors() == Processors{all.back()}));
    CHECK(available_cores() == 1);
    run_on({});
    CHECK(allowed_processors().size() == 1);
  });
}

/// The requests to an imitated device: processors, and true if each thread has its own.
std::vector<std::pair<Processors, bool>> bound;
void remember(const int* processors, uint32_t count, bool each) { bound.emplace_back(Processors(processors, processors + count), each); }

void bound_for_a_while() {
  Device device = *find_device("ref");
  { const BoundThreads nothing(device, 1); }
  device.bind_threads = remember;
  const Processors all = allowed_processors();
  const int threads = int(all.size());
  bound.clear();
  {
    const BoundThreads b(device, threads);
    if (granted_processors() > 0) return;  // a quota is of time: nothing is bound
    CHECK(bound.size() == 1 && bound[0].first == all && bound[0].second);
  }
  CHECK(bound.size() == 2 && bound[1].first == all && !bound[1].second);
  bound.clear();
  ::setenv("OMP_PROC_BIND", "false", 1);
  { const BoundThreads b(device, threads); }
  ::unsetenv("OMP_PROC_BIND");
  CHECK(bound.empty());
}

#ifdef SPILLWAY_WITH_CPU
void kernels_threads() {
  apart([] {
    const Processors all = allowed_processors();
    const Device& cpu = *find_device("cpu");
    cpu.set_threads(int(all.size()));
    cpu.bind_threads(all.data(), uint32_t(all.size()), true);
    CHECK((allowed_processors() == Processors{all[0]}));
    std::vector<Processors> of(all.size());
#pragma omp parallel for schedule(static, 1)
    for (size_t i = 0; i < of.size(); i++) of[i] = allowed_processors();
    for (size_t i = 0; i < of.size(); i++) CHECK((of[i] == Processors{all[i]}));
    cpu.bind_threads(all.data(), uint32_t(all.size()), false);
#pragma omp parallel for schedule(static, 1)
    for (size_t i = 0; i < of.size(); i++) of[i] = allowed_processors();
    for (const Processors& p : of) CHECK(p == all);
  });
}
#endif

}  // namespace

int main() {
  test("no quota is no limit", no_quota);
  test("the least quota of the groups above counts", least_quota_counts);
  test("quotas of version 1", version_1);
  test("places of threads", placements);
  test("OpenMP's settings are respected", asked_by_environment);
  test("a mask limits the cores", quota_of_mask);
  test("threads are bound for as long as a run lasts", bound_for_a_while);
#ifdef SPILLWAY_WITH_CPU
  test("a kernel's threads get where they are sent", kernels_threads);
#endif
  return finish();
}
