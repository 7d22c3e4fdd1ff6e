// Ends the process while threads work. exit() tears down the state of libraries under any thread that still runs (oneDNN frees
// its generated code), and process.exit() stops no thread first. Waiting could take as long as an operator on a large image. So
// while a thread works, the process ends without teardown. Saved data is in files already, a spill file has no name, and the
// system frees the rest.
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
