// From 9.8 on cuDNN takes a GPU's properties where it takes a handle. The plugin knows nothing of that: where it gives its handle,
// the properties are given instead, and beside each graph that it asks the heuristics about.
#include "test/native/host_cuda/asked.hpp"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "cuda/libraries.hpp"

namespace spillway::host_cuda {
namespace {

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "cuDNN cannot be asked: %s\n", why.c_str());
  std::abort();
}

const char* setting(const char* name) {
  const char* const value = std::getenv(name);
  return value && *value ? value : nullptr;
}

#if CUDNN_VERSION >= 90800
struct Real {
  cuda::Cudnn functions;
  cudnnBackendDescriptor_t gpu = nullptr;
};

Real load() {
  Real real;
  const char *const driver = setting("SPILLWAY_HOST_CUDA_DRIVER"), *const gpu = setting("SPILLWAY_HOST_CUDA_GPU");
  if (!driver || !gpu) give_up("SPILLWAY_HOST_CUDA_DRIVER and SPILLWAY_HOST_CUDA_GPU say about what");
  if (!::dlopen(driver, RTLD_NOW | RTLD_GLOBAL)) give_up(::dlerror());
  void* const library = ::dlopen((std::string(setting("SPILLWAY_HOST_CUDA_CUDNN")) + "/libcudnn.so.9").c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) give_up(::dlerror());
#define TAKE(name)                                                                                \
  real.functions.name = reinterpret_cast<decltype(real.functions.name)>(::dlsym(library, #name)); \
  if (!real.functions.name) give_up("it has no " #name);
  SPILLWAY_CUDNN(TAKE)
#undef TAKE
  const auto must = [&](cudnnStatus_t status, const char* what) {
    if (status != CUDNN_STATUS_SUCCESS) give_up(std::string(what) + ": " + real.functions.cudnnGetErrorString(status));
  };
  const std::string_view properties = gpu;
  must(real.functions.cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &real.gpu), "a GPU's properties");
  must(real.functions.cudnnBackendSetAttribute(real.gpu, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                               int64_t(properties.size()), properties.data()),
       "the GPU's properties");
  must(real.functions.cudnnBackendFinalize(real.gpu), "the GPU's properties");
  return real;
}

Real& real() {
  static Real& loaded = *new Real(load());
  return loaded;
}

cudnnStatus_t create(cudnnHandle_t* handle) {
  *handle = reinterpret_cast<cudnnHandle_t>(&real());
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t destroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t set_stream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t execute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t) { return CUDNN_STATUS_EXECUTION_FAILED; }

cudnnStatus_t set(cudnnBackendDescriptor_t of, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t count,
                  const void* values) {
  const auto give_gpu = [&](cudnnBackendAttributeName_t as) {
    return real().functions.cudnnBackendSetAttribute(of, as, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &real().gpu);
  };
  if (name == CUDNN_ATTR_OPERATIONGRAPH_HANDLE) return CUDNN_STATUS_SUCCESS;
  if (name == CUDNN_ATTR_EXECUTION_PLAN_HANDLE) return give_gpu(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP);
  const cudnnStatus_t status = real().functions.cudnnBackendSetAttribute(of, name, type, count, values);
  return status == CUDNN_STATUS_SUCCESS && name == CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH ? give_gpu(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)
                                                                                         : status;
}

template <class F>
void* address(F* function) {
  return reinterpret_cast<void*>(function);
}
#endif

}  // namespace

bool asks_cudnn() { return setting("SPILLWAY_HOST_CUDA_CUDNN") != nullptr; }

void* asked_function(const char* name) {
#if CUDNN_VERSION >= 90800
  const std::string_view is = name;
  if (is == "cudnnCreate") return address(create);
  if (is == "cudnnDestroy") return address(destroy);
  if (is == "cudnnSetStream") return address(set_stream);
  if (is == "cudnnBackendExecute") return address(execute);
  if (is == "cudnnBackendSetAttribute") return address(set);
#define GIVE(function) \
  if (is == #function) return address(real().functions.function);
  SPILLWAY_CUDNN(GIVE)
#undef GIVE
  return nullptr;
#else
  give_up(std::string("the headers here are older than 9.8: no ") + name);
#endif
}

}  // namespace spillway::host_cuda
