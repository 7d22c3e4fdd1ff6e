// Loads libraries by their soname, so that the ones inside a PyTorch wheel serve as well as the system's.
#include "cuda/libraries.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <mutex>
#include <vector>

namespace spillway::cuda {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

/// The folders that `spillway setup cuda` found, one a line (src/cuda/libraries.ts).
std::string remembered_file() {
  const std::string cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? variable("HOME") + "/.cache" : cache) + "/spillway/cuda-libraries";
}

std::vector<std::string> folders() {
  std::vector<std::string> list;
  const auto add = [&](std::istream&& parts, char between) {
    for (std::string folder; std::getline(parts, folder, between);)
      if (!folder.empty()) list.push_back(folder + "/");
  };
  add(std::istringstream(variable("SPILLWAY_CUDA_LIBRARIES")), ':');
  add(std::ifstream(remembered_file()), '\n');
  return list;
}

/// Named and remembered folders are tried before the system's libraries, which may be older. Null if no folder has any of these
/// names.
void* open_library(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    for (const std::string& folder : folders())
      if (void* found = ::dlopen((folder + name).c_str(), RTLD_NOW | RTLD_GLOBAL)) return found;
    if (void* found = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL)) return found;
  }
  return nullptr;
}

template <class F>
bool take(void* library, const char* name, F& into) {
  into = reinterpret_cast<F>(::dlsym(library, name));
  return into != nullptr;
}

#define SPILLWAY_TAKE(name) \
  if (!take(library, #name, table.name)) return failed(Code::device, "it has no function " #name ": it is too old");

Result<Driver> load_driver() {
  void* library = open_library({"libcuda.so.1"});
  if (!library) return failed(Code::device, "there is no NVIDIA driver (libcuda.so.1): install it");
  Driver table;
  SPILLWAY_DRIVER(SPILLWAY_TAKE)
  return table;
}

Result<Cudnn> load_cudnn() {
  // cuDNN asks for these by name when it needs them; those of a wheel are found only if they are loaded already.
  open_library({"libnvrtc.so.13", "libnvrtc.so.12"});
  open_library({"libcublasLt.so.13", "libcublasLt.so.12"});
  void* library = open_library({"libcudnn.so.9"});
  if (!library) return failed(Code::device, "cuDNN 9 is not found (libcudnn.so.9): run 'npx spillway setup cuda'");
  Cudnn table;
  SPILLWAY_CUDNN(SPILLWAY_TAKE)
  return table;
}

Result<CublasLt> load_cublas_lt() {
  void* library = open_library({"libcublasLt.so.13", "libcublasLt.so.12"});
  if (!library) return failed(Code::device, "cuBLAS is not found (libcublasLt.so.13): run 'npx spillway setup cuda'");
  CublasLt table;
  SPILLWAY_CUBLASLT(SPILLWAY_TAKE)
  return table;
}

Result<Nvml> load_nvml() {
  void* library = open_library({"libnvidia-ml.so.1"});
  if (!library) return failed(Code::device, "libnvidia-ml.so.1 is not found");
  Nvml table;
  SPILLWAY_TAKE(nvmlInit_v2)
  SPILLWAY_TAKE(nvmlDeviceGetHandleByPciBusId_v2)
  SPILLWAY_TAKE(nvmlDeviceGetComputeRunningProcesses_v3)
  return table.nvmlInit_v2() == 0 ? Result<Nvml>(table) : Result<Nvml>(failed(Code::device, "nvmlInit failed"));
}

/// Buffers that it takes for its own in a captured graph it must be able to hand to other processes, as one piece each: ours are neither.
Result<Nccl> load_nccl() {
  ::setenv("NCCL_GRAPH_REGISTER", "0", 0);
  ::setenv("NCCL_LOCAL_REGISTER", "0", 0);
  void* library = open_library({"libnccl.so.2"});
  if (!library)
    return failed(Code::device,
                  "NCCL is not found (libnccl.so.2); ranks on GPUs need it: install it, or set SPILLWAY_CUDA_LIBRARIES to its folder "
                  "(PyTorch has one in nvidia/nccl/lib)");
  Nccl table;
  SPILLWAY_NCCL(SPILLWAY_TAKE)
  return table;
}
#undef SPILLWAY_TAKE

}  // namespace

const Result<Driver>& driver() {
  static const Result<Driver> loaded = load_driver();
  return loaded;
}
const Result<Cudnn>& cudnn() {
  static const Result<Cudnn> loaded = load_cudnn();
  return loaded;
}
const Result<CublasLt>& cublas_lt() {
  static const Result<CublasLt> loaded = load_cublas_lt();
  return loaded;
}

const Result<Nvml>& nvml() {
  static const Result<Nvml> loaded = load_nvml();
  return loaded;
}

const Result<Nccl>& nccl() {
  static const Result<Nccl> loaded = load_nccl();
  return loaded;
}

std::string nccl_version(int number) {
  const int unit = number < 10000 ? 1000 : 10000;  // 2708 was 2.7.8
  return text(number / unit, ".", number % unit / 100, ".", number % 100);
}

Status checked(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return {};
  cudaGetLastError();  // not reported twice
  return failed(Code::device, what, ": ", cudaGetErrorString(code));
}

Status checked(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS) return {};
  const char* words = nullptr;
  if (!driver().ok() || driver().value().cuGetErrorString(code, &words) != CUDA_SUCCESS) words = "unknown error";
  return failed(Code::device, what, ": ", words);
}

/// A missing engine of cuDNN is a refusal; all other errors are failures of the device.
Status checked(cudnnStatus_t code, const char* what) {
  if (code == CUDNN_STATUS_SUCCESS) return {};
  return failed(CUDNN_STATUS_CATEGORY(code) == CUDNN_STATUS_NOT_SUPPORTED ? Code::illegal : Code::device, what, ": ",
                cudnn().value().cudnnGetErrorString(code));
}

Status checked(cublasStatus_t code, const char* what) {
  return code == CUBLAS_STATUS_SUCCESS
             ? Status{}
             : failed(code == CUBLAS_STATUS_NOT_SUPPORTED ? Code::illegal : Code::device, what, ": cuBLAS status ", int(code));
}

Result<cublasLtHandle_t> cublas_lt_handle() {
  static std::mutex mutex;
  static cublasLtHandle_t made = nullptr;  // of the process, which does not give it back
  const std::lock_guard lock(mutex);
  if (made) return made;
  if (!cublas_lt().ok()) return cublas_lt().status();
  const Status s = checked(cublas_lt().value().cublasLtCreate(&made), "cublasLtCreate");
  return s.ok() ? Result<cublasLtHandle_t>(made) : Result<cublasLtHandle_t>(s);
}

}  // namespace spillway::cuda
