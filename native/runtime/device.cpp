// The table of devices. A build with SPILLWAY_CPU=OFF has no cpu device: it needs neither oneDNN nor OpenMP.
#include "runtime/device.hpp"

#include <sched.h>

#include <algorithm>

namespace spillway {
namespace {

constexpr Device DEVICES[] = {
#ifdef SPILLWAY_WITH_CPU
    {"cpu", cpu::kernel, cpu::set_threads, cpu::forget, cpu::library},
#endif
    {"ref", ref::kernel, nullptr, nullptr, nullptr},
    {"null", null::kernel, nullptr, nullptr, nullptr},
};

}  // namespace

const Device* find_device(std::string_view name) {
  for (const Device& d : DEVICES)
    if (d.name == name) return &d;
  return nullptr;
}

std::string device_names() {
  std::string names;
  for (const Device& d : DEVICES) names += (names.empty() ? "" : ", ") + std::string(d.name);
  return names;
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

}  // namespace spillway
