// Removes shared memory that Open MPI left behind in a run that was killed. In: a folder. Out: the folder without its unused segments.
// Invariant: a file stays unless it belongs to this user and the kernel grants a write lease on it. Linux refuses that lease while any
// process has the file open or mapped for writing, in any container; a file system without leases keeps its files.
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>

namespace spillway {

/// The names that Open MPI 2 to 4 (vader) and 5 (sm) give their segments.
inline bool is_segment(const char* name) {
  return std::strncmp(name, "vader_segment.", 14) == 0 || std::strncmp(name, "sm_segment.", 11) == 0;
}

inline void remove_if_unused(int folder, const char* name) {
  const int file = ::openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  struct stat opened {
  }, named{};
  // A rank that opens the file meanwhile breaks the lease. Its signal is one that is ignored by default.
  if (::fstat(file, &opened) == 0 && S_ISREG(opened.st_mode) && opened.st_uid == ::geteuid() && ::fcntl(file, F_SETSIG, SIGURG) == 0 &&
      ::fcntl(file, F_SETLEASE, F_WRLCK) == 0 && ::fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_ino == opened.st_ino)
    ::unlinkat(folder, name, 0);
  ::close(file);
}

inline void remove_leftovers(const char* folder) {
  const auto close = [](DIR* d) { ::closedir(d); };
  const std::unique_ptr<DIR, decltype(close)> entries(::opendir(folder), close);
  if (!entries) return;
  while (const dirent* const entry = ::readdir(entries.get()))
    if (is_segment(entry->d_name)) remove_if_unused(::dirfd(entries.get()), entry->d_name);
}

}  // namespace spillway
