// The JavaScript class Session over runtime/session.hpp: marshalling, and one thread for a run. Invariant: the object lives
// as long as its run; exit and terminate of the environment first end the run.
#pragma once
#include <napi.h>

#include <memory>

#include "runtime/session.hpp"

namespace spillway::addon {

class Run;

class SessionObject : public Napi::ObjectWrap<SessionObject> {
 public:
  static void define(Napi::Env env, Napi::Object exports);
  explicit SessionObject(const Napi::CallbackInfo& info);
  ~SessionObject() override;

 private:
  friend class Run;

  Napi::Value bindings(const Napi::CallbackInfo& info);
  Napi::Value facts(const Napi::CallbackInfo& info);
  Napi::Value init(const Napi::CallbackInfo& info);
  Napi::Value read(const Napi::CallbackInfo& info);
  Napi::Value write(const Napi::CallbackInfo& info);
  Napi::Value run(const Napi::CallbackInfo& info);
  Napi::Value put(const Napi::CallbackInfo& info);
  Napi::Value cancel(const Napi::CallbackInfo& info);
  Napi::Value dispose(const Napi::CallbackInfo& info);

  /// The open session, or a JavaScript error.
  Session& open(Napi::Env env) const;
  uint32_t find(Napi::Env env, const Napi::Value& name) const;

  std::unique_ptr<Session> session_;
  std::unique_ptr<Run> run_;  // while one is active
  int64_t external_bytes_ = 0;
  bool timeline_ = false;
};

}  // namespace spillway::addon
