// The interface for JavaScript beside sessions: see kernels.cpp and devices.cpp.
#pragma once
#include <napi.h>

namespace spillway::addon {

void export_kernels(Napi::Env env, Napi::Object exports);
void export_devices(Napi::Env env, Napi::Object exports);

}  // namespace spillway::addon
