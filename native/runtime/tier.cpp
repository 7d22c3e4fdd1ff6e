// The two tiers. A spill file is written with direct I/O where the file system has it: whole sectors go straight from and
// to the pool; the ragged end of a transfer goes through a bounce buffer, one for each direction, since each has one thread.
#include "runtime/tier.hpp"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "plan/tape.hpp"
#include "runtime/handles.hpp"
#include "runtime/memory.hpp"

namespace spillway {
namespace {

constexpr uint64_t sectors(uint64_t bytes) { return (bytes + SECTOR_BYTES - 1) / SECTOR_BYTES * SECTOR_BYTES; }

class RamTier final : public Tier {
 public:
  explicit RamTier(AddressRange range) : range_(std::move(range)) {}
  Status write(uint64_t offset, const std::byte* from, uint64_t bytes) override {
    std::memcpy(range_.data() + offset, from, bytes);
    return {};
  }
  Status read(uint64_t offset, std::byte* into, uint64_t bytes) override {
    std::memcpy(into, range_.data() + offset, bytes);
    return {};
  }

 private:
  AddressRange range_;
};

class SpillFile final : public Tier {
 public:
  SpillFile(File file, uint64_t bytes, const FileCalls& calls) : file_(std::move(file)), bytes_(bytes), calls_(calls) {}
  Status write(uint64_t offset, const std::byte* from, uint64_t bytes) override;
  Status read(uint64_t offset, std::byte* into, uint64_t bytes) override;
  uint64_t disk_bytes() const override { return bytes_; }

 private:
  struct alignas(SECTOR_BYTES) Sector { std::byte bytes[SECTOR_BYTES]; };

  template <class Move>
  Status move_sectors(const char* what, uint64_t offset, uint64_t bytes, Move move);

  File file_;
  uint64_t bytes_;
  FileCalls calls_;
  Sector write_bounce_{}, read_bounce_{};
};

/// Moves whole sectors; after a short call it goes on from the last whole sector.
template <class Move>
Status SpillFile::move_sectors(const char* what, uint64_t offset, uint64_t bytes, Move move) {
  constexpr uint64_t CALL_BYTES = uint64_t(1) << 30;
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t n = move(done, std::min(bytes - done, CALL_BYTES), off_t(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refuse(what, " the spill file failed at byte ", offset + done, ": ", system_error());
    const uint64_t whole = uint64_t(n) / SECTOR_BYTES * SECTOR_BYTES;
    if (whole == 0) return refuse(what, " the spill file stopped at byte ", offset + done, " after ", n, " of ", bytes - done, " bytes");
    done += whole;
  }
  return {};
}

Status SpillFile::write(uint64_t offset, const std::byte* from, uint64_t bytes) {
  const uint64_t whole = bytes / SECTOR_BYTES * SECTOR_BYTES;
  Status s = move_sectors("writing", offset, whole, [&](uint64_t done, size_t n, off_t at) { return calls_.pwrite(file_.fd(), from + done, n, at); });
  if (!s.ok() || whole == bytes) return s;
  std::memcpy(write_bounce_.bytes, from + whole, bytes - whole);
  return move_sectors("writing", offset + whole, SECTOR_BYTES, [&](uint64_t, size_t n, off_t at) { return calls_.pwrite(file_.fd(), write_bounce_.bytes, n, at); });
}

Status SpillFile::read(uint64_t offset, std::byte* into, uint64_t bytes) {
  const uint64_t whole = bytes / SECTOR_BYTES * SECTOR_BYTES;
  Status s = move_sectors("reading", offset, whole, [&](uint64_t done, size_t n, off_t at) { return calls_.pread(file_.fd(), into + done, n, at); });
  if (!s.ok() || whole == bytes) return s;
  s = move_sectors("reading", offset + whole, SECTOR_BYTES, [&](uint64_t, size_t n, off_t at) { return calls_.pread(file_.fd(), read_bounce_.bytes, n, at); });
  if (s.ok()) std::memcpy(into + whole, read_bounce_.bytes, bytes - whole);
  return s;
}

/// Without a name from the start where the file system can do that, else unlinked at once.
File create_nameless(const std::string& directory, int flags) {
  if (File file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600)); file) return file;
  std::string path = directory + "/spillway-XXXXXX";
  File file(::mkostemp(path.data(), O_CLOEXEC | flags));
  if (file) ::unlink(path.c_str());
  return file;
}

/// Over this limit the system would send a signal that ends the process.
Status check_file_limit(uint64_t bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) return {};
  return refuse("the spill file takes ", bytes, " bytes; this process may write files of at most ", uint64_t(limit.rlim_cur), " (ulimit -f)");
}

Status set_size(int fd, uint64_t bytes) {
  if (bytes == 0 || ::fallocate(fd, 0, 0, off_t(bytes)) == 0) return {};
  if ((errno == EOPNOTSUPP || errno == ENOSYS) && ::ftruncate(fd, off_t(bytes)) == 0) return {};
  return refuse("the spill file takes ", bytes, " bytes: ", system_error());
}

}  // namespace

const FileCalls SYSTEM_FILE_CALLS{::pwrite, ::pread};

Result<std::unique_ptr<Tier>> open_ram_tier(uint64_t bytes) {
  if (bytes == 0) return std::unique_ptr<Tier>(std::make_unique<RamTier>(AddressRange()));
  if (const uint64_t left = available_memory(); bytes > left)
    return refuse("the lower tier takes ", bytes, " bytes of memory, of which ", left, " are left: spill to a directory instead");
  AddressRange range = AddressRange::map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
  if (!range) return refuse("the lower tier takes ", bytes, " bytes of memory: ", system_error());
  ::madvise(range.data(), bytes, MADV_HUGEPAGE);
#ifdef MADV_POPULATE_WRITE
  // Older systems do not know the call: there the pages come at their first use.
  if (::madvise(range.data(), bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL)
    return refuse("the lower tier takes ", bytes, " bytes of memory: ", system_error());
#endif
  return std::unique_ptr<Tier>(std::make_unique<RamTier>(std::move(range)));
}

Result<std::unique_ptr<Tier>> open_spill_file(const std::string& directory, uint64_t bytes, const FileCalls& calls) {
  const uint64_t size = sectors(bytes);
  if (Status s = check_file_limit(size); !s.ok()) return refuse("spill directory ", directory, ": ", s.message);
  File file = create_nameless(directory, O_DIRECT);
  if (!file) file = create_nameless(directory, 0);
  if (!file) return refuse("spill directory ", directory, ": ", system_error());
  if (Status s = set_size(file.fd(), size); !s.ok()) return refuse("spill directory ", directory, ": ", s.message);
  return std::unique_ptr<Tier>(std::make_unique<SpillFile>(std::move(file), size, calls));
}

}  // namespace spillway
