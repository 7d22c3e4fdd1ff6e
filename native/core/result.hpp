// A value or the reason why there is none. In: nothing. Out: Result<T>, and refuse(...), which joins its arguments into
// a Status. Invariant: no exceptions here; a Result holds exactly one of the two.
#pragma once
#include <sstream>
#include <string>
#include <utility>
#include <variant>

namespace spillway {

/// Empty message: it went well.
struct Status {
  std::string message;
  bool ok() const { return message.empty(); }
  static Status error(std::string m) { return Status{std::move(m)}; }
};

template <class... Parts>
std::string text(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class... Parts>
Status refuse(const Parts&... parts) {
  return Status::error(text(parts...));
}

template <class T>
class Result {
 public:
  Result(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Result(Status why) : held_(std::in_place_index<1>, std::move(why)) {}

  bool ok() const { return held_.index() == 0; }
  const T& value() const& { return std::get<0>(held_); }
  T&& value() && { return std::get<0>(std::move(held_)); }
  const Status& status() const { return std::get<1>(held_); }

 private:
  std::variant<T, Status> held_;
};

}  // namespace spillway
