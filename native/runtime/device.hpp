// The devices that this build has: where their kernels are.
#pragma once
#include <string_view>

#include "runtime/kernel.hpp"

namespace spillway {

struct Device {
  std::string_view name;
  KernelTable kernel;
  /// For the calling thread and those that its kernels use; null where kernels use one.
  void (*set_threads)(int);
  /// Gives back what kernels keep between calls and can make again; null where they keep nothing.
  void (*forget)();
  /// Version of the library that kernels call; null where they call none.
  std::string (*library)();
};

/// Null when this build has no device of that name.
const Device* find_device(std::string_view name);
/// The names, for messages: "cpu, ref, null".
std::string device_names();
/// Cores that this process may use.
int available_cores();

}  // namespace spillway
