// A value, or the reason why there is none. In: nothing. Out: Status, Result<T>, and their makers: refuse(...), failed(code, ...)
// and within(status, ...) join their arguments into words. Invariant: no exceptions here; a Result holds exactly one of the two;
// decisions use the code, and the words are for people.
#pragma once
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <variant>

namespace spillway {

enum class Code : uint32_t {
  ok,
  illegal,  // what was asked for
  cancelled,
  out_of_memory,  // of the host or of a device
  io,
  device,  // it failed, or cannot be used here
};

// NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): the analysis does not follow the std::variant of Result
struct Status {
  Code code = Code::ok;
  std::string message = {};
  std::string file = {};  // that is at fault, where one is
  bool ok() const { return code == Code::ok; }
};

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
Status failed(Code code, const Parts&... parts) {
  return {code, text(parts...)};
}

template <class... Parts>
Status refuse(const Parts&... parts) {
  return failed(Code::illegal, parts...);
}

/// The same failure, as a file's; the words do not name it.
inline Status at_fault(std::string file, Status why) {
  why.file = std::move(file);
  return why;
}

/// The same failure, with words before its own.
template <class... Parts>
Status within(const Status& why, const Parts&... parts) {
  return {why.code, text(parts..., why.message), why.file};
}

template <class T>
class Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Status why) : held_(std::in_place_index<1>, std::move(why)) {}

  bool ok() const { return held_.index() == 0; }
  const T& value() const& { return std::get<0>(held_); }
  T& value() & { return std::get<0>(held_); }
  T&& value() && { return std::get<0>(std::move(held_)); }
  const Status& status() const { return std::get<1>(held_); }

 private:
  std::variant<T, Status> held_;
};

}  // namespace spillway
