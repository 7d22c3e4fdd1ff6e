// Leaving the process while threads work. exit() tears down libraries' own state (oneDNN frees the code that it made) under any
// thread that still runs it, and process.exit() ends nothing first. Waiting could take as long as an operator on a large image.
// So: while a thread works, the process ends without teardown. What a run has saved is in files already, and a spill file has no
// name; the system takes back the rest.
#pragma once
#include <napi.h>

namespace spillway::addon {

/// Held by a thread of the addon for as long as it may run native code.
class AtWork {
 public:
  AtWork();
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
};

/// Once for each environment.
void watch_exit(Napi::Env env);

}  // namespace spillway::addon
