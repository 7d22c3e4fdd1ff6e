// A test program in a few lines: test("name", [] { CHECK(...); }); and `return finish();` at the end of main. Prints each failure with its
// line, then `N passed, N failed`.
#pragma once
#include <cstdio>
#include <exception>
#include <string>

namespace spillway::testing {

inline int passed = 0, failed = 0;
inline bool current_ok = true;

inline bool check(bool ok, const char* what, const char* file, int line, const std::string& detail = {}) {
  if (!ok) {
    current_ok = false;
    std::printf("  %s:%d: %s%s%s\n", file, line, what, detail.empty() ? "" : ": ", detail.c_str());
  }
  return ok;
}

template <class Body>
void test(const char* name, Body body) {
  current_ok = true;
  try {
    body();
  } catch (const std::exception& e) {
    check(false, e.what(), "exception", 0);
  }
  current_ok ? passed++ : failed++;
  if (!current_ok) std::printf("FAILED %s\n", name);
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline int finish() {
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace spillway::testing

#define CHECK(condition) ::spillway::testing::check((condition), #condition, __FILE__, __LINE__)
/// The status is a refusal that says so.
#define CHECK_SAYS(status, part) \
  ::spillway::testing::check(::spillway::testing::contains((status).message, part), "says '" part "'", __FILE__, __LINE__, (status).message)
