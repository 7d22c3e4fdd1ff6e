// The selection of a test program of the kernels. In: its arguments, names of operators or families (`kernels_tiles sigmoid`). Out: true if
// a case belongs to it. Without arguments all do.
#pragma once
#include <cctype>
#include <string>
#include <vector>

namespace spillway::test {

/// Letters and digits only: 'batchNorm' and 'batch norm' are one name.
inline std::string plain(const std::string& text) {
  std::string s;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c))) s += char(std::tolower(static_cast<unsigned char>(c)));
  return s;
}

inline std::vector<std::string>& patterns() {
  static std::vector<std::string> all;
  return all;
}

inline void ask_for(int argc, char** argv) {
  for (int i = 1; i < argc; i++) patterns().push_back(plain(argv[i]));
}

inline bool all_asked() { return patterns().empty(); }

inline bool is_asked(const std::string& name) {
  if (all_asked()) return true;
  const std::string is = plain(name);
  for (const std::string& pattern : patterns())
    if (is.find(pattern) != std::string::npos) return true;
  return false;
}

}  // namespace spillway::test
