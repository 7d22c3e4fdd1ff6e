// This build's devices (SPILLWAY_CPU=OFF leaves out the cpu device) and the loading of plugins: a missing file, library or
// version is a reason in words, since a machine without a GPU is no fault.
#include "runtime/devices.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "runtime/host_device.hpp"

namespace spillway {
namespace {

constexpr Device DEVICES[] = {
#ifdef SPILLWAY_WITH_CPU
    host_device<cpu::kernel, cpu::library>("cpu", DType::f32, {cpu::set_threads, cpu::bind_threads, cpu::forget}),
#endif
    host_device<ref::kernel>("ref", DType::f64, {}),
    host_device<null::kernel>("null", DType::f32, {}),
};

/// A device in a file of its own: beside this library, in build/FOLDER, in FOLDER of the platform package, or named by a variable.
struct Plugin {
  const char *name, *file, *folder, *variable, *missing;
};
constexpr Plugin PLUGINS[] = {
    {"cuda", "spillway_cuda.so", "cuda", "SPILLWAY_CUDA", "run 'npx spillway setup cuda'"},
};

/// The folder of the file that this code was loaded from.
std::string own_folder() {
  Dl_info info{};
  if (!::dladdr(reinterpret_cast<const void*>(&own_folder), &info) || !info.dli_fname) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string path_of(const Plugin& plugin) {
  if (const char* path = std::getenv(plugin.variable); path && *path) return path;
  const std::string own = own_folder() + "/", in_folder = std::string(plugin.folder) + "/" + plugin.file;
  const std::string beside = own + plugin.file;
  for (const std::string& path : {beside, own + "../../" + in_folder, own + "../" + in_folder})
    if (::access(path.c_str(), F_OK) == 0) return path;
  return beside;
}

Result<const Device*> load(const Plugin& plugin) {
  const std::string path = path_of(plugin);
  if (::access(path.c_str(), F_OK) != 0)
    return failed(Code::device, "the ", plugin.name, " device is not built (", path, " is missing): ", plugin.missing);
  Result<const Device*> loaded = load_plugin(path);
  if (!loaded.ok()) return loaded;
  Words words;
  DeviceFacts facts;
  if (const Code code = loaded.value()->facts(&facts, &words); code != Code::ok)
    return failed(code, "the ", plugin.name, " device cannot be used: ", words.text);
  return loaded;
}

}  // namespace

std::span<const Device> own_devices() { return DEVICES; }

const Device* find_device(std::string_view name) {
  for (const Device& d : DEVICES)
    if (d.name == name) return &d;
  return nullptr;
}

Result<const Device*> load_plugin(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return failed(Code::device, "cannot load ", path, ": ", ::dlerror());
  const auto entry = reinterpret_cast<DeviceEntry>(::dlsym(library, SPILLWAY_DEVICE_ENTRY));
  const Device* device = entry ? entry(DEVICE_TABLE_VERSION) : nullptr;
  if (!device || device->version != DEVICE_TABLE_VERSION || device->bytes != sizeof(Device)) {
    ::dlclose(library);
    return failed(Code::device, path,
                  entry ? " was built for another version of spillway: rebuild it" : " is not a device plugin for spillway");
  }
  return device;
}

Result<const Device*> load_device(std::string_view name) {
  if (const Device* d = find_device(name)) return d;
  // A found device is kept: planners call this for every call.
  static std::mutex mutex;
  static std::map<std::string_view, const Device*> serving;
  const std::lock_guard lock(mutex);
  for (const Plugin& plugin : PLUGINS) {
    if (plugin.name != name) continue;
    if (const auto known = serving.find(plugin.name); known != serving.end()) return known->second;
    Result<const Device*> loaded = load(plugin);
    if (loaded.ok()) serving.emplace(plugin.name, loaded.value());
    return loaded;
  }
  std::string names;
  for (const Device& d : DEVICES) names += text(d.name, ", ");
  for (const Plugin& plugin : PLUGINS) names += text(plugin.name, " (a plugin), ");
  names.resize(names.size() - 2);
  return refuse("there is no device '", name, "'; allowed: ", names);
}

}  // namespace spillway
