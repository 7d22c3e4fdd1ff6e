// A call of one kernel as JavaScript describes it, in one object: {device, kind, attrs, ins, outs, way, threads, precision, …}.
// In: such an object. Out: the call and how it is asked for, or a JavaScript error. Invariant: every element of every operand lies in
// memory that was checked, as soon as data are attached.
#pragma once
#include <napi.h>

#include <memory>
#include <vector>

#include "gen/ops.h"
#include "runtime/devices.hpp"
#include "runtime/single_call.hpp"

namespace spillway::addon {

/// By number, as JavaScript knows them.
inline constexpr const char* PRECISIONS[] = {"fp32", "tf32", "bf16", "fp16"};

struct Request {
  const Device* device = nullptr;
  SingleOptions options;
  const OpInfo* op = nullptr;
  std::vector<View> ins, outs;
  std::vector<double> attrs;
  StepContext step;
  KernelCall call;
};

/// With `data`, operands have typed arrays, and maybe `strides` and `offset`.
std::unique_ptr<Request> parse_request(const Napi::Value& value, bool data);

/// 'fp32', 'tf32', 'bf16' or 'fp16'; fp32 where nothing is said.
Precision parse_precision(const Napi::Value& value);
/// At most the limit of OpenMP; 0 if not given.
int parse_threads(const Napi::Value& value);

}  // namespace spillway::addon
