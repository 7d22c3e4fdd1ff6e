// The spill file: direct I/O if the file system has it, so that whole sectors move between the pool and the disk, several
// requests at a time. The ragged end of a part uses a sector buffer. In: parts. Out: the same, moved. Invariant: after a
// short request, the rest is requested; a truncated file is noticed before holes are read.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "gen/wire.h"
#include "runtime/handles.hpp"
#include "runtime/tier.hpp"

namespace spillway {
namespace {

constexpr uint64_t sectors(uint64_t bytes) { return (bytes + SECTOR_BYTES - 1) / SECTOR_BYTES * SECTOR_BYTES; }

/// The requests in flight that keep a disk busy, and the bytes of each.
constexpr uint32_t DEPTH = 6;
constexpr uint64_t REQUEST_BYTES = uint64_t(2) << 20;
static_assert(REQUEST_BYTES % SECTOR_BYTES == 0);

struct SpillPlace {
  File file;
  std::string directory;
  uint64_t bytes = 0;
  /// As the system counted them when the file was set aside; 0: it sets nothing aside.
  uint64_t blocks = 0;
};

std::string remedy(int error) {
  if (error == ENOSPC || error == EDQUOT) return "; free disk space, or choose another folder with --spill";
  if (error == EFBIG) return "; raise the limit on file sizes (ulimit -f)";
  if (error == EIO) return "; the disk fails: check the system log, and choose another folder with --spill";
  return "; choose another folder with --spill";
}

constexpr const char* AFTERWARDS = " (the weights are in the last checkpoint; --resume continues from it)";

class FileChannel final : public Channel {
 public:
  FileChannel(const SpillPlace& place, bool out, std::unique_ptr<Requests> requests)
      : place_(place), out_(out), bounces_(DEPTH), slots_(DEPTH), requests_(std::move(requests)) {}
  uint64_t part_bytes() const override { return REQUEST_BYTES; }
  uint32_t room() const override { return DEPTH - under_way_; }
  void start(uint64_t tag, const Part& part) override;
  Moved finish() override;

 private:
  struct alignas(SECTOR_BYTES) Sector {
    std::byte bytes[SECTOR_BYTES];
  };
  struct Slot {
    bool busy = false;
    uint64_t tag = 0, done = 0;
    Part part;
    uint64_t whole() const { return part.bytes / SECTOR_BYTES * SECTOR_BYTES; }
  };

  void ask(uint32_t slot);
  /// Returns true if the part has ended, with or without an error.
  bool advance(uint32_t slot, int64_t result, Status& status);
  Status failure(const Slot& s, int error) const;
  Status stopped(const Slot& s, int64_t after) const;
  Status still_whole() const;

  const SpillPlace& place_;
  const bool out_;
  std::vector<Sector> bounces_;
  std::vector<Slot> slots_;
  uint32_t under_way_ = 0;
  std::unique_ptr<Requests> requests_;  // last: its requests use the others
};

void FileChannel::start(uint64_t tag, const Part& part) {
  const auto free = std::find_if(slots_.begin(), slots_.end(), [](const Slot& s) { return !s.busy; });
  *free = {true, tag, 0, part};
  under_way_++;
  ask(uint32_t(free - slots_.begin()));
}

/// The rest of its whole sectors, then the ragged end.
void FileChannel::ask(uint32_t slot) {
  const Slot& s = slots_[slot];
  const uint64_t at = s.part.offset + s.done, whole = s.whole();
  constexpr uint64_t MOST = uint64_t(1) << 30;
  if (s.done < whole) return requests_->submit(slot, {out_, at, s.part.at + s.done, std::min(whole - s.done, MOST)});
  if (out_) std::memcpy(bounces_[slot].bytes, s.part.at + s.done, s.part.bytes - s.done);
  requests_->submit(slot, {out_, at, bounces_[slot].bytes, SECTOR_BYTES});
}

Status FileChannel::failure(const Slot& s, int error) const {
  return failed(Code::io, out_ ? "writing" : "reading", " the spill file in ", place_.directory, " failed at byte ", s.part.offset + s.done,
                ": ", std::strerror(error), remedy(error), AFTERWARDS);
}

Status FileChannel::stopped(const Slot& s, int64_t after) const {
  return failed(Code::io, out_ ? "writing" : "reading", " the spill file in ", place_.directory, " stopped at byte ",
                s.part.offset + s.done, " after ", after, " of ", s.part.bytes - s.done, " bytes", remedy(0), AFTERWARDS);
}

/// Truncation leaves holes that read as zeros after the file has grown again.
Status FileChannel::still_whole() const {
  struct stat now {};
  if (::fstat(place_.file.fd(), &now) == 0 && uint64_t(now.st_size) >= place_.bytes && uint64_t(now.st_blocks) >= place_.blocks) return {};
  return failed(Code::io, "the spill file in ", place_.directory, " was truncated by another process: it has ", uint64_t(now.st_size),
                " of ", place_.bytes, " bytes", remedy(0), AFTERWARDS);
}

/// After a short request the part goes on from its last whole sector.
bool FileChannel::advance(uint32_t slot, int64_t result, Status& status) {
  Slot& s = slots_[slot];
  if (result == -EINTR || result == -EAGAIN) {
    ask(slot);
    return false;
  }
  const uint64_t moved = result < 0 ? 0 : uint64_t(result) / SECTOR_BYTES * SECTOR_BYTES;
  if (moved == 0) {
    status = result < 0 ? failure(s, int(-result)) : stopped(s, result);
    return true;
  }
  if (!out_ && s.done >= s.whole()) std::memcpy(s.part.at + s.done, bounces_[slot].bytes, s.part.bytes - s.done);
  s.done += moved;
  if (s.done < s.part.bytes) {
    ask(slot);
    return false;
  }
  if (!out_) status = still_whole();
  return true;
}

Moved FileChannel::finish() {
  while (true) {
    const Completion c = requests_->wait();
    Status status;
    if (!advance(c.slot, c.result, status)) continue;
    slots_[c.slot].busy = false;
    under_way_--;
    return {slots_[c.slot].tag, std::move(status)};
  }
}

class SpillFile final : public Tier {
 public:
  static Result<std::unique_ptr<Tier>> open(SpillPlace place, OpenRequests open) {
    std::unique_ptr<SpillFile> f(new SpillFile(std::move(place)));
    for (const bool out : {true, false}) {
      auto requests = open(f->place_.file.fd(), DEPTH);
      if (!requests.ok()) return requests.status();
      (out ? f->out_ : f->in_) = std::make_unique<FileChannel>(f->place_, out, std::move(requests).value());
    }
    return std::unique_ptr<Tier>(std::move(f));
  }
  Channel& out() override { return *out_; }
  Channel& in() override { return *in_; }
  uint64_t disk_bytes() const override { return place_.bytes; }

 private:
  explicit SpillFile(SpillPlace place) : place_(std::move(place)) {}
  const SpillPlace place_;
  std::unique_ptr<FileChannel> out_, in_;
};

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
  return failed(Code::io, "the spill file needs ", bytes, " bytes; this process may write files of at most ", uint64_t(limit.rlim_cur),
                " (ulimit -f)");
}

/// Returns false if the file system reports fewer free bytes. Some allocate all of them before they fail, and other programs then meet a
/// full disk. A file system without a size reports no blocks.
bool has_room(int fd, uint64_t bytes) {
  struct statvfs s {};
  return ::fstatvfs(fd, &s) != 0 || s.f_blocks == 0 || bytes / s.f_frsize <= s.f_bavail;
}

Status set_size(SpillPlace& place) {
  const int fd = place.file.fd();
  if (place.bytes == 0) return {};
  if (!has_room(fd, place.bytes)) {
    errno = ENOSPC;
  } else if (::fallocate(fd, 0, 0, off_t(place.bytes)) == 0) {
    struct stat s {};
    constexpr uint64_t BLOCK = 512;  // of st_blocks, whatever the file system has
    if (::fstat(fd, &s) == 0 && uint64_t(s.st_blocks) >= place.bytes / BLOCK) place.blocks = place.bytes / BLOCK;
    return {};
  }
  if ((errno == EOPNOTSUPP || errno == ENOSYS) && ::ftruncate(fd, off_t(place.bytes)) == 0) return {};
  const int error = errno;
  return failed(Code::io, "the spill file needs ", place.bytes, " bytes: ", std::strerror(error), remedy(error));
}

}  // namespace

Result<std::unique_ptr<Tier>> open_spill_file(const std::string& directory, uint64_t bytes, OpenRequests open) {
  SpillPlace place{File(), directory, sectors(bytes), 0};
  if (Status s = check_file_limit(place.bytes); !s.ok()) return within(s, "spill directory ", directory, ": ");
  place.file = create_nameless(directory, O_DIRECT);
  if (!place.file) place.file = create_nameless(directory, 0);
  if (!place.file) return failed(Code::io, "spill directory ", directory, ": ", system_error());
  if (Status s = set_size(place); !s.ok()) return within(s, "spill directory ", directory, ": ");
  return SpillFile::open(std::move(place), open);
}

}  // namespace spillway
