// The lower tiers and their faults: full disk, short writes, read errors, limits; and what a step does then.
#include <dirent.h>
#include <fcntl.h>
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
  Directory() { if (!::mkdtemp(path.data())) throw std::runtime_error("no directory"); }
  ~Directory() { std::filesystem::remove_all(path); }
  size_t files() const { return size_t(std::distance(std::filesystem::directory_iterator(path), {})); }
};

/// At an address that direct I/O takes.
struct Block {
  AddressRange range;
  explicit Block(const std::vector<std::byte>& bytes) : range(AddressRange::map(bytes.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS)) {
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

void ram() {
  auto tier = open_ram_tier(8 << 20);
  CHECK(tier.ok());
  keeps_bytes(*tier.value());
  CHECK(tier.value()->disk_bytes() == 0);
  CHECK(open_ram_tier(0).ok());
  CHECK_SAYS(open_ram_tier(uint64_t(1) << 55).status(), "spill to a directory instead");
}

void spill() {
  const Directory d;
  auto tier = open_spill_file(d.path, (8 << 20) + 5);
  CHECK(tier.ok());
  keeps_bytes(*tier.value());
  CHECK(tier.value()->disk_bytes() == (8 << 20) + 4096);
  CHECK(d.files() == 0);  // a killed process leaves nothing
}

void bad_directories() {
  CHECK_SAYS(open_spill_file("/nonexistent/spill", 4096).status(), "No such file or directory");
  CHECK_SAYS(open_spill_file("/proc", 4096).status(), "spill directory /proc");
}

void disk_full() {
  const Directory d;
  const uint64_t free = std::filesystem::space(d.path).available;
  CHECK_SAYS(open_spill_file(d.path, free + (uint64_t(64) << 30)).status(), "the spill file takes");
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

// ---------------------------------------------------------------- failing calls

int calls_until_failure = 0;

ssize_t short_pwrite(int fd, const void* from, size_t n, off_t at) { return ::pwrite(fd, from, std::min<size_t>(n, 12'288), at); }
ssize_t odd_pwrite(int fd, const void* from, size_t n, off_t at) { return n > 4096 ? ::pwrite(fd, from, 8192, at) - 1000 : ::pwrite(fd, from, n, at); }
ssize_t interrupted_pread(int fd, void* into, size_t n, off_t at) {
  if (calls_until_failure++ % 2 == 0) { errno = EINTR; return -1; }
  return ::pread(fd, into, std::min<size_t>(n, 65'536), at);
}
ssize_t full_pwrite(int fd, const void* from, size_t n, off_t at) {
  if (calls_until_failure-- <= 0) { errno = ENOSPC; return -1; }
  return ::pwrite(fd, from, n, at);
}
ssize_t no_pwrite(int, const void*, size_t, off_t) { return 0; }
ssize_t broken_pread(int, void*, size_t, off_t) { errno = EIO; return -1; }
ssize_t ended_pread(int, void*, size_t, off_t) { return 0; }

void short_calls_go_on() {
  const Directory d;
  for (const FileCalls calls : {FileCalls{short_pwrite, ::pread}, FileCalls{odd_pwrite, interrupted_pread}}) {
    auto tier = open_spill_file(d.path, 8 << 20, calls);
    CHECK(tier.ok());
    keeps_bytes(*tier.value());
  }
}

/// The run ends with a message, the session can be closed, and a new one on the same directory works.
void step_fails(FileCalls calls, const char* says) {
  const Directory d;
  Opened o = open_session(classifier(true, DType::f32), {.spill_directory = d.path, .file_calls = calls});
  const RunMetrics m = run(o, {.steps = 5});
  check(contains(m.status.message, says), says, __FILE__, __LINE__, m.status.message);
  CHECK(m.torn && !m.cancelled && m.steps.size() < 5);
  CHECK_SAYS(read_first(o), "open a new session");
  Opened again = open_session(classifier(true, DType::f32), {.spill_directory = d.path});
  CHECK(run(again, {.steps = 5}).steps.size() == 5);
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
  test("bad directories are refused", bad_directories);
  test("a full disk is refused when the session opens", disk_full);
  test("a limit on file sizes is refused, not a signal", file_size_limit);
  test("short and interrupted calls go on", short_calls_go_on);
  test("the disk fills up in the middle of a run", [] { calls_until_failure = 2; step_fails({full_pwrite, ::pread}, "No space left on device"); });
  test("a write that stops", [] { step_fails({no_pwrite, ::pread}, "writing the spill file stopped"); });
  test("a read error", [] { step_fails({::pwrite, broken_pread}, "reading the spill file failed at byte 0: Input/output error"); });
  test("a file that ends early", [] { step_fails({::pwrite, ended_pread}, "reading the spill file stopped"); });
  test("training through a spill file equals RAM", spilled_equals_ram);
  return finish();
}
