// The plugin's libraries: the imitated functions by name. SPILLWAY_HOST_CUDA_MISSING names missing libraries, and missing functions, with
// spaces between. A library that the loader misses is found by its path if such a file exists.
#include "cuda/libraries.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "test/native/host_cuda/asked.hpp"
#include "test/native/host_cuda/nccl.hpp"

namespace {

struct Known {
  const char *library, *name;
  void* at;
};
#define DRIVER(name) {"libcuda.so.1", #name, reinterpret_cast<void*>(&::name)},
#define CUDNN(name) {"libcudnn.so.9", #name, reinterpret_cast<void*>(&::name)},
#define CUBLASLT(name) {"libcublasLt.so.13", #name, reinterpret_cast<void*>(&::name)},
#define NCCL(name) {"libnccl.so.2", #name, reinterpret_cast<void*>(&::name)},
#define NVML(name) {"libnvidia-ml.so.1", #name, reinterpret_cast<void*>(&::name)},

}  // namespace

extern "C" {
int nvmlInit_v2();
int nvmlDeviceGetHandleByPciBusId_v2(const char*, void**);
int nvmlDeviceGetComputeRunningProcesses_v3(void*, unsigned int*, spillway::cuda::NvmlProcess*);
}

namespace {

const Known KNOWN[] = {SPILLWAY_DRIVER(DRIVER) SPILLWAY_CUDNN(CUDNN) SPILLWAY_CUBLASLT(CUBLASLT) SPILLWAY_NCCL(NCCL) NVML(nvmlInit_v2)
                           NVML(nvmlDeviceGetHandleByPciBusId_v2) NVML(nvmlDeviceGetComputeRunningProcesses_v3)};

bool missing(std::string_view name) {
  const char* const list = std::getenv("SPILLWAY_HOST_CUDA_MISSING");
  return (" " + std::string(list ? list : "") + " ").find(" " + std::string(name) + " ") != std::string::npos;
}

}  // namespace

extern "C" {

void* spillway_host_dlopen(const char* file, int) {
  const std::string_view path = file, name = path.substr(path.rfind('/') + 1);
  const bool is_there = path == name ? !missing(name) : ::access(file, F_OK) == 0;
  for (const Known& k : KNOWN)
    if (k.library == name && is_there) return const_cast<char*>(k.library);
  return nullptr;
}

void* spillway_host_dlsym(void* library, const char* name) {
  if (std::string_view(name).substr(0, 5) == "cudnn" && spillway::host_cuda::asks_cudnn()) return spillway::host_cuda::asked_function(name);
  for (const Known& k : KNOWN)
    if (k.library == library && std::string_view(k.name) == name && !missing(name)) return k.at;
  return nullptr;
}

}  // extern "C"
