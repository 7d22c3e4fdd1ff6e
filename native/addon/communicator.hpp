// The JavaScript class Communicator over runtime/communicators.hpp: one rank. A thread waits for other ranks, never JavaScript.
// Invariant: one call at a time; it stays open during a call, or during a run that uses it.
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
