// spill_rate DIRECTORY [GIB]: how fast a spill file there is written and read, by so many requests of so many bytes at once.
// Out: a JSON line for each way: the file's first writes, writes, reads, and both at once, in bytes a second.
// Invariant: direct I/O on a file of its own that is set aside beforehand, as a spill file is; it is gone afterwards.
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "runtime/clock.hpp"
#include "runtime/handles.hpp"
#include "runtime/tier_requests.hpp"

using namespace spillway;

namespace {

struct Way {
  const char* name;
  OpenRequests open;
  uint32_t depth;
  uint64_t bytes;
};
constexpr uint64_t MIB = uint64_t(1) << 20;

/// Bytes a second of [from, to); 0 when a request failed.
double rate(int fd, const Way& way, bool write, std::byte* memory, uint64_t from, uint64_t to) {
  auto opened = way.open(fd, way.depth);
  if (!opened.ok()) return 0;
  Requests& requests = *opened.value();
  const Clock::time_point start = Clock::now();
  uint64_t next = from, done = from;
  const auto submit = [&](uint32_t slot) {
    requests.submit(slot, {write, next, memory + (next - from) % (64 * MIB), way.bytes});
    next += way.bytes;
  };
  for (uint32_t slot = 0; slot < way.depth && next < to; slot++) submit(slot);
  while (done < to) {
    const Completion c = requests.wait();
    if (c.result != int64_t(way.bytes)) return 0;
    done += way.bytes;
    if (next < to) submit(c.slot);
  }
  return double(to - from) / seconds_since(start);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = std::string(argc > 1 ? argv[1] : ".") + "/spill-rate.tmp";
  const uint64_t bytes = uint64_t((argc > 2 ? std::atof(argv[2]) : 0.25) * 1024) * MIB, half = bytes / 2;
  const AddressRange memory = AddressRange::map(128 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE);
  constexpr Way WAYS[] = {{"one at a time", open_request_threads, 1, 8 * MIB},
                          {"threads", open_request_threads, 6, 2 * MIB},
                          {"io_uring", open_uring, 1, 8 * MIB},
                          {"io_uring", open_uring, 2, 4 * MIB},
                          {"io_uring", open_uring, 6, 2 * MIB}};
  for (const Way& way : WAYS) {
    const File file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_DIRECT | O_CLOEXEC, 0600));
    if (!file || ::fallocate(file.fd(), 0, 0, off_t(bytes)) != 0) {
      std::fprintf(stderr, "%s: %s\n", path.c_str(), system_error().c_str());
      return 1;
    }
    ::unlink(path.c_str());
    const double first = rate(file.fd(), way, true, memory.data(), 0, bytes), write = rate(file.fd(), way, true, memory.data(), 0, bytes);
    const double read = rate(file.fd(), way, false, memory.data(), 0, bytes);
    double both_write = 0;
    std::thread writer([&] { both_write = rate(file.fd(), way, true, memory.data(), 0, half); });
    const double both_read = rate(file.fd(), way, false, memory.data() + 64 * MIB, half, bytes);
    writer.join();
    std::printf(
        "{\"way\": \"%s\", \"depth\": %u, \"requestBytes\": %llu, \"firstWrite\": %.0f, \"write\": %.0f, \"read\": %.0f, \"bothWrite\": "
        "%.0f, \"bothRead\": %.0f}\n",
        way.name, way.depth, static_cast<unsigned long long>(way.bytes), first, write, read, both_write, both_read);
  }
  return 0;
}
