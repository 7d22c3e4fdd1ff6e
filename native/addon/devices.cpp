// Facts of devices, and the rates of their links.
#include "addon/kernels.hpp"

#include <memory>

#include "addon/arguments.hpp"
#include "addon/requests.hpp"
#include "runtime/bandwidth.hpp"
#include "runtime/build_id.hpp"
#include "runtime/cores.hpp"

namespace spillway::addon {
namespace {

/// {name, dtype, precisions, kernels}
Napi::Object description(Napi::Env env, const Device& device) {
  const Napi::Object o = Napi::Object::New(env);
  const Napi::Array precisions = Napi::Array::New(env), kernels = Napi::Array::New(env);
  for (uint32_t p = 0; p < std::size(PRECISIONS); p++)
    if (device.precisions & precision_bit(Precision(p))) precisions.Set(precisions.Length(), PRECISIONS[p]);
  for (const OpInfo& op : OP_TABLE)
    if (device.has_kernel(op.wire)) kernels.Set(kernels.Length(), op.kind);
  o.Set("name", device.name);
  o.Set("dtype", name_of(device.float_type));
  o.Set("precisions", precisions);
  o.Set("kernels", kernels);
  o.Set("gathersUpdates", device.most_together && device.most_together(uint32_t(OpKind::sgd)) > 1);
  return o;
}

/// describeDevice(device) -> what it can do; throws when it is not to be had.
Napi::Value describe_device(const Napi::CallbackInfo& info) {
  return description(info.Env(), *take(info.Env(), load_device(as_string(info[0], "device"))));
}

Napi::Value device_info(const Napi::CallbackInfo& info) {
  const Napi::Object o = Napi::Object::New(info.Env());
  const Napi::Array devices = Napi::Array::New(info.Env());
  for (const Device& d : own_devices()) devices.Set(devices.Length(), d.name);
  o.Set("devices", devices);
  o.Set("cores", available_cores());
  o.Set("threads", default_threads());
  o.Set("build", build_id(reinterpret_cast<const void*>(&device_info)));
  for (const Device& d : own_devices()) {
    DeviceFacts facts;
    Words words;
    if (d.facts(&facts, &words) == Code::ok && facts.libraries[0]) o.Set("oneDnn", std::string(facts.libraries));
  }
  return o;
}

/// deviceFacts(device) -> the facts of a device, and the hash of its code; throws when it cannot be used.
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
  o.Set("capability", facts.capability);
  o.Set("clockHz", double(facts.clock_khz) * 1e3);
  o.Set("memoryClockHz", double(facts.memory_clock_khz) * 1e3);
  o.Set("busBits", facts.bus_bits);
  o.Set("pci", std::string(facts.pci));
  return o;
}

/// carrier(device) -> what carries bytes between the devices of ranks; nothing where the host does; throws where it is missing.
Napi::Value carrier(const Napi::CallbackInfo& info) {
  const Device* device = take(info.Env(), load_device(as_string(info[0], "device")));
  if (!device->carrier) return info.Env().Undefined();
  char name[64] = {};
  Words words;
  if (device->carrier(&name, &words) != Code::ok) fail(info.Env(), words.text);
  return Napi::String::New(info.Env(), name);
}

/// copyBandwidth(directory?, device = cpu, threads = all) -> {outBytesPerSecond, inBytesPerSecond, fullDuplex, beside: {copies, calls}}
Napi::Value copy_bandwidth(const Napi::CallbackInfo& info) {
  const Device* device = info[1].IsUndefined() ? nullptr : take(info.Env(), load_device(as_string(info[1], "device")));
  const std::string directory = info[0].IsUndefined() ? "" : as_string(info[0], "directory");
  const int threads = parse_threads(info[2]);
  const Bandwidth b =
      take(info.Env(), device && device->asynchronous ? measure_device_bandwidth(*device)
                                                      : measure_bandwidth(directory, threads > 0 ? threads : default_threads()));
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

void export_devices(Napi::Env env, Napi::Object exports) {
  exports.Set("describeDevice", Napi::Function::New(env, describe_device, "describeDevice"));
  exports.Set("deviceInfo", Napi::Function::New(env, device_info, "deviceInfo"));
  exports.Set("deviceFacts", Napi::Function::New(env, device_facts, "deviceFacts"));
  exports.Set("carrier", Napi::Function::New(env, carrier, "carrier"));
  exports.Set("copyBandwidth", Napi::Function::New(env, copy_bandwidth, "copyBandwidth"));
}

}  // namespace spillway::addon
