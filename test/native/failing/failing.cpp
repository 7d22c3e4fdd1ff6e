// A file layer that fails, loaded before the C library (LD_PRELOAD). In: SPILLWAY_FAILING, `OPERATION KIND FIRST FOLDER`: from the FIRST
// call on, each WRITE, READ or SYNC of a file in FOLDER fails with an EIO, or (SHORT) moves a third of its bytes, in whole sectors if there
// are any. `@FILE` names a file with these words, which another process may change during the run (test/faults/layer.ts). Out: the C
// library's functions, everything else untouched. Rings for asynchronous requests are reported as missing.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t SECTOR = 4096;

/// The words of a fault, the calls that it has seen, and those that it has hit. layer.ts writes the same layout.
struct Words {
  std::atomic<long> seen{0}, hit{0};
  char text[PATH_MAX] = "";
};

enum class Fate { none, fails, moves_less };

struct Fault {
  Words own;
  Words* words = &own;
  const bool used = std::getenv("SPILLWAY_FAILING") != nullptr;

  Fault() {
    const char* text = used ? std::getenv("SPILLWAY_FAILING") : "";
    if (text[0] != '@') {
      std::snprintf(own.text, sizeof own.text, "%s", text);
      return;
    }
    const int fd = open(text + 1, O_RDWR);
    void* shared = fd < 0 ? MAP_FAILED : mmap(nullptr, sizeof(Words), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED) std::abort();
    words = static_cast<Words*>(shared);
  }
  Fate of(const char* call, int fd) {
    char operation[8], kind[8], folder[PATH_MAX], link[64], path[PATH_MAX];
    long first = 0;
    if (std::sscanf(words->text, "%7s %7s %ld %4095s", operation, kind, &first, folder) != 4) return Fate::none;
    if (std::strcmp(operation, call) != 0) return Fate::none;
    std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    if (n <= 0) return Fate::none;
    path[n] = 0;
    if (std::strncmp(path, folder, std::strlen(folder)) != 0 || ++words->seen < first) return Fate::none;
    ++words->hit;
    return std::strcmp(kind, "SHORT") == 0 ? Fate::moves_less : Fate::fails;
  }
};

Fault& fault() {
  static Fault f;
  return f;
}

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

size_t third(size_t bytes) {
  const size_t part = bytes / 3;
  if (part >= SECTOR) return part / SECTOR * SECTOR;
  return bytes > SECTOR ? SECTOR : part > 0 && bytes % SECTOR != 0 ? part : bytes;
}

/// Does the operation, or fails in its place.
template <class Do>
ssize_t moved(const char* call, int fd, size_t bytes, Do perform) {
  const Fate fate = fault().of(call, fd);
  if (fate != Fate::fails) return perform(fate == Fate::none ? bytes : third(bytes));
  errno = EIO;
  return -1;
}

using Write = ssize_t (*)(int, const void*, size_t);
using Pwrite = ssize_t (*)(int, const void*, size_t, off64_t);
using Read = ssize_t (*)(int, void*, size_t);
using Pread = ssize_t (*)(int, void*, size_t, off64_t);
using Sync = int (*)(int);

int synced(const char* name, int fd) {
  if (fault().of("SYNC", fd) == Fate::none) return next<Sync>(name)(fd);
  errno = EIO;
  return -1;
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* from, size_t n) {
  return moved("WRITE", fd, n, [&](size_t part) { return next<Write>("write")(fd, from, part); });
}
ssize_t pwrite(int fd, const void* from, size_t n, off_t at) {
  return moved("WRITE", fd, n, [&](size_t part) { return next<Pwrite>("pwrite64")(fd, from, part, at); });
}
ssize_t pwrite64(int fd, const void* from, size_t n, off64_t at) {
  return moved("WRITE", fd, n, [&](size_t part) { return next<Pwrite>("pwrite64")(fd, from, part, at); });
}
ssize_t read(int fd, void* into, size_t n) {
  return moved("READ", fd, n, [&](size_t part) { return next<Read>("read")(fd, into, part); });
}
ssize_t pread(int fd, void* into, size_t n, off_t at) {
  return moved("READ", fd, n, [&](size_t part) { return next<Pread>("pread64")(fd, into, part, at); });
}
ssize_t pread64(int fd, void* into, size_t n, off64_t at) {
  return moved("READ", fd, n, [&](size_t part) { return next<Pread>("pread64")(fd, into, part, at); });
}
int fsync(int fd) { return synced("fsync", fd); }
int fdatasync(int fd) { return synced("fdatasync", fd); }

long syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& x : a) x = va_arg(list, long);
  va_end(list);
  if (number == SYS_io_uring_setup && fault().used) {
    errno = ENOSYS;
    return -1;
  }
  return next<long (*)(long, ...)>("syscall")(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
}
