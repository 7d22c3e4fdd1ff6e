// This build's devices (SPILLWAY_CPU=OFF leaves out the cpu device) and the loading of plugins: a missing file, library or
// version is a reason in words, since a machine without a GPU is no fault.
#include "runtime/devices.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "runtime/host_device.hpp"

namespace spillway {
namespace {

constexpr Device DEVICES[] = {
#ifdef SPILLWAY_WITH_CPU
    host_device<cpu::kernel, cpu::library>("cpu", {cpu::set_threads, cpu::bind_threads, cpu::forget}),
#endif
    host_device<ref::kernel>("ref", {}),
    host_device<null::kernel>("null", {}),
};

constexpr const char* PLUGIN_FILE = "spillway_cuda.so";

/// The folder of the file that this code was loaded from.
std::string own_folder() {
  Dl_info info{};
  if (!::dladdr(reinterpret_cast<const void*>(&own_folder), &info) || !info.dli_fname) return ".";
  const std::string path = info.dli_fname;
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

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

Result<const Device*> load_plugin(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return failed(Code::device, "cannot load ", path, ": ", ::dlerror());
  const auto entry = reinterpret_cast<DeviceEntry>(::dlsym(library, SPILLWAY_DEVICE_ENTRY));
  const Device* device = entry ? entry(DEVICE_TABLE_VERSION) : nullptr;
  if (!device || device->version != DEVICE_TABLE_VERSION || device->bytes != sizeof(Device)) {
    ::dlclose(library);
    return refuse(path, entry ? " was built for another version of spillway: build it again" : " is no device plugin of spillway");
  }
  return device;
}

std::string cuda_plugin_path() {
  if (const char* path = std::getenv("SPILLWAY_CUDA"); path && *path) return path;
  const std::string beside = own_folder() + "/" + PLUGIN_FILE, built = own_folder() + "/../../cuda/" + PLUGIN_FILE;
  return ::access(beside.c_str(), F_OK) == 0 || ::access(built.c_str(), F_OK) != 0 ? beside : built;
}

Result<const Device*> load_device(std::string_view name) {
  if (const Device* d = find_device(name)) return d;
  if (name != "cuda") return refuse("there is no device '", name, "'; this build has ", device_names(), ", and cuda where its plugin is built");
  // What has once served is not asked again: planners come here for every call.
  static std::mutex mutex;
  static const Device* serving = nullptr;
  const std::lock_guard lock(mutex);
  if (serving) return serving;
  const std::string path = cuda_plugin_path();
  if (::access(path.c_str(), F_OK) != 0)
    return refuse("the cuda device is not built (", path, " is missing): 'npm run build:cuda' builds it where nvcc and cuDNN are, 'spillway doctor' says what is missing");
  const Result<const Device*> loaded = load_plugin(path);
  if (!loaded.ok()) return loaded;
  Words words;
  DeviceFacts facts;
  if (const Code code = loaded.value()->facts(&facts, &words); code != Code::ok) return failed(code, "the cuda device cannot be used: ", words.text);
  serving = loaded.value();
  return serving;
}

}  // namespace spillway
