// What stands for oneDNN's primitives where the cpu device is built without it (SPILLWAY_ONEDNN=OFF): none is ever made. Convolutions that
// no kernel of ours computes, and products, are the reference's: right, and slow.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace spillway::cpu {

struct Compiled {
  int64_t workspace_bytes() const { return 0; }
  void prepare() const {}
};

struct Bound {
  explicit Bound(const Compiled&) {}
};

}  // namespace spillway::cpu
