// The JavaScript class Communicator over runtime/communicators.hpp: one rank. What it waits for other ranks with is a thread's, never
// JavaScript's. Invariant: one call at a time; it stays open while a call, or a run that was given it, goes on.
#pragma once
#include <napi.h>

#include <memory>

#include "runtime/communicators.hpp"

namespace spillway::addon {

class CommunicatorObject : public Napi::ObjectWrap<CommunicatorObject> {
 public:
  static void define(Napi::Env env, Napi::Object exports);
  explicit CommunicatorObject(const Napi::CallbackInfo& info);

  /// Shared with the run that uses it; null where the value is undefined.
  static std::shared_ptr<Communicator> shared(const Napi::Value& value);

 private:
  Napi::Value exchange(const Napi::CallbackInfo& info);
  Napi::Value agree(const Napi::CallbackInfo& info);
  Napi::Value measure(const Napi::CallbackInfo& info);
  Napi::Value interrupt(const Napi::CallbackInfo& info);
  Napi::Value abort(const Napi::CallbackInfo& info);
  Napi::Value close(const Napi::CallbackInfo& info);
  const std::shared_ptr<Communicator>& open(Napi::Env env) const;

  std::shared_ptr<Communicator> rank_;
};

const char* name_of(Accord accord);

}  // namespace spillway::addon
