// Convolutions whose weight comes laid out, for kernels that take it in PyTorch's order: it is put back into that order, in floats, in
// the workspace. In: an operator's entry. Out: one that takes either. Invariant: a plain weight's call is the entry's own.
#pragma once
#include "cpu/kernels.hpp"

namespace spillway::cpu {

constexpr int64_t LAID_ALIGN = 64;

/// The call with a plain weight, without data yet.
class PlainWeight {
 public:
  explicit PlainWeight(const KernelCall& c) : ins_(c.ins, c.ins + c.n_ins), call_(c) {
    View& w = ins_[1];
    w.dtype = DType::f32;
    for (int64_t d = 3, stride = 1; d >= 0; stride *= w.dims[d--]) w.strides[d] = stride;
    call_.ins = ins_.data();
  }
  PlainWeight(const PlainWeight&) = delete;
  const KernelCall& call() const { return call_; }
  /// Bytes of the laid-out weight, before the kernel's own workspace.
  int64_t bytes() const { return (ops::elements(ins_[1]) * int64_t(sizeof(float)) + LAID_ALIGN - 1) / LAID_ALIGN * LAID_ALIGN; }
  void put_back(const View& laid, void* workspace) {
    ins_[1].data = workspace;
    call_.workspace = static_cast<std::byte*>(workspace) + bytes();
    if (!ops::is_half(laid.dtype)) return put_back(laid, static_cast<const float*>(laid.data));
    ops::with_half(laid.dtype, [&](auto half) { put_back(laid, static_cast<const decltype(half)*>(laid.data)); });
  }

 private:
  template <class T>
  void put_back(const View& laid, const T* from) const {
    float* to = floats(ins_[1]);
    for (int64_t o = 0; o < laid.dims[0]; o++)
      for (int64_t i = 0; i < laid.dims[1]; i++)
        for (int64_t at = 0; at < laid.dims[2] * laid.dims[3]; at++)
          *to++ = float(from[(o * laid.dims[2] * laid.dims[3] + at) * laid.dims[1] + i]);
  }

  std::vector<View> ins_;
  KernelCall call_;
};

class LaidKernel final : public PreparedKernel {
 public:
  LaidKernel(std::unique_ptr<PreparedKernel> own, int64_t bytes) : own_(std::move(own)), bytes_(bytes) {}
  int64_t workspace_bytes() const override { return bytes_ + own_->workspace_bytes(); }
  void compile() override { own_->compile(); }
  void run(const KernelCall& c) override {
    PlainWeight plain(c);
    plain.put_back(c.ins[1], c.workspace);
    own_->run(plain.call());
  }

 private:
  std::unique_ptr<PreparedKernel> own_;
  int64_t bytes_;
};

inline bool has_laid_weight(const KernelCall& c) { return c.n_ins > 1 && ops::comes_laid(c.ins[1]); }

/// Own::entry, for laid weights too. The parameter is a type, because GCC 14 emits weak symbols for a reference into an anonymous
/// namespace. The linker would then join the entries of equal name of two files.
template <class Own>
constexpr KernelEntry either_weight() {
  return {[](const KernelCall& c, uint32_t most) -> Result<std::vector<Way>> {
            if (!has_laid_weight(c)) return Own::entry.ways(c, most);
            if (Status s = check(c); !s.ok()) return s;
            const PlainWeight plain(c);
            Result<std::vector<Way>> ways = Own::entry.ways(plain.call(), most);
            if (!ways.ok()) return ways;
            std::vector<Way> with = std::move(ways).value();
            for (Way& way : with) way.workspace_bytes += uint64_t(plain.bytes());
            return with;
          },
          [](const KernelCall& c) -> Result<std::unique_ptr<PreparedKernel>> {
            if (!has_laid_weight(c)) return Own::entry.prepare(c);
            if (Status s = check(c); !s.ok()) return s;
            const PlainWeight plain(c);
            Result<std::unique_ptr<PreparedKernel>> made = Own::entry.prepare(plain.call());
            if (!made.ok()) return made;
            return std::unique_ptr<PreparedKernel>(std::make_unique<LaidKernel>(std::move(made).value(), plain.bytes()));
          }};
}

}  // namespace spillway::cpu
