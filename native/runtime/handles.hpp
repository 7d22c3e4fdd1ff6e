// Owners of system resources: a file descriptor, a range of addresses. Each frees its resource at its end.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace spillway {

inline std::string system_error() { return std::strerror(errno); }

class File {
 public:
  File() = default;
  explicit File(int fd) : fd_(fd) {}
  File(File&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  File& operator=(File&& o) noexcept {
    std::swap(fd_, o.fd_);
    return *this;
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

class AddressRange {
 public:
  AddressRange() = default;
  /// Empty when the system has no such range.
  static AddressRange map(size_t bytes, int protection, int flags) { return map_file(bytes, protection, flags, -1, 0); }
  static AddressRange map_file(size_t bytes, int protection, int flags, int fd, off_t offset) {
    void* at = ::mmap(nullptr, bytes, protection, flags, fd, offset);
    return at == MAP_FAILED ? AddressRange() : AddressRange(at, bytes);
  }
  AddressRange(AddressRange&& o) noexcept : at_(std::exchange(o.at_, nullptr)), bytes_(std::exchange(o.bytes_, 0)) {}
  AddressRange& operator=(AddressRange&& o) noexcept {
    std::swap(at_, o.at_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~AddressRange() {
    if (at_) ::munmap(at_, bytes_);
  }
  std::byte* data() const { return static_cast<std::byte*>(at_); }
  size_t bytes() const { return bytes_; }
  explicit operator bool() const { return at_ != nullptr; }

 private:
  AddressRange(void* at, size_t bytes) : at_(at), bytes_(bytes) {}
  void* at_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace spillway
