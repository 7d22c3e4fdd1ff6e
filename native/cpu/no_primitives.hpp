// Stands for oneDNN's primitives if the cpu device is built without it (SPILLWAY_ONEDNN=OFF): it makes none. The reference computes
// products, and convolutions without a kernel here: right, and slow.
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
