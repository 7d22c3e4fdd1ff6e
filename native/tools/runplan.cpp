// Runs a tape file without Node: runplan TAPE [--device null|ref|cpu|cuda] [--steps N] [--spill DIR] [--seed N] [--threads N]
// [--throttle BYTES_PER_SECOND] [--classes N] [--host-memory BYTES]. In: an untrusted file. Out: one line a step, then totals; exit code 1
// with a reason.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>

#include "runtime/random.hpp"
#include "runtime/session.hpp"

namespace {

using namespace spillway;

struct Arguments {
  std::string tape, device = "null", spill;
  uint64_t steps = 1, seed = 1;
  int threads = 0;
  double throttle = 0;
  uint32_t classes = 10;
  std::optional<uint64_t> host_memory = {};
};

Status parse(int argc, char** argv, Arguments& a) {
  for (int i = 1; i < argc; i++) {
    const std::string_view word = argv[i];
    if (word.substr(0, 2) != "--") {
      a.tape = word;
      continue;
    }
    if (i + 1 == argc) return refuse(word, " needs a value");
    const char* value = argv[++i];
    if (word == "--device")
      a.device = value;
    else if (word == "--spill")
      a.spill = value;
    else if (word == "--steps")
      a.steps = std::strtoull(value, nullptr, 10);
    else if (word == "--seed")
      a.seed = std::strtoull(value, nullptr, 10);
    else if (word == "--threads")
      a.threads = std::atoi(value);
    else if (word == "--throttle")
      a.throttle = std::atof(value);
    else if (word == "--classes")
      a.classes = uint32_t(std::strtoul(value, nullptr, 10));
    else if (word == "--host-memory")
      a.host_memory = std::strtoull(value, nullptr, 10);
    else
      return refuse("unknown option ", word);
  }
  return a.tape.empty() ? refuse(
                              "usage: runplan TAPE [--device null|ref|cpu|cuda] [--steps N] [--spill DIR] [--seed N] [--threads N] "
                              "[--throttle BYTES_PER_SECOND] [--classes N] [--host-memory BYTES]")
                        : Status{};
}

Status run(const Arguments& a) {
  std::ifstream file(a.tape, std::ios::binary);
  if (!file) return refuse("cannot read ", a.tape);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  const Result<const Device*> device = load_device(a.device);
  if (!device.ok()) return device.status();
  auto opened = Session::open(std::as_bytes(std::span(bytes)), {.device = device.value(),
                                                                .spill_directory = a.spill,
                                                                .host_bytes = a.host_memory,
                                                                .threads = a.threads,
                                                                .throttle = {a.throttle, a.throttle}});
  if (!opened.ok()) return opened.status();
  const std::unique_ptr<Session> session = std::move(opened).value();
  Source source(session->tape());
  for (uint32_t i = 0; i < session->tape().bindings.size(); i++) {
    const BindingRecord& b = session->tape().bindings[i];
    if (b.fed())
      source.set_synthetic(i, {.seed = a.seed, .samples = 4, .deviation = b.role == BindingRole::target ? 0.1 : 1.0, .classes = a.classes});
    if (b.persistent())
      if (Status s = session->init(i, a.seed); !s.ok()) return s;
  }
  if (Status s = session->begin({.steps = a.steps, .seed = a.seed, .source = &source}); !s.ok()) return s;
  const RunMetrics m = session->finish();
  for (size_t i = 0; i < m.steps.size(); i++)
    std::printf(
        "step %zu: loss %.9g, %.6f s (kernels %.6f, recompute %.6f, stalls %.6f memory %.6f data), out %llu, in %llu, fed %llu bytes\n",
        i + 1, m.steps[i].loss, m.steps[i].seconds, m.steps[i].kernel_seconds, m.steps[i].recompute_seconds,
        m.steps[i].stall_memory_seconds, m.steps[i].stall_data_seconds, (unsigned long long)m.steps[i].bytes_out,
        (unsigned long long)m.steps[i].bytes_in, (unsigned long long)m.steps[i].bytes_fed);
  std::printf("arena peak %llu bytes (planned %llu), memory file %llu, disk %llu\n", (unsigned long long)m.arena_peak_bytes,
              (unsigned long long)(session->tape().peak_pages * PAGE_BYTES), (unsigned long long)m.arena_file_bytes,
              (unsigned long long)m.disk_bytes);
  return m.status;
}

}  // namespace

int main(int argc, char** argv) {
  Arguments a;
  Status s = parse(argc, argv, a);
  if (s.ok()) s = run(a);
  if (!s.ok()) std::fprintf(stderr, "runplan: %s\n", s.message.c_str());
  return s.ok() ? 0 : 1;
}
