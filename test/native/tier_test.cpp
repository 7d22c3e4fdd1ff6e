// serial
// The lower tiers and their faults: full disk, short requests, errors, limits, a file that is cut short; what a step does then.
#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/handles.hpp"
#include "test/native/runs.hpp"

using namespace spillway;
using namespace spillway::testing;

namespace {

struct Directory {
  std::string path = "/tmp/spillway-tier-XXXXXX";
  Directory() {
    if (!::mkdtemp(path.data())) throw std::runtime_error("no directory");
  }
  ~Directory() { std::filesystem::remove_all(path); }
  size_t files() const { return size_t(std::distance(std::filesystem::directory_iterator(path), {})); }
};

/// At an address that direct I/O takes.
struct Block {
  AddressRange range;
  explicit Block(const std::vector<std::byte>& bytes)
      : range(AddressRange::map(bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS)) {
    std::copy(bytes.begin(), bytes.end(), range.data());
  }
};

std::vector<std::byte> pattern(size_t n, unsigned seed) {
  std::vector<std::byte> bytes(n);
  for (size_t i = 0; i < n; i++) bytes[i] = std::byte((i * 2654435761u + seed) >> 13);
  return bytes;
}

void keeps_bytes(Tier& tier) {
  const uint64_t sizes[] = {1, 4095, 4096, 4097, 100'000, 3'000'001};
  uint64_t offset = 0;
  std::vector<std::pair<uint64_t, std::vector<std::byte>>> written;
  for (const uint64_t n : sizes) {
    written.emplace_back(offset, pattern(n, unsigned(n)));
    const Block block(written.back().second);
    const Status s = tier.write(offset, block.range.data(), n);
    check(s.ok(), "write", __FILE__, __LINE__, s.message);
    offset += (n + 4095) / 4096 * 4096;
  }
  for (const auto& [at, bytes] : written) {
    const size_t n = bytes.size();
    const Block block(std::vector<std::byte>(n + 64, std::byte(0xee)));
    const std::byte* back = block.range.data();
    CHECK(tier.read(at, block.range.data(), n).ok());
    CHECK(std::equal(bytes.begin(), bytes.end(), back));
    for (size_t i = n; i < n + 64; i++) CHECK(back[i] == std::byte(0xee));  // nothing past the end
  }
}

/// All of a tier that is as large as this.
void keeps_some(Tier& tier, uint64_t bytes) {
  const std::vector<std::byte> all = pattern(bytes, 1);
  const Block out(all), in(std::vector<std::byte>(all.size()));
  CHECK(tier.write(0, out.range.data(), bytes).ok());
  CHECK(tier.read(0, in.range.data(), bytes).ok());
  CHECK(std::equal(all.begin(), all.end(), in.range.data()));
}

void ram() {
  auto tier = open_ram_tier(8 << 20);
  CHECK(tier.ok());
  keeps_bytes(*tier.value());
  CHECK(tier.value()->disk_bytes() == 0);
  CHECK(open_ram_tier(0).ok());
  CHECK_SAYS(open_ram_tier(uint64_t(1) << 55).status(), "use --spill DIR");
}

void spill() {
  const Directory d;
  auto tier = open_spill_file(d.path, (8 << 20) + 5);
  CHECK(tier.ok());
  keeps_bytes(*tier.value());
  CHECK(tier.value()->disk_bytes() == (8 << 20) + 4096);
  CHECK(d.files() == 0);  // a killed process leaves nothing
}

void split() {
  const Directory d;
  for (const uint64_t memory : {uint64_t(4096), uint64_t(1) << 20, uint64_t(3) << 20}) {
    auto tier = open_split_tier(memory, d.path, 8 << 20);
    CHECK(tier.ok());
    // Each of these lies in one of the two.
    for (const uint64_t at : {uint64_t(0), memory, memory + (uint64_t(2) << 20)}) {
      const std::vector<std::byte> bytes = pattern(std::min<uint64_t>(at == 0 ? memory : 1 << 20, (8 << 20) - at), unsigned(at));
      const Block out(bytes), in(std::vector<std::byte>(bytes.size()));
      CHECK(tier.value()->write(at, out.range.data(), bytes.size()).ok());
      CHECK(tier.value()->read(at, in.range.data(), bytes.size()).ok());
      CHECK(std::equal(bytes.begin(), bytes.end(), in.range.data()));
    }
    CHECK(tier.value()->disk_bytes() > 0 && tier.value()->disk_bytes() <= (8 << 20) - memory);
  }
  CHECK(d.files() == 0);
  CHECK(!open_split_tier(4096, d.path + "/nowhere", 8 << 20).ok());
}

void bad_directories() {
  CHECK_SAYS(open_spill_file("/nonexistent/spill", 4096).status(), "No such file or directory");
  CHECK_SAYS(open_spill_file("/proc", 4096).status(), "spill directory /proc");
}

void disk_full() {
  const Directory d;
  const uint64_t free = std::filesystem::space(d.path).available;
  CHECK_SAYS(open_spill_file(d.path, free + (uint64_t(64) << 30)).status(), "the spill file needs");
  CHECK(d.files() == 0);
}

void file_size_limit() {
  const Directory d;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit low{1 << 20, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &low);
  CHECK_SAYS(open_spill_file(d.path, 2 << 20).status(), "ulimit -f");
  CHECK(open_spill_file(d.path, 1 << 20).ok());
  ::setrlimit(RLIMIT_FSIZE, &before);
}

// ---------------------------------------------------------------- failing requests

/// The fate of a request: another request, or another result.
struct Fault {
  void (*asked)(Request&) = [](Request&) {};
  void (*answered)(Completion&) = [](Completion&) {};
};
Fault fault;
int until_failure = 0;

/// The system's requests, with a fault between.
class Imitated final : public Requests {
 public:
  explicit Imitated(std::unique_ptr<Requests> real) : real_(std::move(real)) {}
  void submit(uint32_t slot, const Request& request) override {
    Request r = request;
    fault.asked(r);
    writes_[slot % 64] = r.write;
    real_->submit(slot, r);
  }
  Completion wait() override {
    Completion c = real_->wait();
    current_writes = writes_[c.slot % 64];
    fault.answered(c);
    return c;
  }
  /// True if the present completion is a write's.
  static inline thread_local bool current_writes = false;

 private:
  std::unique_ptr<Requests> real_;
  bool writes_[64] = {};
};

template <OpenRequests real>
Result<std::unique_ptr<Requests>> imitated(int fd, uint32_t depth) {
  auto opened = real(fd, depth);
  return opened.ok() ? Result<std::unique_ptr<Requests>>(std::make_unique<Imitated>(std::move(opened).value())) : std::move(opened);
}

/// Both ways to the file; a kernel without io_uring has one.
std::vector<OpenRequests> ways(bool with_faults) {
  const File zero(::open("/dev/zero", O_RDWR));
  std::vector<OpenRequests> all{with_faults ? imitated<open_request_threads> : open_request_threads};
  if (open_uring(zero.fd(), 2).ok()) all.push_back(with_faults ? imitated<open_uring> : open_uring);
  return all;
}

void both_ways() {
  const Directory d;
  for (const OpenRequests way : ways(false)) {
    auto tier = open_spill_file(d.path, 64 << 20, way);
    CHECK(tier.ok());
    keeps_bytes(*tier.value());
    const std::vector<std::byte> large = pattern((40 << 20) + 123, 7);
    const Block out(large), in(std::vector<std::byte>(large.size()));
    CHECK(tier.value()->write(0, out.range.data(), large.size()).ok());
    CHECK(tier.value()->read(0, in.range.data(), large.size()).ok());
    CHECK(std::equal(large.begin(), large.end(), in.range.data()));
  }
}

/// Several are in flight, and end in any order.
void parts_at_once() {
  const Directory d;
  for (const OpenRequests way : ways(false)) {
    auto tier = open_spill_file(d.path, 64 << 20, way);
    CHECK(tier.ok());
    Channel& out = tier.value()->out();
    const uint32_t most = out.room();
    CHECK(most > 1);
    const Block block(pattern(size_t(most) << 20, 3));
    for (uint32_t i = 0; i < most; i++) out.start(i, {uint64_t(i) << 20, block.range.data() + (size_t(i) << 20), 1 << 20});
    CHECK(out.room() == 0);
    std::vector<bool> ended(most);
    for (uint32_t i = 0; i < most; i++) {
      const Moved m = out.finish();
      CHECK(m.status.ok() && m.tag < most && !ended[m.tag]);
      ended[m.tag] = true;
    }
    CHECK(out.room() == most);
  }
}

void short_requests_go_on() {
  const Directory d;
  const Fault short_ones{[](Request& r) { r.bytes = std::min<uint64_t>(r.bytes, 12'288); }};
  const Fault odd_ones{[](Request& r) { r.bytes = std::min<uint64_t>(r.bytes, 65'536); },
                       [](Completion& c) {
                         if (until_failure++ % 3 == 0)
                           c.result = until_failure % 2 ? -EINTR : -EAGAIN;
                         else if (c.result > 8192)
                           c.result -= 1000;
                       }};
  for (const Fault& f : {short_ones, odd_ones})
    for (const OpenRequests way : ways(true)) {
      fault = f;
      auto tier = open_spill_file(d.path, 8 << 20, way);
      CHECK(tier.ok());
      keeps_bytes(*tier.value());
    }
}

/// The run ends with a message that names the folder and the cure; the session can be closed, and a new one on the same directory works.
void step_fails(Fault f, const char* says, const char* remedy) {
  const Directory d;
  for (const OpenRequests way : ways(true)) {
    fault = f;
    until_failure = 2;
    Opened o = open_session(classifier(true, DType::f32), {.spill_directory = d.path, .open_requests = way});
    const RunMetrics m = run(o, {.steps = 5});
    for (const std::string& part : {std::string(says), d.path, std::string(remedy), std::string("--resume")})
      check(contains(m.status.message, part), part.c_str(), __FILE__, __LINE__, m.status.message);
    CHECK(m.torn && !m.cancelled && m.steps.size() < 5);
    CHECK_SAYS(read_first(o), "open a new session");
    fault = {};
    Opened again = open_session(classifier(true, DType::f32), {.spill_directory = d.path, .open_requests = way});
    CHECK(run(again, {.steps = 5}).steps.size() == 5);
  }
}

void full(Completion& c) {
  if (Imitated::current_writes && until_failure-- <= 0) c.result = -ENOSPC;
}
void stopped(Completion& c) {
  if (Imitated::current_writes) c.result = 0;
}
void broken(Completion& c) {
  if (!Imitated::current_writes) c.result = -EIO;
}
void ended(Completion& c) {
  if (!Imitated::current_writes) c.result = 0;
}

// ---------------------------------------------------------------- faults of a real system

/// This process's own descriptor of the spill file.
std::string spill_file_of(const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(entry.path(), gone).string().rfind(directory + "/", 0) == 0) return entry.path();
  }
  throw std::runtime_error("no spill file is open");
}

void cut_short_by_somebody() {
  const Directory d;
  for (const OpenRequests way : ways(false)) {
    auto tier = open_spill_file(d.path, 16 << 20, way);
    CHECK(tier.ok());
    const Block block(pattern(4 << 20, 9));
    for (const uint64_t at : {0, 4 << 20, 12 << 20}) CHECK(tier.value()->write(at, block.range.data(), 4 << 20).ok());
    CHECK(::truncate(spill_file_of(d.path).c_str(), 8 << 20) == 0);
    CHECK_SAYS(tier.value()->read(12 << 20, block.range.data(), 4 << 20), "stopped at byte");
    // A write makes it as long as it was, with a hole that would read as zeros.
    CHECK(tier.value()->write(12 << 20, block.range.data(), 4 << 20).ok());
    CHECK_SAYS(tier.value()->read(0, block.range.data(), 4096), "was truncated by another process");
  }
}

void limit_lowered_meanwhile() {
  const Directory d;
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  for (const OpenRequests way : ways(false)) {
    Opened o = open_session(classifier(true, DType::f32), {.spill_directory = d.path, .open_requests = way});
    const rlimit low{4096, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &low);
    const RunMetrics m = run(o, {.steps = 2});
    ::setrlimit(RLIMIT_FSIZE, &before);
    CHECK_SAYS(m.status, "File too large");
    CHECK_SAYS(m.status, "ulimit -f");
  }
}

/// A file system of our own that is too small; where we may not mount one, there is nothing to see.
void small_file_system() {
  const Directory d;
  if (::mount("spillway", d.path.c_str(), "tmpfs", 0, "size=4m") != 0) return;
  CHECK_SAYS(open_spill_file(d.path, 16 << 20).status(), "No space left on device");
  {
    auto tier = open_spill_file(d.path, 2 << 20);
    CHECK(tier.ok());
    keeps_some(*tier.value(), 2 << 20);
  }
  ::umount(d.path.c_str());
}

void spilled_equals_ram() {
  const Directory d;
  Opened ram = open_session(classifier(true)), disk = open_session(classifier(true), {.spill_directory = d.path});
  const RunMetrics a = run(ram, {.steps = 3}), b = run(disk, {.steps = 3});
  CHECK(a.steps.size() == 3 && b.steps.size() == 3 && a.steps[2].loss == b.steps[2].loss);
  CHECK(bytes_of(ram, "head.weight") == bytes_of(disk, "head.weight"));
  CHECK(a.disk_bytes == 0 && b.disk_bytes >= 2 * 3 * 300 * 400 * 8);
}

}  // namespace

int main() {
  test("RAM keeps bytes", ram);
  test("a spill file keeps bytes and has no name", spill);
  test("memory first, then a spill file", split);
  test("bad directories are refused", bad_directories);
  test("a full disk is refused when the session opens", disk_full);
  test("a limit on file sizes is refused, not a signal", file_size_limit);
  test("io_uring and threads keep bytes", both_ways);
  test("several parts at once", parts_at_once);
  test("short and interrupted requests continue", short_requests_go_on);
  test("the disk fills up in the middle of a run", [] { step_fails({.answered = full}, "No space left on device", "free disk space"); });
  test("a write that stops", [] { step_fails({.answered = stopped}, "writing the spill file in ", "another folder"); });
  test("a read error", [] { step_fails({.answered = broken}, ": Input/output error; ", "the disk fails"); });
  test("a file that ends early", [] { step_fails({.answered = ended}, "stopped at byte", "another folder"); });
  test("a file that is truncated", cut_short_by_somebody);
  test("a limit that is lowered while it runs", limit_lowered_meanwhile);
  test("a small file system", small_file_system);
  test("training through a spill file equals RAM", spilled_equals_ram);
  return finish();
}
