// A device that a session or a single call has opened: the table's functions with their failures as Status, closed at the end.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "runtime/device.hpp"

namespace spillway {

/// A call made ready in a context, which outlives it.
class PreparedCall {
 public:
  PreparedCall(const Device& device, DeviceContext* context, DeviceCall* call, uint64_t workspace_bytes)
      : device_(&device), context_(context), call_(call), workspace_bytes_(workspace_bytes) {}
  PreparedCall(PreparedCall&& o) noexcept
      : device_(o.device_), context_(o.context_), call_(std::exchange(o.call_, nullptr)), workspace_bytes_(o.workspace_bytes_) {}
  PreparedCall& operator=(PreparedCall&&) = delete;
  ~PreparedCall() {
    if (call_) device_->release(context_, call_);
  }

  uint64_t workspace_bytes() const { return workspace_bytes_; }
  Addressed at(void* const* addresses, bool beside = false) const { return {call_, addresses, beside}; }

 private:
  const Device* device_;
  DeviceContext* context_;
  DeviceCall* call_;
  uint64_t workspace_bytes_;
};

class OpenDevice {
 public:
  static Result<OpenDevice> open(const Device& device, const OpenOptions& options) {
    DeviceContext* context = nullptr;
    Words words;
    if (const Code code = device.open(&options, &context, &words); code != Code::ok) return Status{code, words.text};
    return OpenDevice(device, context);
  }
  // NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): the analysis does not follow the std::variant of Result
  OpenDevice(OpenDevice&& o) noexcept : device_(o.device_), context_(std::exchange(o.context_, nullptr)) {}
  OpenDevice& operator=(OpenDevice&& o) noexcept {
    std::swap(device_, o.device_);
    std::swap(context_, o.context_);
    return *this;
  }
  ~OpenDevice() {
    if (context_) device_->close(context_);
  }

  const Device& device() const { return *device_; }
  bool asynchronous() const { return device_->asynchronous; }
  bool has_graphs() const { return device_->begin_capture != nullptr; }

  Result<std::byte*> map(const PoolLayout& layout) {
    return address([&](std::byte** at, Words* w) { return device_->map(context_, &layout, at, w); });
  }
  uint64_t pool_bytes() const { return device_->pool_bytes(context_); }
  /// None where the host's memory is the device's, or its driver does not say.
  std::optional<DeviceMemory> memory() const {
    DeviceMemory counted;
    Words words;
    return device_->memory && device_->memory(context_, &counted, &words) == Code::ok ? std::optional(counted) : std::nullopt;
  }
  Result<std::byte*> pin(uint64_t bytes) {
    return address([&](std::byte** at, Words* w) { return device_->pin(context_, bytes, at, w); });
  }

  /// At most `most` ways; an error if the call is not legal.
  Result<std::vector<Way>> ways(const KernelCall& call, uint32_t most = MOST_WAYS) {
    std::vector<Way> found(most);
    uint32_t n = 0;
    if (Status s = status_of([&](Words* w) { return device_->ways(context_, &call, most, found.data(), &n, w); }); !s.ok()) return s;
    found.resize(n);
    return found;
  }
  Result<PreparedCall> prepare(const KernelCall& call) {
    DeviceCall* prepared = nullptr;
    uint64_t bytes = 0;
    if (Status s = status_of([&](Words* w) { return device_->prepare(context_, &call, &prepared, &bytes, w); }); !s.ok()) return s;
    return PreparedCall(*device_, context_, prepared, bytes);
  }
  Status run(const Addressed& call) {
    return status_of([&](Words* w) { return device_->run(context_, &call, w); });
  }
  Status run_together(const std::vector<Addressed>& calls) {
    return status_of([&](Words* w) { return device_->run_together(context_, calls.data(), uint32_t(calls.size()), w); });
  }
  Status begin_step(const StepContext& step) {
    return status_of([&](Words* w) { return device_->begin_step(context_, &step, w); });
  }

  Status copy(Lane lane, void* to, const void* from, uint64_t bytes) {
    return status_of([&](Words* w) { return device_->copy(context_, lane, to, from, bytes, w); });
  }
  Status record(Lane lane, uint32_t event) {
    return status_of([&](Words* w) { return device_->record(context_, lane, event, w); });
  }
  Status wait(Lane lane, uint32_t event) {
    return status_of([&](Words* w) { return device_->wait(context_, lane, event, w); });
  }
  Status finish(Lane lane) {
    return status_of([&](Words* w) { return device_->finish(context_, lane, w); });
  }
  Status stamp(Lane lane, uint32_t number) {
    return status_of([&](Words* w) { return device_->stamp(context_, lane, number, w); });
  }
  double seconds_between(uint32_t from, uint32_t to) { return device_->seconds_between(context_, from, to); }

  Status begin_capture() {
    return status_of([&](Words* w) { return device_->begin_capture(context_, w); });
  }
  Result<uint32_t> end_capture() {
    uint32_t graph = 0;
    const Status s = status_of([&](Words* w) { return device_->end_capture(context_, &graph, w); });
    return s.ok() ? Result<uint32_t>(graph) : Result<uint32_t>(s);
  }
  void leave_ranks() {
    if (device_->leave_ranks) device_->leave_ranks(context_);
  }
  Status launch(uint32_t graph) {
    return status_of([&](Words* w) { return device_->launch(context_, graph, w); });
  }

 private:
  OpenDevice(const Device& device, DeviceContext* context) : device_(&device), context_(context) {}

  template <class F>
  static Status status_of(F f) {
    Words words;
    const Code code = f(&words);
    return code == Code::ok ? Status{} : Status{code, words.text[0] ? words.text : "the device failed without a message"};
  }
  template <class F>
  static Result<std::byte*> address(F f) {
    std::byte* at = nullptr;
    const Status s = status_of([&](Words* w) { return f(&at, w); });
    return s.ok() ? Result<std::byte*>(at) : Result<std::byte*>(s);
  }

  const Device* device_;
  DeviceContext* context_;
};

}  // namespace spillway
