// See communicator.hpp. `openThreadRanks(n)` gives n objects, `openPluginRank(file)` one; both make them with an External that holds the
// rank.
#include "addon/communicator.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <thread>

#include "addon/arguments.hpp"
#include "addon/leaving.hpp"
#include "addon/requests.hpp"

namespace spillway::addon {
namespace {

using Held = std::shared_ptr<Communicator>;

/// The class, once for each thread of JavaScript: a worker that loads the addon must not take the main thread's.
const Napi::FunctionReference& constructor(Napi::Env env) { return *env.GetInstanceData<Napi::FunctionReference>(); }

Napi::Object wrapped(Napi::Env env, OwnCommunicator own) {
  auto* const held = new Held(own.release(), CloseCommunicator{});
  return constructor(env).New({Napi::External<Held>::New(env, held, [](Napi::Env, Held* h) { delete h; })});
}

/// openThreadRanks(n) -> Communicator[]
Napi::Value open_threads(const Napi::CallbackInfo& info) {
  const uint64_t ranks = as_count(info[0], "ranks");
  auto opened = take(info.Env(), open_thread_ranks(uint32_t(std::min<uint64_t>(ranks, MOST_RANKS + 1))));
  const Napi::Array list = Napi::Array::New(info.Env(), opened.size());
  for (uint32_t i = 0; i < opened.size(); i++) list.Set(i, wrapped(info.Env(), std::move(opened[i])));
  return list;
}

/// openPluginRank(file) -> Communicator
Napi::Value open_plugin(const Napi::CallbackInfo& info) {
  return wrapped(info.Env(), take(info.Env(), open_plugin_rank(as_string(info[0], "file"))));
}

/// Waits for other ranks on a thread of its own; `answer` is called on JavaScript's.
template <class T>
Napi::Value waiting(Napi::Env env, const Held& rank, std::function<Result<T>(Communicator&)> work,
                    std::function<Napi::Value(Napi::Env, const T&)> answer) {
  const auto deferred = Napi::Promise::Deferred::New(env);
  const Napi::Function nothing = Napi::Function::New(env, [](const Napi::CallbackInfo&) {});
  auto channel = Napi::ThreadSafeFunction::New(env, nothing, "spillway ranks", 1, 1);
  std::thread([deferred, channel, work, answer, held = Held(rank), busy = std::make_unique<AtWork>()]() mutable {
    auto result = std::make_shared<Result<T>>(work(*held));
    held.reset();  // the last to hold it closes it, which is JavaScript's
    channel.BlockingCall([=](Napi::Env on, Napi::Function) {
      if (result->ok())
        deferred.Resolve(answer(on, result->value()));
      else
        deferred.Reject(error_of(on, result->status()).Value());
    });
    channel.Release();
  }).detach();
  return deferred.Promise();
}

}  // namespace

const char* name_of(Accord accord) {
  switch (accord) {
    case Accord::go_on:
      return "goOn";
    case Accord::stop:
      return "stop";
    case Accord::interrupted:
      break;
  }
  return "interrupted";
}

void CommunicatorObject::define(Napi::Env env, Napi::Object exports) {
  const Napi::Function type = DefineClass(env, "Communicator",
                                          {
                                              InstanceMethod<&CommunicatorObject::exchange>("exchange"),
                                              InstanceMethod<&CommunicatorObject::agree>("agree"),
                                              InstanceMethod<&CommunicatorObject::measure>("measure"),
                                              InstanceMethod<&CommunicatorObject::interrupt>("interrupt"),
                                              InstanceMethod<&CommunicatorObject::abort>("abort"),
                                              InstanceMethod<&CommunicatorObject::close>("close"),
                                          });
  env.SetInstanceData(new Napi::FunctionReference(Napi::Persistent(type)));
  exports.Set("openThreadRanks", Napi::Function::New(env, open_threads, "openThreadRanks"));
  exports.Set("openPluginRank", Napi::Function::New(env, open_plugin, "openPluginRank"));
}

CommunicatorObject::CommunicatorObject(const Napi::CallbackInfo& info) : Napi::ObjectWrap<CommunicatorObject>(info) {
  if (!info[0].IsExternal()) fail(info.Env(), "open ranks with openThreadRanks or openPluginRank");
  rank_ = std::move(*info[0].As<Napi::External<Held>>().Data());
  const Napi::Object self = info.This().As<Napi::Object>();
  self.Set("rank", rank_->rank);
  self.Set("size", rank_->size);
  self.Set("engine", rank_->engine->name);
}

std::shared_ptr<Communicator> CommunicatorObject::shared(const Napi::Value& value) {
  if (value.IsUndefined()) return nullptr;
  const Napi::Object object = as_object(value, "communicator");
  if (!object.InstanceOf(constructor(value.Env()).Value())) fail(value.Env(), "communicator is not a rank of this addon");
  return Unwrap(object)->open(value.Env());
}

const std::shared_ptr<Communicator>& CommunicatorObject::open(Napi::Env env) const {
  if (!rank_) fail(env, "the rank is closed");
  return rank_;
}

/// exchange(Uint8Array) -> Promise of each rank's, in their order
Napi::Value CommunicatorObject::exchange(const Napi::CallbackInfo& info) {
  const auto own = bytes_of(info[0], "bytes");
  const auto kept = std::make_shared<Bytes>(own.begin(), own.end());
  return waiting<std::vector<Bytes>>(
      info.Env(), open(info.Env()), [kept](Communicator& c) { return spillway::exchange(c, *kept); },
      [](Napi::Env env, const std::vector<Bytes>& all) -> Napi::Value {
        const Napi::Array list = Napi::Array::New(env, all.size());
        for (uint32_t r = 0; r < all.size(); r++) {
          auto bytes = Napi::Uint8Array::New(env, all[r].size());
          std::copy(all[r].begin(), all[r].end(), reinterpret_cast<std::byte*>(bytes.Data()));
          list.Set(r, bytes);
        }
        return list;
      });
}

/// agree('goOn' | 'stop' | 'interrupted') -> Promise of the largest of what all ranks say: what runs ask before each step
Napi::Value CommunicatorObject::agree(const Napi::CallbackInfo& info) {
  const std::string vote = as_string(info[0], "accord");
  Accord own = Accord::interrupted;
  for (const Accord a : {Accord::go_on, Accord::stop})
    if (vote == name_of(a)) own = a;
  return waiting<Accord>(
      info.Env(), open(info.Env()), [own](Communicator& c) { return spillway::agree(c, own); },
      [](Napi::Env env, const Accord& a) -> Napi::Value { return Napi::String::New(env, name_of(a)); });
}

/// measure(request) -> Promise of {seconds, aloneSeconds} of a call that meets other ranks: all of them ask for it at once
Napi::Value CommunicatorObject::measure(const Napi::CallbackInfo& info) {
  const std::shared_ptr<const Request> r = parse_request(info[0], false);
  return waiting<MeasuredAmong>(
      info.Env(), open(info.Env()), [r](Communicator& c) { return measure_among(*r->device, r->call, c, r->options); },
      [](Napi::Env env, const MeasuredAmong& m) -> Napi::Value {
        const Napi::Object o = Napi::Object::New(env);
        o.Set("seconds", m.seconds);
        o.Set("aloneSeconds", m.alone_seconds);
        return o;
      });
}

/// interrupt(): whoever waits for other ranks returns.
Napi::Value CommunicatorObject::interrupt(const Napi::CallbackInfo& info) {
  if (rank_) rank_->engine->interrupt(rank_.get());
  return info.Env().Undefined();
}

/// abort(code): ends all ranks; with MPI this process, too.
Napi::Value CommunicatorObject::abort(const Napi::CallbackInfo& info) {
  const uint64_t code = as_count(info[0], "code");
  if (rank_) rank_->engine->abort(rank_.get(), int(code));
  return info.Env().Undefined();
}

/// close(): all ranks have done their part. The second time it does nothing.
Napi::Value CommunicatorObject::close(const Napi::CallbackInfo& info) {
  rank_.reset();
  return info.Env().Undefined();
}

}  // namespace spillway::addon
