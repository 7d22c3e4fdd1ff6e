// One kernel at a time: how much workspace it wants, how long it takes, what it computes.
// Invariant: a kernel is run only on operands whose every element lies in memory that this file has checked.
#include "addon/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

#include "addon/arguments.hpp"
#include "gen/ops.h"
#include "runtime/bandwidth.hpp"
#include "runtime/build_id.hpp"
#include "runtime/cold_measure.hpp"
#include "runtime/cores.hpp"
#include "runtime/devices.hpp"
#include "runtime/handles.hpp"
#include "runtime/single_call.hpp"

namespace spillway::addon {
namespace {

constexpr size_t WORKSPACE_ALIGN = 64;

DType parse_dtype(const Napi::Value& value) {
  const std::string name = value.IsUndefined() ? "f32" : as_string(value, "dtype");
  if (name == "f32") return DType::f32;
  if (name == "f64") return DType::f64;
  if (name == "i32") return DType::i32;
  if (name == "bf16") return DType::bf16;
  fail(value.Env(), text("dtype '", name, "': one of f32, f64, i32, bf16"));
}

/// Up to four whole numbers; false when the field is missing.
bool parse_sizes(const Napi::Object& operand, const char* key, int64_t (&into)[4], uint32_t* rank = nullptr) {
  const Napi::Value value = operand.Get(key);
  if (value.IsUndefined()) return false;
  const Napi::Array list = as_array(value, key);
  if (list.Length() < 1 || list.Length() > 4) fail(operand.Env(), text(key, " must have one to four numbers"));
  for (uint32_t i = 0; i < list.Length(); i++) {
    const uint64_t n = as_count(list.Get(i), key);
    if (n > 0xffffffff) fail(operand.Env(), text(key, ": ", n, " is too large"));
    into[i] = int64_t(n);
  }
  if (rank) *rank = list.Length();
  return true;
}

/// Channels-last for activations, row-major for the others.
void set_dense_strides(View& v, Role role) {
  const int64_t *d = v.dims;
  const bool data = role == Role::data || (role == Role::any && v.rank == 4);
  const int64_t last[4] = {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]}, natural[4] = {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
  std::copy_n(data ? last : natural, 4, v.strides);
}

/// Elements from the first to the last, inclusive.
uint64_t span_of(Napi::Env env, const View& v) {
  uint64_t last = 0, step = 0;
  for (int d = 0; d < 4; d++)
    if (__builtin_mul_overflow(uint64_t(v.dims[d] - 1), uint64_t(v.strides[d]), &step) || __builtin_add_overflow(last, step, &last) || last >> 56)
      fail(env, "an operand is absurdly large");
  return last + 1;
}

View parse_view(const Napi::Value& value, const OperandInfo& info) {
  const Napi::Object o = as_object(value, info.name);
  View v;
  v.dtype = parse_dtype(o.Get("dtype"));
  if (!parse_sizes(o, "dims", v.dims, &v.rank)) fail(o.Env(), text(info.name, ".dims is missing"));
  v.rank = uint32_t(count_or(o, "rank", v.rank));
  if (v.rank < 1 || v.rank > 4) fail(o.Env(), text(info.name, ": rank ", v.rank));
  if (info.role == Role::data && v.rank != 4) fail(o.Env(), text(info.name, " must have rank 4"));
  uint64_t elements = 1;
  for (const int64_t d : v.dims)
    if (d == 0 || __builtin_mul_overflow(elements, uint64_t(d), &elements) || elements >> 48) fail(o.Env(), text(info.name, ": empty or absurdly large"));
  set_dense_strides(v, info.role);
  parse_sizes(o, "strides", v.strides);
  parse_sizes(o, "origin", v.origin);
  std::copy_n(v.dims, 4, v.extent);
  parse_sizes(o, "extent", v.extent);
  for (int d = 0; d < 4; d++)
    if (v.origin[d] + v.dims[d] > v.extent[d]) fail(o.Env(), text(info.name, ": the box passes the whole value in dimension ", d));
  return v;
}

/// Points the view at a typed array that holds all of it.
void attach(View& v, const Napi::Object& operand, const char* name) {
  const Napi::Value data = operand.Get("data");
  if (!data.IsTypedArray()) fail(operand.Env(), text(name, ".data must be a typed array"));
  const auto array = data.As<Napi::TypedArray>();
  constexpr napi_typedarray_type arrays[] = {napi_float32_array, napi_float64_array, napi_int32_array, napi_uint16_array};
  const napi_typedarray_type want = arrays[uint32_t(v.dtype)];
  if (array.TypedArrayType() != want) fail(operand.Env(), text(name, ".data is not of the operand's dtype"));
  const uint64_t offset = count_or(operand, "offset", 0), span = span_of(operand.Env(), v);
  if (offset > array.ElementLength() || span > array.ElementLength() - offset)
    fail(operand.Env(), text(name, ".data has ", array.ElementLength(), " elements; the view reaches element ", offset + span));
  v.data = static_cast<std::byte*>(array.ArrayBuffer().Data()) + array.ByteOffset() + offset * dtype_bytes(v.dtype);
}

struct Request {
  const Device* device = nullptr;
  SingleOptions options;
  const OpInfo* op = nullptr;
  std::vector<View> ins, outs;
  std::vector<double> attrs;
  StepContext step;
  KernelCall call;
};

const OpInfo& parse_kind(const Napi::Value& value) {
  for (const OpInfo& op : OP_TABLE)
    if (value.IsString() ? op.kind == value.As<Napi::String>().Utf8Value() : value.IsNumber() && op.wire == value.As<Napi::Number>().DoubleValue()) return op;
  fail(value.Env(), text("unknown operator ", value.ToString().Utf8Value()));
}

void parse_attrs(const Napi::Value& value, Request& r) {
  const Napi::Array list = as_array(value, "attrs");
  if (list.Length() != r.op->attrs) fail(value.Env(), text(r.op->kind, " has ", r.op->attrs, " attributes, not ", list.Length()));
  for (uint32_t i = 0; i < list.Length(); i++) {
    const double a = as_number(list.Get(i), "attribute");
    if (!std::isfinite(a) || (r.op->attr_kinds[i] == 'i' && (a != std::floor(a) || std::abs(a) > 0x1p53))) fail(value.Env(), text(r.op->kind, ": attribute ", i, " is ", a));
    r.attrs.push_back(a);
  }
}

std::vector<View> parse_operands(const Napi::Value& value, const OpInfo& op, bool outs) {
  const Napi::Array list = as_array(value, outs ? "outs" : "ins");
  const uint32_t least = outs ? op.min_outs : op.min_ins, most = outs ? op.max_outs : op.max_ins;
  if (list.Length() < least || list.Length() > most) fail(value.Env(), text(op.kind, " does not take ", list.Length(), outs ? " outputs" : " inputs"));
  std::vector<View> views;
  for (uint32_t i = 0; i < list.Length(); i++) views.push_back(parse_view(list.Get(i), outs ? op.out(i) : op.in(i)));
  return views;
}

/// Arguments device, kind, attrs, ins, outs of every function here.
std::unique_ptr<Request> parse_request(const Napi::CallbackInfo& info) {
  const std::string name = as_string(info[0], "device");
  auto r = std::make_unique<Request>();
  r->device = take(info.Env(), load_device(name));
  r->op = &parse_kind(info[1]);
  if (!r->device->has_kernel(r->op->wire)) fail(info.Env(), text("device '", name, "' has no kernel for ", r->op->kind));
  parse_attrs(info[2], *r);
  r->ins = parse_operands(info[3], *r->op, false);
  r->outs = parse_operands(info[4], *r->op, true);
  r->call.kind = r->op->wire;
  r->call.ins = r->ins.data();
  r->call.n_ins = uint32_t(r->ins.size());
  r->call.outs = r->outs.data();
  r->call.n_outs = uint32_t(r->outs.size());
  r->call.attrs = r->attrs.data();
  r->call.n_attrs = uint32_t(r->attrs.size());
  r->call.step = &r->step;
  return r;
}

/// At most what OpenMP takes.
int thread_count(uint64_t threads) { return int(std::min<uint64_t>(threads, 4096)); }

Precision parse_precision(const Napi::Value& value) {
  const std::string name = value.IsUndefined() ? "fp32" : as_string(value, "precision");
  if (name != "fp32" && name != "tf32") fail(value.Env(), text("precision '", name, "': fp32 or tf32"));
  return name == "tf32" ? Precision::tf32 : Precision::full;
}

Algorithm parse_algorithm(const Napi::Value& value) {
  constexpr const char* NAMES[ALGORITHMS] = {"direct", "winograd", "taps", "library2", "library3", "library4", "loose1", "loose2", "loose3"};
  const std::string name = value.IsUndefined() ? "direct" : as_string(value, "algorithm");
  for (uint32_t i = 0; i < ALGORITHMS; i++)
    if (name == NAMES[i]) return Algorithm(i);
  fail(value.Env(), text("algorithm '", name, "': direct, winograd, taps, library2 to library4 or loose1 to loose3"));
}

/// Arguments 5 to 7 of questions: algorithm, threads, precision.
void parse_options(const Napi::CallbackInfo& info, Request& r) {
  r.call.algorithm = parse_algorithm(info[5]);
  r.options = {parse_precision(info[7]), thread_count(info[6].IsUndefined() ? 0 : as_count(info[6], "threads"))};
}

struct Workspace {
  AddressRange range;
  /// Zero bytes give a null pointer.
  static Workspace of(Napi::Env env, Request& r) {
    if (r.device->asynchronous) return {};  // the device's own
    const int64_t need = take(env, single_workspace(*r.device, r.call, r.options));
    if (need < 0) fail(env, text(r.op->kind, ": the device's kernel refuses these shapes"));
    Workspace w;
    if (need > 0) w.range = AddressRange::map((size_t(need) + WORKSPACE_ALIGN - 1) / WORKSPACE_ALIGN * WORKSPACE_ALIGN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
    if (need > 0 && !w.range) fail(env, text(r.op->kind, ": no memory for ", need, " bytes of workspace"));
    r.call.workspace = w.range.data();
    r.call.workspace_bytes = size_t(need);
    return w;
  }
};

/// query(device, kind, attrs, ins, outs, algorithm = direct, threads = all, precision = fp32) -> bytes of workspace, or -1
/// when the call is not legal.
Napi::Value query(const Napi::CallbackInfo& info) {
  const auto r = parse_request(info);
  parse_options(info, *r);
  return Napi::Number::New(info.Env(), double(take(info.Env(), single_workspace(*r->device, r->call, r->options))));
}

/// runKernel(device, kind, attrs, ins, outs, {step, seed, lrScale, algorithm, threads, precision}): operands have `data`, maybe `strides` and `offset`.
Napi::Value run_kernel(const Napi::CallbackInfo& info) {
  const auto r = parse_request(info);
  const Napi::Object options = info[5].IsUndefined() ? Napi::Object::New(info.Env()) : as_object(info[5], "options");
  for (uint32_t i = 0; i < r->ins.size(); i++) attach(r->ins[i], info[3].As<Napi::Array>().Get(i).As<Napi::Object>(), r->op->in(i).name);
  for (uint32_t i = 0; i < r->outs.size(); i++) attach(r->outs[i], info[4].As<Napi::Array>().Get(i).As<Napi::Object>(), r->op->out(i).name);
  r->step = {count_or(options, "step", 1), count_or(options, "seed", 0), number_or(options, "lrScale", 1)};
  r->call.algorithm = parse_algorithm(options.Get("algorithm"));
  r->options = {parse_precision(options.Get("precision")), thread_count(count_or(options, "threads", 0))};
  const Workspace workspace = Workspace::of(info.Env(), *r);
  require(info.Env(), single_run(*r->device, r->call, r->options));
  return info.Env().Undefined();
}

/// measure(device, kind, attrs, ins, outs, algorithm = direct, threads = all, precision = fp32, inPlace = none) -> {seconds, quiet}
Napi::Value measure(const Napi::CallbackInfo& info) {
  const auto r = parse_request(info);
  parse_options(info, *r);
  for (const View& v : r->ins) span_of(info.Env(), v);
  for (const View& v : r->outs) span_of(info.Env(), v);
  if (!info[8].IsUndefined()) {
    const uint64_t in_place = as_count(info[8], "inPlace");
    if (in_place >= r->ins.size() || r->outs.empty() || span_bytes(r->ins[in_place]) != span_bytes(r->outs[0]))
      fail(info.Env(), text(r->op->kind, ": input ", in_place, " cannot be taken over by the first output"));
    r->options.in_place = int(in_place);
  }
  const Measured m = take(info.Env(), measure_call(*r->device, r->call, r->options));
  const Napi::Object o = Napi::Object::New(info.Env());
  o.Set("seconds", m.seconds);
  o.Set("quiet", m.quiet);
  return o;
}

/// forget('kernels'?): compiled kernels that are not in use give their memory back; without a word, what measurements keep too.
Napi::Value forget(const Napi::CallbackInfo& info) {
  for (const char* name : {"cpu", "ref", "null"})
    if (const Device* d = find_device(name); d && d->forget) d->forget();
  if (info[0].IsUndefined()) forget_measuring();
  return info.Env().Undefined();
}

Napi::Value device_info(const Napi::CallbackInfo& info) {
  const Napi::Object o = Napi::Object::New(info.Env());
  const Napi::Array devices = Napi::Array::New(info.Env());
  for (const char* name : {"cpu", "ref", "null"})
    if (find_device(name)) devices.Set(devices.Length(), name);
  o.Set("devices", devices);
  o.Set("cores", available_cores());
  o.Set("threads", default_threads());
  o.Set("build", build_id(reinterpret_cast<const void*>(&device_info)));
  if (const Device* cpu = find_device("cpu")) {
    DeviceFacts facts;
    Words words;
    if (cpu->facts(&facts, &words) == Code::ok) o.Set("oneDnn", std::string(facts.libraries));
  }
  return o;
}

/// deviceFacts(device) -> {device, driver, libraries, build, totalBytes, freeBytes, processors}; throws when it cannot be used.
Napi::Value device_facts(const Napi::CallbackInfo& info) {
  const Device* device = take(info.Env(), load_device(as_string(info[0], "device")));
  DeviceFacts facts;
  Words words;
  if (device->facts(&facts, &words) != Code::ok) fail(info.Env(), words.text);
  const Napi::Object o = Napi::Object::New(info.Env());
  o.Set("device", std::string(facts.device));
  o.Set("driver", std::string(facts.driver));
  o.Set("libraries", std::string(facts.libraries));
  o.Set("build", build_id(reinterpret_cast<const void*>(device->run)));
  o.Set("totalBytes", double(facts.total_bytes));
  o.Set("freeBytes", double(facts.free_bytes));
  o.Set("processors", facts.processors);
  return o;
}

/// copyBandwidth(directory?, device = cpu, threads = all) -> {outBytesPerSecond, inBytesPerSecond, fullDuplex, beside: {copies, calls}}
Napi::Value copy_bandwidth(const Napi::CallbackInfo& info) {
  const Device* device = info[1].IsUndefined() ? nullptr : take(info.Env(), load_device(as_string(info[1], "device")));
  const std::string directory = info[0].IsUndefined() ? "" : as_string(info[0], "directory");
  const int threads = info[2].IsUndefined() ? 0 : thread_count(as_count(info[2], "threads"));
  const Bandwidth b = take(info.Env(), device && device->asynchronous ? measure_device_bandwidth(*device) : measure_bandwidth(directory, threads > 0 ? threads : default_threads()));
  const Napi::Object o = Napi::Object::New(info.Env());
  o.Set("outBytesPerSecond", b.out_bytes_per_second);
  o.Set("inBytesPerSecond", b.in_bytes_per_second);
  o.Set("fullDuplex", b.full_duplex);
  const Napi::Object beside = Napi::Object::New(info.Env());
  beside.Set("copies", b.copies_beside);
  beside.Set("calls", b.calls_beside);
  o.Set("beside", beside);
  return o;
}

}  // namespace

void export_kernels(Napi::Env env, Napi::Object exports) {
  exports.Set("query", Napi::Function::New(env, query, "query"));
  exports.Set("measure", Napi::Function::New(env, measure, "measure"));
  exports.Set("runKernel", Napi::Function::New(env, run_kernel, "runKernel"));
  exports.Set("forget", Napi::Function::New(env, forget, "forget"));
  exports.Set("deviceInfo", Napi::Function::New(env, device_info, "deviceInfo"));
  exports.Set("deviceFacts", Napi::Function::New(env, device_facts, "deviceFacts"));
  exports.Set("copyBandwidth", Napi::Function::New(env, copy_bandwidth, "copyBandwidth"));
}

}  // namespace spillway::addon
