// serial
// The cuda device's own sources on an imitated CUDA (host_cuda/): trainings whose bits depend neither on the order in which
// streams run nor on where values wait; every call fails once, in a process of its own; what is missing is said in words; nothing
// is left behind, and nothing is called when the process ends.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "runtime/bandwidth.hpp"
#include "runtime/open_device.hpp"
#include "runtime/single_call.hpp"
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
void order(int n) { control<void(int)>("spillway_host_cuda_order")(n); }
void fail_at(int64_t n) { control<void(int64_t)>("spillway_host_cuda_fail")(n); }
int64_t calls() { return control<int64_t()>("spillway_host_cuda_calls")(); }
uint64_t live() { return control<uint64_t()>("spillway_host_cuda_live")(); }
void over() { control<void()>("spillway_host_cuda_over")(); }
void leaving() { control<void()>("spillway_host_cuda_leaving")(); }

struct Directory {
  std::string path = "/tmp/spillway-host-cuda-XXXXXX";
  Directory() {
    if (!::mkdtemp(path.data())) throw std::runtime_error("no directory");
  }
  ~Directory() { std::filesystem::remove_all(path); }
};

constexpr uint64_t STEPS = 6;

TapeBuilder network(bool swapped) {
  return with_workspace(classifier(swapped, DType::f32, {.batch = 2, .channels = 3, .height = 60, .width = 80, .classes = 5}));
}

struct Trained {
  std::vector<std::byte> weights;
  std::vector<double> losses;
  std::string without_graphs = {};
};

Trained train(const TapeBuilder& tape, SessionOptions options, bool timeline = false) {
  Opened o = open_session(tape, options, 5);
  const RunMetrics m = run(o, {.steps = STEPS, .seed = 3, .timeline = timeline});
  if (!m.status.ok()) throw std::runtime_error(m.status.message);
  Trained t{bytes_of(o, "head.weight"), {}, m.without_graphs};
  for (const StepMetrics& s : m.steps) t.losses.push_back(s.loss);
  return t;
}

bool near(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); i++)
    if (!(std::abs(a[i] - b[i]) <= 1e-5 * std::abs(a[i]))) return false;
  return a.size() == b.size();
}

void bits_do_not_depend_on_the_order_of_streams() {
  const Directory d;
  const Trained expected = train(network(false), {.device = cuda()});
  CHECK(near(train(with_workspace(classifier(false, DType::f64, {.batch = 2, .channels = 3, .height = 60, .width = 80, .classes = 5})),
                   {.device = find_device("ref")})
                 .losses,
             expected.losses));
  for (const int how : {0, 1, 2}) {
    order(how);
    for (const bool swapped : {false, true})
      for (const bool disk : {false, true}) {
        const SessionOptions options{.device = cuda(), .spill_directory = disk ? d.path : "", .host_bytes = disk ? 0 : ~uint64_t(0)};
        CHECK(train(network(swapped), options, how == 1).weights == expected.weights);
      }
  }
  order(0);
}

/// Requests of a spill file, and how many of them found no other under way.
struct Counts {
  std::atomic<uint32_t> all, alone;
};
Counts writes, reads;

class Counted final : public Requests {
 public:
  explicit Counted(std::unique_ptr<Requests> own) : own_(std::move(own)) {}
  void submit(uint32_t slot, const Request& r) override {
    Counts& c = r.write ? writes : reads;
    c.all++;
    if (under_way_++ == 0) c.alone++;
    own_->submit(slot, r);
  }
  Completion wait() override {
    under_way_--;
    return own_->wait();
  }

 private:
  std::unique_ptr<Requests> own_;
  uint32_t under_way_ = 0;
};

Result<std::unique_ptr<Requests>> open_counted(int fd, uint32_t depth) {
  Result<std::unique_ptr<Requests>> own = open_request_threads(fd, depth);
  if (!own.ok()) return own.status();
  return std::unique_ptr<Requests>(std::make_unique<Counted>(std::move(own).value()));
}

/// A copy of many parts to the disk never waits for all of them before its next part. The bits are those of a tier in memory.
void disk_stays_busy() {
  const Directory d;
  const TapeBuilder tape =
      with_workspace(classifier(true, DType::f32, {.batch = 8, .channels = 3, .height = 480, .width = 640, .classes = 5}));
  const auto weights = [&](const SessionOptions& options) {
    Opened o = open_session(tape, options, 5);
    CHECK(run(o, {.steps = 2, .seed = 3}).status.ok());
    return bytes_of(o, "head.weight");
  };
  const std::vector<std::byte> expected = weights({.device = cuda()});
  CHECK(weights({.device = cuda(), .spill_directory = d.path, .host_bytes = 0, .open_requests = open_counted}) == expected);
  CHECK(writes.all > 6 * writes.alone && reads.all > 6 * reads.alone);
}

/// f in a process of its own, which has called nothing of CUDA before. Out: its exit code, 100 + n for a signal.
template <class F>
int apart(F f) {
  cuda();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 0;
    try {
      code = f();
    } catch (const std::exception& e) {
      std::printf("%s\n", e.what());
      code = 3;
    }
    std::fflush(nullptr);
    leaving();
    ::_exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFSIGNALED(status) ? 100 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// One training, and its result. The next one, in the same process, always works.
int one_failure(const TapeBuilder& tape, const SessionOptions& options, int64_t nth, const std::vector<std::byte>& expected) {
  fail_at(nth);
  int code = 0;
  try {
    if (train(tape, options).weights != expected) code = 1;
  } catch (const std::exception& e) {
    code = std::string_view(e.what()).size() > 10 ? 10 : 2;
  }
  fail_at(0);
  if (code <= 10 && train(tape, options).weights != expected) return 4;
  return code;
}

void every_failure() {
  const Directory d;
  const TapeBuilder tape = network(true);
  std::vector<std::byte> expected;
  int64_t all = 0;
  {
    int pipes[2];
    CHECK(::pipe(pipes) == 0);
    CHECK(apart([&] {
            const std::vector<std::byte> weights = train(tape, {.device = cuda()}).weights;
            const int64_t n = calls();
            return ::write(pipes[1], &n, sizeof n) == sizeof n &&
                           ::write(pipes[1], weights.data(), weights.size()) == ssize_t(weights.size())
                       ? 0
                       : 1;
          }) == 0);
    CHECK(::read(pipes[0], &all, sizeof all) == sizeof all);
    expected.resize(4096);
    expected.resize(size_t(::read(pipes[0], expected.data(), expected.size())));
  }
  CHECK(all > 300);
  int refused = 0, borne = 0;
  const int64_t stride = std::getenv("SPILLWAY_FULL") ? 1 : 5;
  for (int64_t nth = 1; nth <= all; nth += stride) {
    const int code = apart([&] { return one_failure(tape, {.device = cuda()}, nth, expected); });
    CHECK(code == 0 || code == 10);
    if (code != 0 && code != 10) std::printf("call %lld: %d\n", (long long)nth, code);
    (code == 10 ? refused : borne)++;
  }
  CHECK(refused > 20 && borne > 0);
}

/// The device's own facts, under a variable of the environment.
std::string facts_with(const std::vector<std::pair<const char*, std::string>>& variables) {
  int pipes[2];
  if (::pipe(pipes) != 0) return "no pipe";
  apart([&] {
    for (const auto& [variable, value] : variables) ::setenv(variable, value.c_str(), 1);
    DeviceFacts facts;
    Words words;
    const Code code = cuda()->facts(&facts, &words);
    const std::string said = code == Code::ok ? std::string("fine: ") + facts.device + ", " + facts.libraries : std::string(words.text);
    return ::write(pipes[1], said.data(), said.size()) > 0 ? 0 : 1;
  });
  char text[1024] = {};
  if (::read(pipes[0], text, sizeof text - 1) < 0) return "nothing";
  ::close(pipes[0]);
  ::close(pipes[1]);
  return text;
}

std::string facts_with(const char* variable, const char* value) { return facts_with({{variable, value}}); }

/// Libraries that the loader does not have: `spillway setup cuda` remembers their folder, and the user's variable names another.
void remembered_folders_are_searched() {
  namespace fs = std::filesystem;
  char pattern[] = "/tmp/spillway-remembered-XXXXXX";
  const fs::path root = ::mkdtemp(pattern);
  const fs::path libraries = root / "libraries", cache = root / "cache";
  for (const fs::path& folder : {libraries, cache / "spillway"}) fs::create_directories(folder);
  const std::string missing = "libcudnn.so.9 libcublasLt.so.13";
  const auto facts = [&](const std::string& named) {
    return facts_with({{"SPILLWAY_HOST_CUDA_MISSING", missing}, {"XDG_CACHE_HOME", cache}, {"SPILLWAY_CUDA_LIBRARIES", named}});
  };
  std::ofstream(libraries / "libcudnn.so.9");
  CHECK(contains(facts(""), "cuDNN 9 is not found (libcudnn.so.9): run 'npx spillway setup cuda'"));
  std::ofstream(cache / "spillway" / "cuda-libraries") << (root / "elsewhere").string() << "\n" << libraries.string() << "\n";
  CHECK(contains(facts(""), "cuBLAS is not found"));
  std::ofstream(libraries / "libcublasLt.so.13");
  CHECK(contains(facts(""), "fine: host cuda"));
  fs::remove(cache / "spillway" / "cuda-libraries");
  CHECK(contains(facts(libraries), "fine: host cuda"));
  fs::remove_all(root);
}

void what_is_missing_is_said() {
  const std::pair<const char*, const char*> missing[] = {
      {"libcuda.so.1", "there is no NVIDIA driver (libcuda.so.1): install it"},
      {"cuMemMap", "it has no function cuMemMap: it is too old"},
      {"libcudnn.so.9", "cuDNN 9 is not found (libcudnn.so.9)"},
      {"libcublasLt.so.13", "cuBLAS is not found (libcublasLt.so.13)"},
      {"libnvidia-ml.so.1", "fine: host cuda, sm_90, CUDA runtime 13.0, cuDNN 9"},
  };
  for (const auto& [name, words] : missing) CHECK(contains(facts_with("SPILLWAY_HOST_CUDA_MISSING", name), words));
  CHECK(contains(facts_with("SPILLWAY_HOST_CUDA_DEVICE", "none"), "this machine has no NVIDIA GPU"));
  CHECK(contains(facts_with("SPILLWAY_HOST_CUDA_DEVICE", "undetected"), "this machine has no NVIDIA GPU"));
  CHECK(contains(facts_with("SPILLWAY_HOST_CUDA_DEVICE", "no driver"), "the NVIDIA driver is too old for CUDA 13.0"));
  CHECK(contains(facts_with("SPILLWAY_HOST_CUDA_CAPABILITY", "70"),
                 "the GPU 'host cuda' has compute capability 7.0; at least 7.5 (Turing) is needed"));
}

void memory_is_counted() {
  for (const char* missing : {"", "libnvidia-ml.so.1"})
    CHECK(apart([&] {
            ::setenv("SPILLWAY_HOST_CUDA_MISSING", missing, 1);
            Opened o = open_session(network(true), {.device = cuda()});
            const RunMetrics m = run(o, {.steps = 4});
            return m.device_memory && m.device_memory->pool_bytes == m.arena_file_bytes && m.device_memory->of_process == !*missing &&
                           m.device_memory->grown_bytes == 0
                       ? 0
                       : 1;
          }) == 0);
  CHECK(apart([&] {
          ::setenv("SPILLWAY_HOST_CUDA_BYTES", std::to_string(70 << 20).c_str(), 1);
          const auto opened = Session::open(network(true).bytes(), {.device = cuda(), .threads = 1});
          return !opened.ok() && opened.status().code == Code::out_of_memory &&
                         contains(opened.status().message, "(does another process use the GPU?): cuMemCreate: out of memory")
                     ? 0
                     : 1;
        }) == 0);
}

void nothing_is_left() {
  CHECK(apart([] {
          const uint64_t before = live();
          train(network(true), {.device = cuda()});
          return live() == before ? 0 : 1;
        }) == 0);
}

/// A convolution with a bias, and a product: [1, C, 6, 6] by 3x3; x whole, or rows of a larger image.
struct Asked {
  std::vector<Way> ways;
  std::string words;
};
Asked asked_ways(OpKind kind, int64_t channels, int64_t groups, int64_t dilation, Precision precision, DType stored, bool rows = false) {
  const auto activation = [&](int64_t c, int64_t side) {
    return View{
        .dtype = stored, .rank = 4, .dims = {1, c, side, side}, .strides = {c * side * side, 1, c * side, c}, .extent = {1, c, side, side}};
  };
  const bool product = kind == OpKind::linear;
  const int64_t side = product ? 1 : 6, window = product ? 1 : 3, in = channels / groups;
  View x = activation(channels, side), y = activation(8, side);
  if (rows) {
    x.dims[2] = side + 2;
    x.origin[2] = 1;
    y.origin[2] = 2;
    x.extent[2] = y.extent[2] = 2 * side;
  }
  const View w{.dtype = DType::f32,
               .rank = product ? 2u : 4u,
               .dims = {8, in, window, window},
               .strides = {in * window * window, window * window, window, 1},
               .extent = {8, in, window, window}};
  const View b{.dtype = DType::f32, .rank = 1, .dims = {8, 1, 1, 1}, .strides = {1, 1, 1, 1}, .extent = {8, 1, 1, 1}};
  const View ins[] = {x, w, b};
  const double d = double(dilation);
  const std::vector<double> attrs = product ? std::vector<double>{} : std::vector<double>{1, 1, d, d, d, d, d, d, double(groups), 0};
  const uint32_t n = kind == OpKind::conv2d ? 9 : uint32_t(attrs.size());
  const auto found =
      single_ways(*cuda(), {.kind = uint32_t(kind), .ins = ins, .n_ins = 3, .outs = &y, .n_outs = 1, .attrs = attrs.data(), .n_attrs = n},
                  MOST_WAYS, {.precision = precision});
  return found.ok() ? Asked{found.value(), {}} : Asked{{}, found.status().message};
}
std::string names_of(const Asked& a) {
  std::string names = a.words;
  for (const Way& w : a.ways) names += (names.empty() ? "" : ", ") + std::string(w.name);
  return names;
}

void only_no_engine_is_a_reason_for_an_own_kernel() {
  CHECK(apart([] {
          const std::string plain = names_of(asked_ways(OpKind::conv2d, 8, 1, 1, Precision::fp32, DType::f32));
          const std::string fused = names_of(asked_ways(OpKind::conv2d_relu, 8, 1, 1, Precision::bf16, DType::bf16));
          const std::string gap = names_of(asked_ways(OpKind::conv2d, 8, 8, 2, Precision::fp32, DType::f32));
          const std::string product = names_of(asked_ways(OpKind::linear, 1021, 1, 1, Precision::fp32, DType::f32));
          const std::string fallback = names_of(asked_ways(OpKind::conv2d, 20, 1, 1, Precision::fp32, DType::f32));
          const bool numbered = plain.starts_with("cuDNN 1 (6), cuDNN 2 (6), cuDNN 3 (7)") && contains(plain, "cuDNN loose 1 (0)") &&
                                fused.starts_with("cuDNN 1 (1), cuDNN 2 (1), cuDNN 3 (6), cuDNN 4 (6)");
          // Rows of six channels begin at any eight bytes: no engine that reads sixteen at once.
          const std::string whole = names_of(asked_ways(OpKind::conv2d, 6, 1, 1, Precision::tf32, DType::f32)),
                            rows = names_of(asked_ways(OpKind::conv2d, 6, 1, 1, Precision::tf32, DType::f32, true));
          if (!whole.starts_with("cuDNN 1 (1)") || !rows.starts_with("cuDNN 1 (6)") || contains(rows, "(1)")) return 1;
          const bool falls_back = fallback.starts_with("cuDNN 1 (6), cuDNN 2 (6), cuDNN loose");
          return numbered && gap == "own" && product == "own" && falls_back ? 0 : 1;
        }) == 0);
  CHECK(apart([] {
          ::setenv("SPILLWAY_HOST_CUDA_NO_HEURISTICS", "1", 1);
          const std::string words = names_of(asked_ways(OpKind::conv2d, 8, 1, 1, Precision::fp32, DType::f32));
          return contains(words, "cuDNN cannot describe this convolution: cuDNN's heuristics: ") &&
                         contains(words, "SUBLIBRARY_LOADING_FAILED")
                     ? 0
                     : 1;
        }) == 0);
}

/// Work that cannot be captured runs instruction by instruction; so does everything if the environment says so.
void without_graphs() {
  const Trained expected = train(network(true), {.device = cuda()});
  CHECK(expected.without_graphs.empty());
  for (const auto& [variable, value, words] :
       {std::tuple("SPILLWAY_GRAPHS", "off", "SPILLWAY_GRAPHS=off"), std::tuple("SPILLWAY_HOST_CUDA_NO_GRAPHS", "1", "as a graph: cuda")})
    CHECK(apart([&, variable = variable, value = value, words = words] {
            ::setenv(variable, value, 1);
            const Trained t = train(network(true), {.device = cuda()});
            return t.weights == expected.weights && contains(t.without_graphs, words) ? 0 : 1;
          }) == 0);
}

/// A context that is closed while a copy is under way waits for it before it gives the memory back.
void ends_with_work_under_way() {
  CHECK(apart([] {
          const uint64_t before = live();
          {
            Result<OpenDevice> opened = OpenDevice::open(*cuda(), {1, 0, Precision::fp32});
            if (!opened.ok()) return 1;
            OpenDevice device = std::move(opened).value();
            const PageMapping whole{0, 0, 1};
            const Result<std::byte*> base = device.map({1, 1, &whole, 1}), here = device.pin(4096);
            if (!base.ok() || !here.ok() || !device.copy(Lane::in, base.value(), here.value(), 4096).ok()) return 2;
          }
          return live() == before ? 0 : 3;
        }) == 0);
}

/// The process ends as processes do: statics go, and none of them calls a library that may be gone.
void nothing_is_called_at_the_end() {
  cuda();
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    train(network(true), {.device = cuda()});
    std::vector<float> x(2 * 3), w(5 * 3), y(2 * 5);
    View in{.data = nullptr, .rank = 4, .dims = {2, 3, 1, 1}, .strides = {3, 1, 3, 3}, .extent = {2, 3, 1, 1}},
        weights{.data = nullptr, .rank = 2, .dims = {5, 3, 1, 1}, .strides = {3, 1, 1, 1}, .extent = {5, 3, 1, 1}},
        out{.data = nullptr, .rank = 4, .dims = {2, 5, 1, 1}, .strides = {5, 1, 5, 5}, .extent = {2, 5, 1, 1}};
    const View ins[] = {in, weights};
    single_ways(*cuda(), {.kind = uint32_t(OpKind::linear), .ins = ins, .n_ins = 2, .outs = &out, .n_outs = 1}, MOST_WAYS);
    over();
    std::exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void link_is_measured() {
  const Result<Bandwidth> b = measure_device_bandwidth(*cuda());
  CHECK(b.ok() && b.value().out_bytes_per_second > 1e6 && b.value().in_bytes_per_second > 1e6);
}

}  // namespace

int main() {
  test("missing parts are named", what_is_missing_is_said);
  test("remembered folders are searched", remembered_folders_are_searched);
  test("every call fails once", every_failure);
  test("only no engine is a reason for an own kernel", only_no_engine_is_a_reason_for_an_own_kernel);
  test("memory is counted", memory_is_counted);
  test("nothing is left", nothing_is_left);
  test("nothing is called at the end", nothing_is_called_at_the_end);
  test("bits do not depend on the order of streams", bits_do_not_depend_on_the_order_of_streams);
  test("the disk stays busy", disk_stays_busy);
  test("without graphs", without_graphs);
  test("ends with work under way", ends_with_work_under_way);
  test("the link is measured", link_is_measured);
  return finish();
}
#else
int main() {
  test("skipped: the headers of CUDA, cuDNN and cuBLAS are not here", [] {});
  return finish();
}
#endif
