// Ranks on GPUs, each a process with an imitated GPU of its own (host_cuda/), NCCL imitated between them: every operator that meets others
// has the bits of the host's, trainings have the same weights at all ranks however streams run, and a call that fails at one ends all in
// words.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ops/collective.hpp"
#include "runtime/communicators.hpp"
#include "runtime/open_device.hpp"
#include "runtime/single_call.hpp"
#include "test/native/imitation/kernels.hpp"
#include "test/native/runs.hpp"

using namespace spillway;
using namespace spillway::testing;

#ifdef SPILLWAY_HOST_CUDA
namespace {

const Device* cuda() {
  static const Result<const Device*> loaded = load_plugin(SPILLWAY_HOST_CUDA);
  if (!loaded.ok()) throw std::runtime_error(loaded.status().message);
  return loaded.value();
}
template <class F>
F* control(const char* name) {
  cuda();
  static void* library = ::dlopen(SPILLWAY_HOST_CUDA, RTLD_NOW | RTLD_NOLOAD);
  return reinterpret_cast<F*>(::dlsym(library, name));
}

struct Directory {
  std::string path = "/tmp/spillway-cuda-ranks-XXXXXX";
  Directory() {
    if (!::mkdtemp(path.data())) throw std::runtime_error("no directory");
  }
  ~Directory() { std::filesystem::remove_all(path); }
};

// ---------------------------------------------------------------- processes

/// As MPI hands small things round.
struct SocketRank : Communicator {
  std::vector<int> to;
};

Code gather_by_sockets(Communicator* c, void* all, const uint64_t* bounds, char* words) {
  const SocketRank& own = *static_cast<SocketRank*>(c);
  char* const bytes = static_cast<char*>(all);
  const auto whole = [](auto f, int fd, char* at, uint64_t n) {
    for (uint64_t done = 0; done < n;) {
      const ssize_t moved = f(fd, at + done, n - done);
      if (moved <= 0) return false;
      done += uint64_t(moved);
    }
    return true;
  };
  bool ok = true;
  for (uint32_t r = 0; r < c->size && ok; r++)
    if (r != c->rank)
      ok = whole([](int fd, void* at, size_t n) { return ::send(fd, at, n, MSG_NOSIGNAL); }, own.to[r], bytes + bounds[c->rank],
                 bounds[c->rank + 1] - bounds[c->rank]);
  for (uint32_t r = 0; r < c->size && ok; r++)
    if (r != c->rank)
      ok = whole([](int fd, void* at, size_t n) { return ::recv(fd, at, n, 0); }, own.to[r], bytes + bounds[r], bounds[r + 1] - bounds[r]);
  if (ok) return Code::ok;
  std::snprintf(words, COMMUNICATOR_WORDS, "another rank ended");
  return Code::device;
}

constexpr Engine SOCKETS{
    COMMUNICATOR_VERSION,      sizeof(Engine),      "sockets", nullptr, gather_by_sockets, nullptr, [](Communicator*) {},
    [](Communicator*, int) {}, [](Communicator*) {}};

/// f(communicator) at each of so many ranks, processes with a GPU each. Out: their exit codes, 100 + n for a signal.
template <class F>
std::vector<int> ranks(uint32_t size, F f, const char* gpus = nullptr) {
  cuda();
  const Directory messages;  // of NCCL, also of ranks that are killed
  std::vector<std::vector<int>> sockets(size, std::vector<int>(size, -1));
  for (uint32_t a = 0; a < size; a++)
    for (uint32_t b = a + 1; b < size; b++) {
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) throw std::runtime_error("no sockets");
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (uint32_t r = 0; r < size; r++) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(120);
      for (uint32_t other = 0; other < size; other++)
        for (const int fd : sockets[other])
          if (other != r && fd >= 0) ::close(fd);
      SocketRank own, beside;
      for (SocketRank* c : {&own, &beside}) {
        c->engine = &SOCKETS;
        c->rank = r;
        c->size = size;
        c->to = sockets[r];
      }
      own.beside = &beside;
      ::setenv("TMPDIR", messages.path.c_str(), 1);
      ::setenv("SPILLWAY_HOST_CUDA_GPUS", std::to_string(size).c_str(), 1);
      ::setenv("CUDA_VISIBLE_DEVICES", gpus ? gpus : std::to_string(r).c_str(), 1);
      int code = 0;
      try {
        code = f(static_cast<Communicator&>(own));
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %u: %s\n", r, e.what());
        code = 3;
      }
      std::fflush(nullptr);
      control<void()>("spillway_host_cuda_leaving")();
      ::_exit(code);
    }
    children.push_back(child);
  }
  for (const auto& row : sockets)
    for (const int fd : row)
      if (fd >= 0) ::close(fd);
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    codes.push_back(WIFSIGNALED(status) ? 100 + WTERMSIG(status) : WEXITSTATUS(status));
  }
  return codes;
}

bool all_are(const std::vector<int>& codes, int expected) {
  bool same = true;
  for (const int code : codes) same = same && code == expected;
  if (!same)
    for (const int code : codes) std::printf("  a rank has ended with %d\n", code);
  return same;
}

// ---------------------------------------------------------------- operators

struct Operand {
  DType dtype;
  std::vector<int64_t> dims;
  int64_t row = 0, rows = 0;  // of an activation: its first row, and the whole value's
  std::vector<std::byte> bytes = {};

  View view() {
    View v{.data = bytes.data(), .dtype = dtype, .rank = uint32_t(dims.size())};
    std::copy(dims.begin(), dims.end(), v.dims);
    for (int d = 3, stride = 1; d >= 0; d--) {
      const int of = dims.size() == 4 ? std::array{0, 2, 3, 1}[size_t(d)] : d;
      v.strides[of] = stride;
      stride *= int(v.dims[of]);
    }
    std::copy(v.dims, v.dims + 4, v.extent);
    if (rows > 0) v.origin[2] = row, v.extent[2] = rows;
    bytes.resize(span_bytes(v));
    v.data = bytes.data();
    return v;
  }
};

struct Case {
  const char* name;
  OpKind kind;
  std::vector<double> attrs;
  std::vector<Operand> ins, outs;
  bool is_near = false;  // how a compiler adds and multiplies shows
};

/// Numbers of a rank, the same each time, that are no whole multiples of anything.
void draw(Operand& o, uint32_t seed) {
  const View v = o.view();
  uint64_t state = seed * 7919 + 17;
  for (int64_t i = 0; i < ops::elements(v); i++) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    const float value = float(int32_t(state >> 33) % 20011) * 1.7e-4f - 1.6f;
    if (o.dtype == DType::bf16)
      reinterpret_cast<uint16_t*>(o.bytes.data())[i] = uint16_t(std::bit_cast<uint32_t>(value) >> 16);
    else
      reinterpret_cast<float*>(o.bytes.data())[i] = value;
  }
}

/// The requests of rank `rank` of `size`: equal at all of them except in numbers and rows.
std::vector<Case> cases_of(uint32_t rank, uint32_t size) {
  const auto f32 = [](std::vector<int64_t> dims) { return Operand{DType::f32, std::move(dims)}; };
  std::vector<Case> all;
  const auto part = [&](int64_t n, uint32_t of) { return (n + of - 1) / of; };
  for (uint32_t of = size; of > 1; of = size % 2 == 0 && of == size ? size / 2 : 1) {
    const double r = of;
    for (const int64_t n : {1, 5, 1000, 32771}) all.push_back({"all_sum", OpKind::all_sum, {r}, {f32({n})}, {f32({n})}});
    for (const double beside : {0.0, 1.0}) {
      all.push_back({"all_sums", OpKind::all_sums, {r, beside}, {f32({7}), f32({3, 5}), f32({40})}, {f32({7}), f32({3, 5}), f32({40})}});
      all.push_back({"all_sums in pieces", OpKind::all_sums, {r, beside}, {f32({32000}), f32({3, 257})}, {f32({32000}), f32({3, 257})}});
      all.push_back({"all_sums of one", OpKind::all_sums, {r, beside}, {f32({33})}, {f32({33})}});
    }
    all.push_back({"all_moments", OpKind::all_moments, {r, 12}, {f32({4, 6})}, {f32({4, 6})}, true});
    all.push_back({"all_moments of counts", OpKind::all_moments, {r, 3}, {f32({4, 3})}, {f32({4, 3})}, true});
    for (uint32_t k = 0; k < of; k++) all.back().attrs.push_back(5 + k);
    all.push_back({"all_moments of images", OpKind::all_moments, {r, 9}, {f32({2, 8, 1, 1})}, {f32({2, 8, 1, 1})}, true});
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool sums : {false, true}) {
        constexpr int64_t HEIGHT = 9;
        const uint32_t band = rank % of;
        Case c{sums ? "sum_rows" : "take_rows", sums ? OpKind::sum_rows : OpKind::take_rows, {r, double(band)}, {}, {}};
        std::vector<std::array<int64_t, 2>> own, wide;
        for (uint32_t b = 0; b < of; b++) {
          own.push_back({b * HEIGHT / of, (b + 1) * HEIGHT / of});
          wide.push_back({std::max<int64_t>(0, own[b][0] - 3), std::min<int64_t>(HEIGHT, own[b][1] + 1)});
          const auto &has = sums ? wide[b] : own[b], &wants = sums ? own[b] : wide[b];
          for (const int64_t at : {has[0], has[1], wants[0], wants[1]}) c.attrs.push_back(double(at));
        }
        const auto rows = [&](const std::array<int64_t, 2>& at) { return Operand{dtype, {2, 3, at[1] - at[0], 4}, at[0], HEIGHT}; };
        c.ins.push_back(rows(sums ? wide[band] : own[band]));
        c.outs.push_back(rows(sums ? own[band] : wide[band]));
        all.push_back(c);
      }
  }
  const double r = size;
  for (const double beside : {0.0, 1.0}) {
    all.push_back({"sum_parts", OpKind::sum_parts, {r, beside}, {f32({9}), f32({50})}, {f32({part(9, size)}), f32({part(50, size)})}});
    all.push_back({"put_part", OpKind::put_part, {r, beside}, {f32({50}), f32({part(50, size)})}, {}});
  }
  all.push_back({"take_part", OpKind::take_part, {r}, {f32({50})}, {f32({part(50, size)})}});
  for (size_t i = 0; i < all.size(); i++)
    for (size_t k = 0; k < all[i].ins.size(); k++) draw(all[i].ins[k], uint32_t(i * 131 + k * 17 + rank * 1009));
  return all;
}

struct Prepared {
  std::vector<View> ins, outs;
  KernelCall call;
  explicit Prepared(Case& c, const StepContext* step = nullptr) {
    for (Operand& o : c.ins) ins.push_back(o.view());
    for (Operand& o : c.outs) outs.push_back(o.view());
    call = {.kind = uint32_t(c.kind),
            .ins = ins.data(),
            .n_ins = uint32_t(ins.size()),
            .outs = outs.data(),
            .n_outs = uint32_t(outs.size()),
            .attrs = c.attrs.data(),
            .n_attrs = uint32_t(c.attrs.size()),
            .step = step};
  }
};

/// All that a call may have written.
std::vector<std::byte> written(const Case& c) {
  std::vector<std::byte> all;
  for (const Operand& o : c.outs) all.insert(all.end(), o.bytes.begin(), o.bytes.end());
  if (c.kind == OpKind::put_part) all.insert(all.end(), c.ins[0].bytes.begin(), c.ins[0].bytes.end());
  return all;
}

void must(const Status& s) {
  if (!s.ok()) throw std::runtime_error(s.message);
}

/// On the GPU, through the plugin's table.
void run_there(OpenDevice& device, std::byte* pool, Case& c) {
  Prepared p(c);
  const Result<PreparedCall> prepared = device.prepare(p.call);
  must(prepared.ok() ? Status{} : prepared.status());
  std::vector<void*> at;
  uint64_t end = 0;
  const auto place = [&](uint64_t bytes) {
    at.push_back(pool + end);
    end += (bytes + 255) / 256 * 256;
  };
  for (const View& v : p.ins) place(span_bytes(v));
  for (const View& v : p.outs) place(span_bytes(v));
  at.push_back(pool + end);
  for (size_t i = 0; i < p.ins.size(); i++) must(device.copy(Lane::compute, at[i], p.ins[i].data, span_bytes(p.ins[i])));
  const bool beside = ops::goes_beside(p.call.kind, p.call.attrs);
  if (beside) must(device.record(Lane::compute, 0)), must(device.wait(Lane::ranks, 0));
  must(device.run(prepared.value().at(at.data(), beside)));
  if (beside) must(device.record(Lane::ranks, 1)), must(device.wait(Lane::compute, 1));
  for (size_t i = 0; i < p.ins.size(); i++) must(device.copy(Lane::compute, p.ins[i].data, at[i], span_bytes(p.ins[i])));
  for (size_t i = 0; i < p.outs.size(); i++) must(device.copy(Lane::compute, p.outs[i].data, at[p.ins.size() + i], span_bytes(p.outs[i])));
  must(device.finish(Lane::compute));
}

int every_operator(Communicator& own, const std::string& folder) {
  own.patience = 60;
  {
    Result<OpenDevice> opened = OpenDevice::open(*cuda(), {1, 2, Precision::fp32});
    must(opened.ok() ? Status{} : opened.status());
    OpenDevice device = std::move(opened).value();
    const PageMapping whole{0, 0, 4};
    const Result<std::byte*> pool = device.map({4, 4, &whole, 1});
    must(pool.ok() ? Status{} : pool.status());
    must(device.begin_step({.communicator = &own}));
    std::ofstream out(folder + "/" + std::to_string(own.rank), std::ios::binary);
    for (Case& c : cases_of(own.rank, own.size)) {
      run_there(device, pool.value(), c);
      const std::vector<std::byte> bytes = written(c);
      out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
    }
    const uint64_t sent = own.sent_bytes + own.beside->sent_bytes;
    out.write(reinterpret_cast<const char*>(&sent), sizeof sent);
  }
  return control<uint64_t()>("spillway_host_cuda_live")() == 0 ? 0 : 4;
}

#ifdef SPILLWAY_WITH_CPU
constexpr KernelTable WIDE = cpu::kernel;
#else
constexpr KernelTable WIDE = imitation::own_kernel;  // a build under ThreadSanitizer has no cpu device
#endif

/// The same on the host, by threads that are ranks; in bf16, which a processor may lack, by the device's own kernels.
void run_here(Case& c, Communicator* own) {
  const StepContext step{.communicator = own};
  Prepared p(c, &step);
  const KernelTable table = p.ins[0].dtype == DType::bf16 ? imitation::own_kernel : WIDE;
  Result<std::unique_ptr<PreparedKernel>> kernel = table(p.call.kind)->prepare(p.call);
  must(kernel.ok() ? Status{} : kernel.status());
  std::vector<std::byte> workspace(size_t(kernel.value()->workspace_bytes()) + 64);
  p.call.workspace = workspace.data();
  kernel.value()->run(p.call);
}

bool near(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  for (size_t i = 0; i + 4 <= a.size(); i += 4) {
    float x, y;
    std::memcpy(&x, a.data() + i, 4);
    std::memcpy(&y, b.data() + i, 4);
    if (!(std::abs(x - y) <= 1e-5f * (1 + std::abs(x)))) return false;
  }
  return a.size() == b.size();
}

void as_on_the_host(uint32_t size) {
  const Directory d;
  CHECK(all_are(ranks(size, [&](Communicator& own) { return every_operator(own, d.path); }), 0));
  std::vector<OwnCommunicator> all = std::move(open_thread_ranks(size)).value();
  std::vector<std::vector<Case>> expected(size);
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < size; r++)
    threads.emplace_back([&, r] {
      expected[r] = cases_of(r, size);
      for (Case& c : expected[r]) run_here(c, all[r].get());
    });
  for (std::thread& t : threads) t.join();
  for (uint32_t r = 0; r < size; r++) {
    std::ifstream in(d.path + "/" + std::to_string(r), std::ios::binary);
    for (const Case& c : expected[r]) {
      const std::vector<std::byte> host = written(c);
      std::vector<std::byte> there(host.size());
      in.read(reinterpret_cast<char*>(there.data()), std::streamsize(there.size()));
      check(in && (c.is_near ? near(host, there) : host == there), c.name, __FILE__, __LINE__, text("rank ", r, " of ", size));
    }
    uint64_t sent = 0;
    in.read(reinterpret_cast<char*>(&sent), sizeof sent);
    CHECK(sent == all[r]->sent_bytes + all[r]->beside->sent_bytes);
  }
}

// ---------------------------------------------------------------- trainings

constexpr uint64_t STEPS = 5;

TapeBuilder network(uint32_t size) {
  return shared_by(with_workspace(classifier(false, DType::f32, {.batch = 2, .channels = 3, .height = 12, .width = 16, .classes = 5})),
                   size);
}

/// Out: true for success. Its results are in the file.
bool train(Communicator& own, const std::string& file, double patience = 20) {
  Opened o = open_session(network(own.size), {.device = cuda()}, 5);
  const RunMetrics m = run(o, {.steps = STEPS, .seed = 3, .timeline = true, .communicator = &own, .patience = patience});
  if (!m.status.ok() || m.steps.size() != STEPS) {
    std::ofstream(file) << "failed: " << m.status.message;
    return false;
  }
  size_t exchanged = 0;
  for (const Span& s : m.timeline.spans) exchanged += s.stream == StreamId::ranks;
  if (exchanged != 1 || m.steps.back().beside_seconds <= 0 || m.sent_bytes == 0 || m.sent_bytes % STEPS != 0)
    throw std::runtime_error("an exchange is not told of");
  const std::vector<std::byte> bytes = bytes_of(o, "head.weight");
  std::ofstream(file, std::ios::binary).write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
  return true;
}

std::string content(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void trains_however_streams_run() {
  std::string first;
  for (const int order : {0, 1, 2})
    for (const char* graphs : {"on", "off"}) {
      const Directory d;
      CHECK(all_are(ranks(2,
                          [&](Communicator& own) {
                            ::setenv("SPILLWAY_GRAPHS", graphs, 1);
                            control<void(int)>("spillway_host_cuda_order")(order);
                            return train(own, d.path + "/" + std::to_string(own.rank)) ? 0 : 1;
                          }),
                    0));
      if (first.empty()) first = content(d.path + "/0");
      CHECK(first.size() > 40 && content(d.path + "/0") == first && content(d.path + "/1") == first);
    }
}

void one_that_fails_ends_all() {
  const Directory d;
  int64_t calls = 0;
  CHECK(all_are(ranks(2,
                      [&](Communicator& own) {
                        if (!train(own, d.path + "/x")) return 1;
                        if (own.rank == 0) std::ofstream(d.path + "/calls") << control<int64_t()>("spillway_host_cuda_calls")();
                        return 0;
                      }),
                0));
  std::ifstream(d.path + "/calls") >> calls;
  CHECK(calls > 300);
  int refused = 0;
  const int64_t stride = std::getenv("SPILLWAY_FULL") ? 3 : 61;
  for (int64_t nth = 1; nth <= calls; nth += stride) {
    const std::vector<int> codes = ranks(2, [&](Communicator& own) {
      if (own.rank == 0) control<void(int64_t)>("spillway_host_cuda_fail")(nth);
      const std::string file = d.path + "/" + std::to_string(own.rank);
      try {
        return train(own, file, 4) ? 0 : 10;
      } catch (const std::exception& e) {
        std::ofstream(file) << "failed: " << e.what();
        return 10;
      }
    });
    const bool said = codes[0] == 0 || content(d.path + "/0").size() > 15;
    const bool followed = codes[1] == 0 || contains(content(d.path + "/1"), "rank");
    check((codes[0] == 0 || codes[0] == 10) && (codes[1] == codes[0] || codes[0] == 10) && (codes[1] == 0 || codes[1] == 10) && said &&
              followed,
          "a failing call ends all in words", __FILE__, __LINE__,
          text("call ", nth, ": ", codes[0], ", ", codes[1], "; ", content(d.path + "/0").substr(0, 200), "; ",
               content(d.path + "/1").substr(0, 200)));
    refused += codes[0] == 10;
  }
  CHECK(refused > 3);
}

/// The words of rank 0, or of rank 1.
std::string refusal(const char* variable, const char* value, const char* gpus, uint32_t of = 0) {
  const Directory d;
  ranks(
      2,
      [&](Communicator& own) {
        if (variable && own.rank == of) ::setenv(variable, value, 1);
        try {
          return train(own, d.path + "/" + std::to_string(own.rank)) ? 0 : 1;
        } catch (const std::exception& e) {
          std::ofstream(d.path + "/" + std::to_string(own.rank)) << e.what();
          return 1;
        }
      },
      gpus);
  return content(d.path + "/" + std::to_string(of));
}

void what_does_not_fit_is_said() {
  const auto says = [](const std::string& words, const char* part) { check(contains(words, part), part, __FILE__, __LINE__, words); };
  says(refusal("SPILLWAY_HOST_CUDA_MISSING", "libnccl.so.2", nullptr), "rank 0: NCCL is not found (libnccl.so.2)");
  says(refusal("SPILLWAY_HOST_CUDA_MISSING", "ncclRecv", nullptr), "rank 0: it has no function ncclRecv: it is too old");
  says(refusal("SPILLWAY_HOST_CUDA_NCCL", "2708", nullptr, 1), "rank 1 and rank 0 have different NCCL versions: 2.7.8 and 2.32.3");
  says(refusal(nullptr, nullptr, "1"), "ranks 0 and 1 have the same GPU (0000:02:00.0); each rank needs its own");
}

/// A waiting rank reports a missing one, and the others report a killed one.
void nobody_waits_for_ever() {
  for (const bool killed : {false, true}) {
    const Directory d;
    const std::vector<int> codes = ranks(2, [&](Communicator& own) {
      Opened o = open_session(network(2), {.device = cuda()}, 5);
      if (own.rank == 0) {
        RunOptions options{.steps = STEPS, .source = o.source.get(), .communicator = &own, .patience = killed ? 60.0 : 0.5};
        const RunMetrics m = run(o, options);
        std::ofstream(d.path + "/0") << m.status.message;
        return m.status.ok() ? 0 : 10;
      }
      // It meets the others, says that it takes the first step, and does not.
      CHECK(agree(own, Accord::go_on).ok());
      Result<OpenDevice> opened = OpenDevice::open(*cuda(), {1, 2, Precision::fp32});
      must(opened.ok() ? Status{} : opened.status());
      must(opened.value().begin_step({.communicator = &own}));
      if (killed) ::raise(SIGKILL);
      ::sleep(2);
      return 0;
    });
    CHECK(codes[0] == 10 && codes[1] == (killed ? 100 + SIGKILL : 0));
    const std::string words = content(d.path + "/0"),
                      due = killed ? "rank 0: NCCL: remote process exited" : "rank 0 waited 0 s for other ranks";
    check(contains(words, due), due.c_str(), __FILE__, __LINE__, words);
  }
}

}  // namespace

int main() {
  test("every operator of 3 ranks, as on the host", [] { as_on_the_host(3); });
  test("every operator of 4 ranks, in grids, too", [] { as_on_the_host(4); });
  test("trainings of two ranks, however streams run", trains_however_streams_run);
  test("arrays that do not fit are refused", what_does_not_fit_is_said);
  test("no thread waits forever", nobody_waits_for_ever);
  test("one that fails ends all", one_that_fails_ends_all);
  return finish();
}
#else
int main() {
  test("skipped: the headers of CUDA, cuDNN and cuBLAS are not here", [] {});
  return finish();
}
#endif
