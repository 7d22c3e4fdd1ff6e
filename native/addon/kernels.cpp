// Single kernels: the ways to run a kernel, its seconds, its results.
#include "addon/kernels.hpp"

#include "addon/arguments.hpp"
#include "addon/requests.hpp"
#include "runtime/cold_measure.hpp"

namespace spillway::addon {
namespace {

/// ways(request, most = all) -> [{way, name, repeats, workspace}]; none where the call is not legal.
Napi::Value ways(const Napi::CallbackInfo& info) {
  const auto r = parse_request(info[0], false);
  const uint64_t most = info[1].IsUndefined() ? MOST_WAYS : as_count(info[1], "most");
  const Result<std::vector<Way>> found = single_ways(*r->device, r->call, uint32_t(std::min<uint64_t>(most, MOST_WAYS)), r->options);
  const Napi::Array list = Napi::Array::New(info.Env());
  if (!found.ok() && found.status().code == Code::illegal) return list;
  for (const Way& way : take(info.Env(), found)) {
    const Napi::Object o = Napi::Object::New(info.Env());
    o.Set("way", way.number);
    o.Set("name", std::string(way.name));
    o.Set("repeats", way.repeats);
    o.Set("workspace", double(way.workspace_bytes));
    list.Set(list.Length(), o);
  }
  return list;
}

/// runKernel(request), whose operands have data.
Napi::Value run_kernel(const Napi::CallbackInfo& info) {
  const auto r = parse_request(info[0], true);
  require(info.Env(), single_run(*r->device, r->call, r->options));
  return info.Env().Undefined();
}

/// measure(request) -> {seconds, quiet}
Napi::Value measure(const Napi::CallbackInfo& info) {
  const auto r = parse_request(info[0], false);
  const Measured m = take(info.Env(), measure_call(*r->device, r->call, r->options));
  const Napi::Object o = Napi::Object::New(info.Env());
  o.Set("seconds", m.seconds);
  o.Set("quiet", m.quiet);
  return o;
}

/// forget(): what was compiled for queries and measurements gives its memory back, and what measurements keep.
Napi::Value forget(const Napi::CallbackInfo& info) {
  forget_measuring();
  for (const Device& d : own_devices())
    if (d.forget) d.forget();
  return info.Env().Undefined();
}

}  // namespace

void export_kernels(Napi::Env env, Napi::Object exports) {
  exports.Set("ways", Napi::Function::New(env, ways, "ways"));
  exports.Set("measure", Napi::Function::New(env, measure, "measure"));
  exports.Set("runKernel", Napi::Function::New(env, run_kernel, "runKernel"));
  exports.Set("forget", Napi::Function::New(env, forget, "forget"));
}

}  // namespace spillway::addon
