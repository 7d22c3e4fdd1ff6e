// The module: the interface of the native side for JavaScript. Only src/device/native.ts loads it.
#include "addon/communicator.hpp"
#include "addon/kernels.hpp"
#include "addon/leaving.hpp"
#include "addon/session.hpp"

namespace spillway::addon {

Napi::Object init(Napi::Env env, Napi::Object exports) {
  export_devices(env, exports);
  export_kernels(env, exports);
  CommunicatorObject::define(env, exports);
  SessionObject::define(env, exports);
  watch_exit(env);
  return exports;
}

NODE_API_MODULE(spillway, init)

}  // namespace spillway::addon
