// Handles are pointers to objects here; a destroyed one is not in the list of live ones.
#include "test/native/host_cuda/streams.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <memory>
#include <set>
#include <thread>

#include "test/native/host_cuda/memory.hpp"
#include "test/native/host_cuda/rules.hpp"

namespace spillway::host_cuda {
namespace {

using Clock = std::chrono::steady_clock;
struct Stream;

struct Event {
  bool timed;
  uint64_t recorded = 0, done = 0;
  Stream* where = nullptr;  // of the last record
  Clock::time_point at;
  uint64_t capture = 0;  // whose nodes it stands for
  std::vector<size_t> nodes;
};

struct Node {
  Job job;
  bool origin;
  std::vector<size_t> after;
};
struct Graph {
  std::vector<Node> nodes;
  std::vector<uint64_t> touched;
};

struct Item {
  Job job;                       // or
  std::shared_ptr<Event> waits;  // until it has been reached so often
  uint64_t number = 0;
  std::vector<uint64_t> touched;
};

struct Capture {
  uint64_t number;
  Stream* origin;
  std::thread::id thread;
  bool lost = false;
  Graph graph;
};

struct Stream {
  std::deque<Item> items;
  std::shared_ptr<Capture> capture;
  std::vector<size_t> frontier;
};

struct State {
  std::set<std::shared_ptr<Stream>> streams, leaving;
  std::set<std::shared_ptr<Event>> events;
  std::set<std::shared_ptr<Graph>> graphs, kept;
  uint64_t captures = 0;
  std::vector<std::shared_ptr<Capture>> open;
  cudaError_t lost = cudaSuccess;
};

State& state() {
  static State& s = *new State;
  return s;
}

template <class T, class H>
std::shared_ptr<T> live(const std::set<std::shared_ptr<T>>& all, H handle, const char* where) {
  for (const auto& one : all)
    if (static_cast<void*>(one.get()) == static_cast<void*>(handle)) return one;
  broken("a handle is used while it lives", where);
}
std::shared_ptr<Stream> live(cudaStream_t s, const char* where) { return live(state().streams, s, where); }
std::shared_ptr<Event> live(cudaEvent_t e, const char* where) { return live(state().events, e, where); }

// ---------------------------------------------------------------- running

bool step(Stream& s) {
  if (s.items.empty()) return false;
  if (s.items.front().waits && s.items.front().waits->done < s.items.front().number) return false;
  if (s.items.front().job && state().lost == cudaSuccess) {
    const Inside inside;
    const cudaError_t code = s.items.front().job();
    if (code == cudaErrorNotReady) return false;
    if (code != cudaSuccess) state().lost = code;
  }
  const Item item = std::move(s.items.front());
  s.items.pop_front();
  use(item.touched, -1);
  return true;
}

/// All but this one, as far as events let them.
void run_others(const Stream& s) {
  for (bool moved = true; moved;) {
    moved = false;
    for (const auto* list : {&state().streams, &state().leaving})
      for (const auto& other : *list)
        if (other.get() != &s && (order() != Order::shuffled || coin()))
          while (step(*other)) moved = true;
  }
}

/// False where it goes no further until another process does something.
bool advance(Stream& s, const std::function<bool()>& done) {
  while (!done()) {
    if (order() != Order::late) run_others(s);
    if (done() || step(s)) continue;
    if (s.items.empty()) broken("what is waited for is on its way", "a stream");
    const std::shared_ptr<Event> e = s.items.front().waits;
    const uint64_t number = s.items.front().number;
    if (!e) return false;
    if (!e->where) broken("what is waited for is on its way", "an event");
    if (!advance(*e->where, [&] { return e->done >= number; })) return false;
  }
  return true;
}

void run_until(Stream& s, const std::function<bool()>& done) {
  while (!advance(s, done)) {
    world().unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    world().lock();
  }
}

void put(Stream& s, Item item) {
  use(item.touched, 1);
  s.items.push_back(std::move(item));
}

/// One run of a graph.
struct Replay {
  std::shared_ptr<Graph> graph;
  std::vector<Job> jobs;
  std::vector<bool> done;
  explicit Replay(std::shared_ptr<Graph> g) : graph(std::move(g)), done(graph->nodes.size()) {
    for (const Node& n : graph->nodes) jobs.push_back(n.job);
  }
};

/// In an order that the edges allow: the origin's nodes as early as may be, or as late.
cudaError_t run_graph(Replay& replay) {
  const Graph& g = *replay.graph;
  std::vector<bool>& done = replay.done;
  for (auto left = size_t(std::count(done.begin(), done.end(), false)); left > 0; left--) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < g.nodes.size(); i++)
      if (!done[i] && std::all_of(g.nodes[i].after.begin(), g.nodes[i].after.end(), [&](size_t n) { return done[n]; })) ready.push_back(i);
    const bool origin_first = order() == Order::late || (order() == Order::shuffled && coin());
    const auto wanted = std::find_if(ready.begin(), ready.end(), [&](size_t i) { return g.nodes[i].origin == origin_first; });
    if (wanted != ready.end()) std::iter_swap(ready.begin(), wanted);
    cudaError_t code = cudaErrorNotReady;
    for (size_t i = 0; i < ready.size() && code == cudaErrorNotReady; i++) {
      code = replay.jobs[ready[i]]();
      if (code == cudaSuccess) done[ready[i]] = true;
    }
    if (code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

cudaError_t lose(Capture& c, cudaError_t code) {
  c.lost = true;
  return code;
}

/// Each node is an ancestor of the end of the stream that began.
bool all_joined(const Capture& c) {
  std::vector<bool> reached(c.graph.nodes.size());
  std::vector<size_t> open = c.origin->frontier;
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    open.insert(open.end(), c.graph.nodes[node].after.begin(), c.graph.nodes[node].after.end());
  }
  return std::find(reached.begin(), reached.end(), false) == reached.end();
}

}  // namespace

cudaError_t enqueue(cudaStream_t handle, std::vector<uint64_t> touched, Job job) {
  const auto s = live(handle, "work for a stream");
  if (lost() != cudaSuccess) return lost();
  if (!s->capture) {
    put(*s, {std::move(job), nullptr, 0, std::move(touched)});
    return cudaSuccess;
  }
  Graph& g = s->capture->graph;
  g.nodes.push_back({std::move(job), s.get() == s->capture->origin, s->frontier});
  g.touched.insert(g.touched.end(), touched.begin(), touched.end());
  s->frontier = {g.nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t drain(cudaStream_t handle) {
  const auto s = live(handle, "waiting for a stream");
  run_until(*s, [&] { return s->items.empty(); });
  return lost();
}

cudaError_t drain_all() {
  for (const auto& s : state().streams) run_until(*s, [&] { return s->items.empty(); });
  for (const auto& s : state().leaving) run_until(*s, [&] { return s->items.empty(); });
  state().leaving.clear();
  return lost();
}

bool is_capturing(cudaStream_t s) { return live(s, "a stream")->capture != nullptr; }

bool forbidden_now() {
  bool found = false;
  for (const auto& c : state().open)
    if (c->thread == std::this_thread::get_id()) found = c->lost = true;
  return found;
}

cudaError_t lost() { return state().lost; }

uint64_t live_handles() { return state().streams.size() + state().events.size() + state().graphs.size() + state().kept.size(); }

}  // namespace spillway::host_cuda

using namespace spillway::host_cuda;

#define ENTER(name, code)                                    \
  const std::lock_guard<std::recursive_mutex> lock(world()); \
  if (fails(name)) return code;

namespace {
template <class H, class T>
H handle_of(const std::shared_ptr<T>& p) {
  return reinterpret_cast<H>(p.get());
}
}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* into, unsigned int flags) {
  ENTER("cudaStreamCreateWithFlags", cudaErrorMemoryAllocation)
  if (flags != cudaStreamNonBlocking) broken("the streams do not wait for the default stream", "cudaStreamCreateWithFlags");
  *into = handle_of<cudaStream_t>(*state().streams.insert(std::make_shared<Stream>()).first);
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  ENTER("cudaStreamDestroy", cudaErrorUnknown)
  const auto s = live(handle, "cudaStreamDestroy");
  if (s->capture) broken("no stream ends in a capture", "cudaStreamDestroy");
  state().streams.erase(s);
  if (!s->items.empty()) state().leaving.insert(s);  // what it was given runs all the same
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  ENTER("cudaStreamSynchronize", cudaErrorUnknown)
  if (is_capturing(handle)) return lose(*live(handle, "")->capture, cudaErrorStreamCaptureUnsupported);
  return drain(handle);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  ENTER("cudaStreamQuery", cudaErrorUnknown)
  if (is_capturing(handle)) return lose(*live(handle, "")->capture, cudaErrorStreamCaptureUnsupported);
  const auto s = live(handle, "cudaStreamQuery");
  const bool over = advance(*s, [&] { return s->items.empty(); });
  return lost() != cudaSuccess ? lost() : over ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* into, unsigned int flags) {
  ENTER("cudaEventCreateWithFlags", cudaErrorMemoryAllocation)
  const auto e = std::make_shared<Event>();
  e->timed = !(flags & cudaEventDisableTiming);
  state().events.insert(e);
  *into = handle_of<cudaEvent_t>(e);
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* into) { return cudaEventCreateWithFlags(into, cudaEventDefault); }

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  ENTER("cudaEventDestroy", cudaErrorUnknown)
  state().events.erase(live(handle, "cudaEventDestroy"));
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream) {
  ENTER("cudaEventRecord", cudaErrorUnknown)
  const auto e = live(handle, "cudaEventRecord");
  const auto s = live(stream, "cudaEventRecord");
  if (lost() != cudaSuccess) return lost();
  if (s->capture) {
    if (e->timed) return lose(*s->capture, cudaErrorStreamCaptureUnsupported);  // it would tell no time
    e->capture = s->capture->number;
    e->nodes = s->frontier;
    return cudaSuccess;
  }
  e->capture = 0;
  e->where = s.get();
  const uint64_t number = ++e->recorded;
  put(*s, {[e, number] {
             e->done = number;
             e->at = Clock::now();
             return cudaSuccess;
           },
           nullptr,
           0,
           {}});
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t handle, unsigned int) {
  ENTER("cudaStreamWaitEvent", cudaErrorUnknown)
  const auto e = live(handle, "cudaStreamWaitEvent");
  const auto s = live(stream, "cudaStreamWaitEvent");
  if (lost() != cudaSuccess) return lost();
  if (e->capture != 0) {
    const auto of = std::find_if(state().open.begin(), state().open.end(), [&](const auto& c) { return c->number == e->capture; });
    if (of == state().open.end()) return cudaErrorCapturedEvent;
    if (s->capture && s->capture != *of) return lose(*s->capture, cudaErrorStreamCaptureIsolation);
    if ((*of)->thread != std::this_thread::get_id()) broken("no other thread's stream gets into a capture", "cudaStreamWaitEvent");
    if (!s->capture) {
      s->capture = *of;
      s->frontier.clear();
    }
    s->frontier.insert(s->frontier.end(), e->nodes.begin(), e->nodes.end());
    return cudaSuccess;
  }
  if (s->capture) return lose(*s->capture, cudaErrorStreamCaptureIsolation);
  if (e->recorded > 0) put(*s, {nullptr, e, e->recorded, {}});
  return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  ENTER("cudaEventElapsedTime", cudaErrorUnknown)
  const auto a = live(from, "cudaEventElapsedTime"), b = live(to, "cudaEventElapsedTime");
  if (!a->timed || !b->timed || a->recorded == 0 || b->recorded == 0) return cudaErrorInvalidResourceHandle;
  if (a->done < a->recorded || b->done < b->recorded) return cudaErrorNotReady;
  *milliseconds = std::chrono::duration<float, std::milli>(b->at - a->at).count();
  return cudaSuccess;
}

// ---------------------------------------------------------------- captures and graphs

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  ENTER("cudaStreamBeginCapture", cudaErrorUnknown)
  const auto s = live(stream, "cudaStreamBeginCapture");
  if (s->capture) return lose(*s->capture, cudaErrorIllegalState);
  if (mode != cudaStreamCaptureModeThreadLocal) broken("other threads go on copying while one captures", "cudaStreamBeginCapture");
  s->capture = std::make_shared<Capture>(Capture{++state().captures, s.get(), std::this_thread::get_id(), false, {}});
  s->frontier.clear();
  state().open.push_back(s->capture);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* into) {
  const std::lock_guard<std::recursive_mutex> lock(world());
  const auto s = live(stream, "cudaStreamEndCapture");
  *into = nullptr;
  if (fails("cudaStreamEndCapture") && s->capture) s->capture->lost = true;  // it ends all the same
  if (!s->capture) return cudaErrorIllegalState;
  const std::shared_ptr<Capture> c = s->capture;
  if (c->thread != std::this_thread::get_id()) return cudaErrorStreamCaptureWrongThread;
  if (c->origin != s.get()) return lose(*c, cudaErrorStreamCaptureUnmatched);
  const cudaError_t code = c->lost ? cudaErrorStreamCaptureInvalidated : all_joined(*c) ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
  for (const auto& other : state().streams)
    if (other->capture == c) other->capture.reset();
  std::erase(state().open, c);
  if (code != cudaSuccess) return code;
  *into = handle_of<cudaGraph_t>(*state().graphs.insert(std::make_shared<Graph>(std::move(c->graph))).first);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* into, cudaGraph_t graph, unsigned long long) {
  ENTER("cudaGraphInstantiate", cudaErrorMemoryAllocation)
  const auto g = live(state().graphs, graph, "cudaGraphInstantiate");
  if (std::getenv("SPILLWAY_HOST_CUDA_NO_GRAPHS")) return cudaErrorNotSupported;
  *into = handle_of<cudaGraphExec_t>(*state().kept.insert(std::make_shared<Graph>(*g)).first);
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  ENTER("cudaGraphDestroy", cudaErrorUnknown)
  state().graphs.erase(live(state().graphs, graph, "cudaGraphDestroy"));
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  ENTER("cudaGraphExecDestroy", cudaErrorUnknown)
  state().kept.erase(live(state().kept, graph, "cudaGraphExecDestroy"));
  return cudaSuccess;
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream) {
  ENTER("cudaGraphUpload", cudaErrorMemoryAllocation)
  live(state().kept, graph, "cudaGraphUpload");
  return is_capturing(stream) ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  ENTER("cudaGraphLaunch", cudaErrorUnknown)
  const auto g = live(state().kept, graph, "cudaGraphLaunch");
  if (is_capturing(stream)) return cudaErrorStreamCaptureUnsupported;
  return enqueue(stream, g->touched, [replay = Replay(g)]() mutable { return run_graph(replay); });
}

}  // extern "C"
