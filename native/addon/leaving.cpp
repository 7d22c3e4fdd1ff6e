// Handlers of exit() run last come, first served, and destructors of statics are among them. So ours is added when the process is
// leaving already, at JavaScript's "exit" event: every static that exists by then goes after it.
#include "addon/leaving.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace spillway::addon {
namespace {

std::atomic<int> at_work{0};

void leave(int code, void*) {
  if (at_work == 0) return;
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace

AtWork::AtWork() { at_work++; }
AtWork::~AtWork() { at_work--; }

void watch_exit(Napi::Env env) {
  const auto process = env.Global().Get("process").As<Napi::Object>();
  const auto leaving = Napi::Function::New(
      env, [](const Napi::CallbackInfo&) { on_exit(leave, nullptr); }, "leaving");
  process.Get("on").As<Napi::Function>().Call(process, {Napi::String::New(env, "exit"), leaving});
}

}  // namespace spillway::addon
