// Which devices there are: those of this build by name, and plugins that are loaded when they are asked for.
#pragma once
#include "core/result.hpp"
#include "runtime/device.hpp"

namespace spillway {

/// One of this build's own devices; null when there is none of that name.
const Device* find_device(std::string_view name);
/// Their names, for messages: "cpu, ref, null".
std::string device_names();
/// The same, and cuda through its plugin; the reason in words when that is not to be had.
Result<const Device*> load_device(std::string_view name);
/// A plugin that stays loaded as long as the process.
Result<const Device*> load_plugin(const std::string& path);
/// Where the cuda plugin is looked for, in order: $SPILLWAY_CUDA alone when it is set, else beside this library, else build/cuda.
std::string cuda_plugin_path();

}  // namespace spillway
