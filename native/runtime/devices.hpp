// Which devices there are: those of this build by name, and plugins that are loaded when they are asked for.
#pragma once
#include <span>

#include "core/result.hpp"
#include "runtime/device.hpp"

namespace spillway {

/// One of this build's own devices; null when there is none of that name.
const Device* find_device(std::string_view name);
std::span<const Device> own_devices();
/// The same, and those that come as plugins; the reason in words when one is not to be had.
Result<const Device*> load_device(std::string_view name);
/// A plugin that stays loaded as long as the process.
Result<const Device*> load_plugin(const std::string& path);
}  // namespace spillway
