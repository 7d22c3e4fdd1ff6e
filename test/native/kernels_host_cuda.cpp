// The conformance that a GPU is held to, on the imitated CUDA: kernels_cuda by itself, in every precision, some of its cases; products
// once more where neither cuDNN nor cuBLAS has an engine for any, on the device's own kernels.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "test/native/checking.hpp"

using namespace spillway::testing;

#ifdef SPILLWAY_HOST_CUDA
namespace {

enum class Engines { all, none };

void in(const std::string& program, const char* precision, Engines engines = Engines::all) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("SPILLWAY_CUDA", SPILLWAY_HOST_CUDA, 1);
    ::setenv("SPILLWAY_TEST_DEVICE", "cuda", 1);
    ::setenv("SPILLWAY_TEST_PRECISION", precision, 1);
    if (!std::getenv("SPILLWAY_TEST_SHARE")) ::setenv("SPILLWAY_TEST_SHARE", std::getenv("SPILLWAY_FULL") ? "1" : "20", 1);
    if (engines == Engines::none) {
      ::setenv("SPILLWAY_HOST_CUDA_NO_ENGINES", "1", 1);
      ::execl(program.c_str(), program.c_str(), "conv", "linear", static_cast<char*>(nullptr));
    } else {
      ::execl(program.c_str(), program.c_str(), static_cast<char*>(nullptr));
    }
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace

int main(int, char** argv) {
  const std::string self = argv[0], program = self.substr(0, self.rfind('/') + 1) + "kernels_cuda";
  for (const char* precision : {"fp32", "tf32", "bf16", "fp16"}) test(precision, [&] { in(program, precision); });
  for (const char* precision : {"fp32", "bf16", "fp16"})
    test((std::string("without engines in ") + precision).c_str(), [&] { in(program, precision, Engines::none); });
  return finish();
}
#else
int main() {
  test("skipped: the headers of CUDA, cuDNN and cuBLAS are not here", [] {});
  return finish();
}
#endif
