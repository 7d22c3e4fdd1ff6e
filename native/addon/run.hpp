// One run of a session on its own thread: progress and the end cross to JavaScript through a bounded thread-safe function.
// Invariant: the thread is joined before anything that it uses goes away, also when the environment ends in the middle.
#pragma once
#include <napi.h>

#include <functional>
#include <thread>

#include "addon/source.hpp"
#include "runtime/session.hpp"

namespace spillway::addon {

class Run {
 public:
  /// Called on JavaScript's thread when the run is over and its thread joined.
  using Ended = std::function<void(Napi::Env, const RunMetrics&)>;

  Run(Napi::Env env, Session& session, HeldSource source, Napi::Function progress, Ended ended);
  /// Ends the run at once if it still runs.
  ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// To be called once session.begin() has accepted the options.
  void start();
  /// Ends the step at once, and the run with it: `ended` has been called when it returns.
  void end_now(Napi::Env env);
  /// For RunOptions::progress.
  void report(const Progress& p);
  /// Passes a request for a band of the data to JavaScript.
  void ask(const BandRequest& request);
  /// Also lets go of who waits for data.
  void stop(Stop how);
  Source& source() { return *source_.source; }

 private:
  void work();
  void finish(Napi::Env env);
  void cut_short();
  static void at_exit(void* self) { static_cast<Run*>(self)->cut_short(); }

  Napi::Env env_;
  Session& session_;
  HeldSource source_;
  Ended ended_;
  Napi::ThreadSafeFunction channel_;
  RunMetrics metrics_;
  std::atomic<bool> closed_{false};  // the channel has told the thread that JavaScript no longer listens
  bool aborted_ = false;             // this object has given its share of the channel back
  std::thread thread_;
};

}  // namespace spillway::addon
