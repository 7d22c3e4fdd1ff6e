// Counts checks, prints the failed ones, ends a test program.
#pragma once
#include <cstdio>
#include <string>

namespace spillway::test {

class Report {
 public:
  enum Prints { FAILURES, SILENT };
  explicit Report(Prints prints = FAILURES) : prints_(prints) {}

  void check(bool ok, const std::string& what) {
    (ok ? passed_ : failed_)++;
    if (!ok && failed_ <= 40 && prints_ == FAILURES) std::printf("FAILED %s\n", what.c_str());
  }
  int failed() const { return failed_; }
  /// Prints the totals; the exit code. A program that checked nothing has failed, unless it was asked for some cases only.
  int finish(bool may_be_empty = false) const {
    std::printf("%d passed, %d failed\n", passed_, failed_);
    return failed_ == 0 && (passed_ > 0 || may_be_empty) ? 0 : 1;
  }

 private:
  const Prints prints_;
  int passed_ = 0, failed_ = 0;
};

}  // namespace spillway::test
