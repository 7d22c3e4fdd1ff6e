// Tells if a process ended with teardown: libraries' destructors, which free memory that threads may still use. In: loaded first
// (LD_PRELOAD). Out: a file of the name in TORN_DOWN, once destructors have run.
#include <cstdio>
#include <cstdlib>

namespace {
struct Teller {
  ~Teller() {
    const char* file = std::getenv("TORN_DOWN");
    if (FILE* f = file ? std::fopen(file, "w") : nullptr) std::fclose(f);
  }
};
Teller teller;
}  // namespace
