// The thread of a run. Steps' ends wait for room in the queue, so none is lost; marks inside a step are dropped when it is full.
// Node frees a thread-safe function while threads may still use it, so the environment's end must join the thread first:
// a clean-up hook, registered after the function's own and hence run before it, does that.
#include "addon/run.hpp"

#include <memory>

#include "addon/leaving.hpp"

namespace spillway::addon {
namespace {

constexpr size_t QUEUE = 64;

Napi::Object progress_object(Napi::Env env, const Progress& p) {
  const Napi::Object o = Napi::Object::New(env);
  const bool step = p.phase == Progress::Phase::step;
  o.Set("phase", step ? "step" : "segment");
  o.Set("step", double(p.step));
  o.Set("seconds", p.seconds);
  if (step) o.Set("loss", p.loss);
  if (!step) o.Set("segment", p.segment);
  if (!step) o.Set("tile", p.tile);
  return o;
}

}  // namespace

Run::Run(Napi::Env env, Session& session, HeldSource source, Napi::Function progress, Ended ended)
    : env_(env), session_(session), source_(std::move(source)), ended_(std::move(ended)) {
  channel_ = Napi::ThreadSafeFunction::New(env, progress, "spillway run", QUEUE, 1);
}

void Run::start() {
  napi_add_env_cleanup_hook(env_, at_exit, this);
  // Two owners: this object, which may abort, and from now on the thread. A run that is refused has none.
  channel_.Acquire();
  thread_ = std::thread([this, busy = std::make_unique<AtWork>()] { work(); });
}

void Run::report(const Progress& p) {
  if (closed_) return;
  const auto call = [p](Napi::Env env, Napi::Function callback) { callback.Call({progress_object(env, p)}); };
  const napi_status s = p.phase == Progress::Phase::step ? channel_.BlockingCall(call) : channel_.NonBlockingCall(call);
  if (s == napi_closing) closed_ = true;
}

void Run::ask(const BandRequest& request) {
  if (closed_) return;
  const Tape& tape = session_.tape();
  const auto call = [request, name = std::string(tape.name(tape.bindings[request.binding]))](Napi::Env env, Napi::Function callback) {
    const Napi::Object o = Napi::Object::New(env);
    o.Set("phase", "ask");
    o.Set("name", name);
    o.Set("step", double(request.band.step));
    o.Set("b", double(request.band.b));
    o.Set("band", double(request.band.number));
    o.Set("slot", double(request.slot));
    o.Set("ticket", double(request.ticket));
    callback.Call({o});
  };
  if (channel_.BlockingCall(call) == napi_closing) closed_ = true;
}

void Run::work() {
  metrics_ = session_.finish();
  if (closed_) return;
  const napi_status s = channel_.BlockingCall([this](Napi::Env env, Napi::Function) {
    thread_.join();
    finish(env);
  });
  if (s == napi_closing)
    closed_ = true;
  else
    channel_.Release();
}

/// Its last line destroys this object: `ended` lets go of it.
void Run::finish(Napi::Env env) {
  const Ended ended = std::move(ended_);
  const RunMetrics metrics = std::move(metrics_);
  ended(env, metrics);
}

void Run::stop(Stop how) {
  session_.stop(how);
  if (how == Stop::at_once) source().interrupt();
}

/// Nobody listens any more: end the step, wake the thread if it waits for room in the queue, and wait for its end.
void Run::cut_short() {
  if (!thread_.joinable()) return;
  stop(Stop::at_once);
  aborted_ = true;
  channel_.Abort();
  thread_.join();
}

void Run::end_now(Napi::Env env) {
  cut_short();
  finish(env);
}

Run::~Run() {
  napi_remove_env_cleanup_hook(env_, at_exit, this);
  cut_short();
  if (!aborted_) channel_.Release();
}

}  // namespace spillway::addon
