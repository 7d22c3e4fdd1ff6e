// query, measure, runKernel, deviceInfo, copyBandwidth: see kernels.cpp.
#pragma once
#include <napi.h>

namespace spillway::addon {

void export_kernels(Napi::Env env, Napi::Object exports);

}  // namespace spillway::addon
