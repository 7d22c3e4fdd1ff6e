// See session.hpp. Options and results as plain JavaScript objects; src/device/native.ts gives them types.
#include "addon/session.hpp"

#include <algorithm>
#include <cstring>

#include "addon/arguments.hpp"
#include "addon/communicator.hpp"
#include "addon/requests.hpp"
#include "addon/run.hpp"
#include "addon/sink.hpp"
#include "addon/source.hpp"
#include "gen/ops.h"

namespace spillway::addon {
namespace {

constexpr const char* STREAMS[] = {"compute", "out", "in", "ranks"};

SessionOptions parse_options(const Napi::Object& o) {
  SessionOptions s;
  s.device = take(o.Env(), load_device(string_or(o, "device", "cpu")));
  s.spill_directory = string_or(o, "spill", "");
  if (o.Has("hostBytes")) s.host_bytes = count_or(o, "hostBytes", 0);
  s.precision = parse_precision(o.Get("precision"));
  s.threads = parse_threads(o.Get("threads"));
  if (o.Has("throttle") && o.Get("throttle").IsObject()) {
    const Napi::Object t = o.Get("throttle").As<Napi::Object>();
    s.throttle = {number_or(t, "outBytesPerSecond", 0), number_or(t, "inBytesPerSecond", 0)};
  }
  return s;
}

/// A factor of the learning rate for each step; none where nothing is said.
std::vector<double> parse_rates(const Napi::Value& value) {
  if (value.IsUndefined()) return {};
  if (!value.IsTypedArray() || value.As<Napi::TypedArray>().TypedArrayType() != napi_float64_array)
    fail(value.Env(), "rates must be a Float64Array");
  const auto rates = value.As<Napi::Float64Array>();
  if (rates.ElementLength() == 0) fail(value.Env(), "rates is empty: give one number per step");
  return {rates.Data(), rates.Data() + rates.ElementLength()};
}

Napi::Object step_object(Napi::Env env, const StepMetrics& m) {
  const Napi::Object o = Napi::Object::New(env);
  o.Set("seconds", m.seconds);
  o.Set("loss", m.loss);
  o.Set("stallMemorySeconds", m.stall_memory_seconds);
  o.Set("stallDataSeconds", m.stall_data_seconds);
  o.Set("stallFeedSeconds", m.stall_feed_seconds);
  o.Set("stallRanksSeconds", m.stall_ranks_seconds);
  o.Set("besideSeconds", m.beside_seconds);
  o.Set("kernelSeconds", m.kernel_seconds);
  o.Set("recomputeSeconds", m.recompute_seconds);
  o.Set("flops", m.flops);
  o.Set("skippedFlops", m.skipped_flops);
  o.Set("bytesOut", double(m.bytes_out));
  o.Set("bytesIn", double(m.bytes_in));
  o.Set("bytesFed", double(m.bytes_fed));
  o.Set("bytesHanded", double(m.bytes_handed));
  return o;
}

Napi::Object timeline_object(Napi::Env env, const Timeline& t) {
  const Napi::Array spans = Napi::Array::New(env, t.spans.size()), memory = Napi::Array::New(env, t.memory.size());
  for (uint32_t i = 0; i < t.spans.size(); i++) {
    const Span& s = t.spans[i];
    const Napi::Object o = Napi::Object::New(env);
    o.Set("stream", STREAMS[uint32_t(s.stream)]);
    o.Set("instruction", s.instruction);
    o.Set(s.stream == StreamId::compute || s.stream == StreamId::ranks ? "call" : "transfer", s.index);
    o.Set("start", s.start);
    o.Set("end", s.end);
    spans.Set(i, o);
  }
  for (uint32_t i = 0; i < t.memory.size(); i++) {
    const Napi::Object o = Napi::Object::New(env);
    o.Set("time", t.memory[i].seconds);
    o.Set("pages", double(t.memory[i].pages));
    memory.Set(i, o);
  }
  const Napi::Object o = Napi::Object::New(env);
  o.Set("spans", spans);
  o.Set("memory", memory);
  return o;
}

Napi::Object not_finite_object(Napi::Env env, const NotFinite& n) {
  const Napi::Object o = Napi::Object::New(env);
  const Napi::Array at = Napi::Array::New(env, std::size(n.at));
  for (uint32_t d = 0; d < std::size(n.at); d++) at.Set(d, n.at[d]);
  o.Set("step", double(n.step));
  o.Set("call", n.call);
  o.Set("operand", n.operand);
  o.Set("at", at);
  o.Set("value", n.value);
  o.Set("made", n.made);
  return o;
}

Napi::Object metrics_object(Napi::Env env, const RunMetrics& m, bool timeline) {
  const Napi::Object o = Napi::Object::New(env), kinds = Napi::Object::New(env);
  const Napi::Array steps = Napi::Array::New(env, m.steps.size());
  for (uint32_t i = 0; i < m.steps.size(); i++) steps.Set(i, step_object(env, m.steps[i]));
  for (const OpInfo& op : OP_TABLE)
    if (op.wire < m.seconds_by_kind.size() && m.seconds_by_kind[op.wire] > 0) kinds.Set(op.kind, m.seconds_by_kind[op.wire]);
  o.Set("cancelled", m.cancelled);
  o.Set("torn", m.torn);
  o.Set("steps", steps);
  o.Set("secondsByKind", kinds);
  if (!m.quiet_call_seconds.empty()) {
    Napi::Float64Array calls = Napi::Float64Array::New(env, m.quiet_call_seconds.size());
    std::copy(m.quiet_call_seconds.begin(), m.quiet_call_seconds.end(), calls.Data());
    o.Set("quietCallSeconds", calls);
  }
  o.Set("arenaPeakBytes", double(m.arena_peak_bytes));
  o.Set("arenaFileBytes", double(m.arena_file_bytes));
  o.Set("diskBytes", double(m.disk_bytes));
  o.Set("sentBytes", double(m.sent_bytes));
  o.Set("accord", name_of(m.accord));
  if (m.device_memory) {
    const Napi::Object memory = Napi::Object::New(env);
    memory.Set("contextBytes", double(m.device_memory->context_bytes));
    memory.Set("poolBytes", double(m.device_memory->pool_bytes));
    memory.Set("grownBytes", double(m.device_memory->grown_bytes));
    memory.Set("ofProcess", m.device_memory->of_process);
    o.Set("deviceMemory", memory);
  }
  if (!m.without_graphs.empty()) o.Set("withoutGraphs", m.without_graphs);
  if (m.not_finite) o.Set("notFinite", not_finite_object(env, *m.not_finite));
  if (timeline) o.Set("timeline", timeline_object(env, m.timeline));
  return o;
}

}  // namespace

void SessionObject::define(Napi::Env env, Napi::Object exports) {
  exports.Set("Session", DefineClass(env, "Session",
                                     {
                                         InstanceMethod<&SessionObject::bindings>("bindings"),
                                         InstanceMethod<&SessionObject::facts>("facts"),
                                         InstanceMethod<&SessionObject::init>("init"),
                                         InstanceMethod<&SessionObject::read>("read"),
                                         InstanceMethod<&SessionObject::write>("write"),
                                         InstanceMethod<&SessionObject::run>("run"),
                                         InstanceMethod<&SessionObject::put>("put"),
                                         InstanceMethod<&SessionObject::cancel>("cancel"),
                                         InstanceMethod<&SessionObject::dispose>("dispose"),
                                     }));
}

/// new Session(tape: Uint8Array, {device, spill, threads, throttle, timeline})
SessionObject::SessionObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<SessionObject>(info) {
  const Napi::Object options = info[1].IsUndefined() ? Napi::Object::New(info.Env()) : as_object(info[1], "options");
  const SessionOptions parsed = parse_options(options);
  timeline_ = bool_or(options, "timeline", false);
  session_ = take(info.Env(), Session::open(bytes_of(info[0], "tape"), parsed));
  external_bytes_ = int64_t(
      session_->tape().peak_pages * PAGE_BYTES +
      std::min(session_->tape().tier_bytes, parsed.spill_directory.empty() ? session_->tape().tier_bytes : parsed.host_bytes.value_or(0)));
  Napi::MemoryManagement::AdjustExternalMemory(info.Env(), external_bytes_);
}

SessionObject::~SessionObject() {
  run_.reset();  // before the session that it runs
}

Session& SessionObject::open(Napi::Env env) const {
  if (!session_) fail(env, "the session is closed");
  return *session_;
}

uint32_t SessionObject::find(Napi::Env env, const Napi::Value& name) const {
  const std::string wanted = as_string(name, "name");
  const uint32_t binding = open(env).find(wanted);
  if (binding == NONE) fail(env, text("the plan has no value named '", wanted, "'"));
  return binding;
}

Napi::Value SessionObject::bindings(const Napi::CallbackInfo& info) {
  const Tape& tape = open(info.Env()).tape();
  const Napi::Array list = Napi::Array::New(info.Env(), tape.bindings.size());
  for (uint32_t i = 0; i < tape.bindings.size(); i++) {
    const BindingRecord& b = tape.bindings[i];
    const ViewRecord& v = tape.views[b.view];
    const Napi::Object o = Napi::Object::New(info.Env());
    const Napi::Array shape = Napi::Array::New(info.Env(), v.rank);
    for (uint32_t d = 0; d < v.rank; d++) shape.Set(d, v.dims[d]);
    o.Set("name", std::string(tape.name(b)));
    o.Set("role", name_of(b.role));
    o.Set("dtype", name_of(b.dtype));
    o.Set("shape", shape);
    list.Set(i, o);
  }
  return list;
}

/// The header of the tape.
Napi::Value SessionObject::facts(const Napi::CallbackInfo& info) {
  const Tape& tape = open(info.Env()).tape();
  const Napi::Object o = Napi::Object::New(info.Env());
  o.Set("budgetBytes", double(tape.budget_pages * PAGE_BYTES));
  o.Set("peakBytes", double(tape.peak_pages * PAGE_BYTES));
  o.Set("tierBytes", double(tape.tier_bytes));
  o.Set("instructions", double(tape.instrs.size()));
  o.Set("calls", double(tape.calls.size()));
  return o;
}

/// init(name, seed, [of, first])
Napi::Value SessionObject::init(const Napi::CallbackInfo& info) {
  const uint32_t binding = find(info.Env(), info[0]);
  const uint64_t seed = as_count(info[1], "seed");
  Session& session = open(info.Env());
  require(info.Env(), info[2].IsUndefined() ? session.init(binding, seed)
                                            : session.init(binding, seed, as_string(info[2], "of"), as_count(info[3], "first")));
  return info.Env().Undefined();
}

/// read(name) -> Uint8Array, a copy
Napi::Value SessionObject::read(const Napi::CallbackInfo& info) {
  Session& session = open(info.Env());
  const uint32_t binding = find(info.Env(), info[0]);
  auto copy = Napi::Uint8Array::New(info.Env(), take(info.Env(), session.size(binding)));
  require(info.Env(), session.read(binding, {reinterpret_cast<std::byte*>(copy.Data()), copy.ByteLength()}));
  return copy;
}

/// write(name, Uint8Array)
Napi::Value SessionObject::write(const Napi::CallbackInfo& info) {
  require(info.Env(), open(info.Env()).write(find(info.Env(), info[0]), bytes_of(info[1], "bytes")));
  return info.Env().Undefined();
}

/// run({steps, firstStep, seed, rates, source, sink, timeline, searchFrom, communicator, patience}, progress) -> Promise of metrics
Napi::Value SessionObject::run(const Napi::CallbackInfo& info) {
  Session& session = open(info.Env());
  const Napi::Object options = as_object(info[0], "options");
  if (!info[1].IsFunction()) fail(info.Env(), "progress must be a function");
  if (run_) fail(info.Env(), "a run is active: wait until it ends");
  RunOptions o;
  o.steps = count_or(options, "steps", 1);
  o.first_step = count_or(options, "firstStep", 1);
  o.seed = count_or(options, "seed", 0);
  o.rates = parse_rates(options.Get("rates"));
  o.timeline = bool_or(options, "timeline", timeline_);
  o.search_from = count_or(options, "searchFrom", 0);
  // Nobody reads before the run is there.
  const auto asked = std::make_shared<Run*>(nullptr);
  HeldSource source =
      parse_source(options.Get("source"), session.tape(), o.first_step, o.steps, [asked](const BandRequest& r) { (*asked)->ask(r); });
  o.source = source.source.get();
  const std::shared_ptr<OutputSink> sink = parse_sink(options.Get("sink"), session.tape());
  if (sink) o.sink = &sink->sink;
  const std::shared_ptr<Communicator> rank = CommunicatorObject::shared(options.Get("communicator"));
  o.communicator = rank.get();
  o.patience = number_or(options, "patience", 0);
  const auto deferred = Napi::Promise::Deferred::New(info.Env());
  auto run = std::make_unique<Run>(info.Env(), session, std::move(source), info[1].As<Napi::Function>(),
                                   [this, deferred, sink, rank, timeline = o.timeline](Napi::Env env, const RunMetrics& m) {
                                     run_.reset();
                                     if (m.status.ok())
                                       deferred.Resolve(metrics_object(env, m, timeline));
                                     else
                                       deferred.Reject(error_of(env, m.status).Value());
                                     Unref();
                                   });
  *asked = run.get();
  o.progress = [r = run.get()](const Progress& p) { r->report(p); };
  require(info.Env(), session.begin(o));
  Ref();
  run_ = std::move(run);
  run_->start();
  return deferred.Promise();
}

/// cancel('step' | 'now' = 'now'): after the step at hand, or after the instruction at hand.
Napi::Value SessionObject::cancel(const Napi::CallbackInfo& info) {
  const std::string when = info[0].IsUndefined() ? "now" : as_string(info[0], "when");
  if (when != "now" && when != "step") fail(info.Env(), text("cancel '", when, "': 'now' or 'step'"));
  if (run_) run_->stop(when == "now" ? Stop::at_once : Stop::after_step);
  return info.Env().Undefined();
}

/// put(number): the slot of this step, and those of the steps before, are filled; or the band of this ticket is in its slot.
Napi::Value SessionObject::put(const Napi::CallbackInfo& info) {
  const uint64_t number = as_count(info[0], "number");
  if (run_) run_->source().put(number);
  return info.Env().Undefined();
}

/// dispose(): ends an active run, gives the memory back; the second time it does nothing.
Napi::Value SessionObject::dispose(const Napi::CallbackInfo& info) {
  if (run_) run_->end_now(info.Env());
  if (session_) Napi::MemoryManagement::AdjustExternalMemory(info.Env(), -external_bytes_);
  session_.reset();
  return info.Env().Undefined();
}

}  // namespace spillway::addon
