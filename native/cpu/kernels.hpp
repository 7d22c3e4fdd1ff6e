// The cpu device: f32 and bf16, oneDNN for convolutions and products, own OpenMP kernels for the rest; f16 by copies in f32.
// In: a call. Out: a kernel prepared for it, which gives the same bits each time for one thread count. Invariant: every exception
// ends as a Status that names the operator and its shapes; a missing operator is a link error.
#pragma once
#include <cstdio>
#include <stdexcept>
#include <type_traits>

#include "core/half.hpp"
#include "ops/as_floats.hpp"
#include "ops/check.hpp"

namespace spillway::cpu {

#define SPILLWAY_DECLARE(kind, wire) extern const KernelEntry kind;
SPILLWAY_OPS(SPILLWAY_DECLARE)
#undef SPILLWAY_DECLARE

/// The thread count of OpenMP. It belongs to the calling thread: the value that set_threads() got
/// there.
int use_threads();

/// Returns true if the processor multiplies bf16. Otherwise fp32 is faster than an imitation.
bool has_bf16();

inline float* floats(const View& v) { return static_cast<float*>(v.data); }

/// An operator that needs no scratch; others hide this member with their own. One with things to work out beforehand is an object
/// instead: made from a call, with `workspace_bytes()`, `run(call)` and, where there is code to generate, `compile()`.
struct PlainKernel {
  static int64_t workspace(const KernelCall&) { return 0; }
};

template <class Op>
concept Worked = std::is_constructible_v<Op, const KernelCall&>;

/// A way beside the first says `name`, which calls it `applies` to and, of these, for which it is `worthwhile`.
template <class Op>
constexpr const char* name_of() {
  if constexpr (requires { Op::name; })
    return Op::name;
  else
    return "direct";
}
template <class Op>
bool applies(const KernelCall& c) {
  if constexpr (requires { Op::applies(c); })
    return Op::applies(c);
  else
    return true;
}
template <class Op>
bool worthwhile(const KernelCall& c) {
  if constexpr (requires { Op::worthwhile(c); })
    return Op::applies(c) && Op::worthwhile(c);
  else
    return true;
}

/// Legal shapes, f32 or bf16 where the processor has it.
inline Status check(const KernelCall& c) {
  if (Status s = ops::check(c); !s.ok()) return s;
  if (ops::float_type(c) == DType::f64) return ops::refuse(c, "the cpu device computes in f32");
  return ops::is_bf16(c) && !has_bf16() ? ops::refuse(c, "this processor has no bf16 arithmetic (avx512_bf16)") : Status{};
}

/// Runs f, turning an exception of a library into a failure.
template <class F>
Status guarded(const KernelCall& c, F f) {
  try {
    f();
    return {};
  } catch (const std::exception& e) {
    return ops::refuse(c, e.what());
  }
}

template <class Op>
class Plain final : public PreparedKernel {
 public:
  explicit Plain(const KernelCall& c) : workspace_bytes_(Op::workspace(c)), run_(function_for(c)) {}
  int64_t workspace_bytes() const override { return workspace_bytes_; }
  void run(const KernelCall& c) override { run_(c); }

 private:
  using Run = void (*)(const KernelCall&);
  /// An operator that is written for both element types of activations is `run<T>`.
  static Run function_for(const KernelCall& c) {
    if constexpr (requires { Op::template run<float>(c); })
      return ops::is_bf16(c) ? Run(Op::template run<Bf16>) : Run(Op::template run<float>);
    else
      return Op::run;
  }
  int64_t workspace_bytes_;
  Run run_;
};

template <class Op>
class Object final : public PreparedKernel {
 public:
  explicit Object(const KernelCall& c) : op_(c) {}
  int64_t workspace_bytes() const override { return op_.workspace_bytes(); }
  void compile() override {
    if constexpr (requires { op_.compile(); }) op_.compile();
  }
  void run(const KernelCall& c) override { op_.run(c); }

 private:
  Op op_;
};

template <class Op>
std::unique_ptr<PreparedKernel> prepared(const KernelCall& c) {
  if constexpr (Worked<Op>)
    return std::make_unique<Object<Op>>(c);
  else
    return std::make_unique<Plain<Op>>(c);
}

/// A call in f16, by the kernel of the same call in floats. Scratch: the copies in floats, then the kernel's own.
class InFloats final : public PreparedKernel {
 public:
  using Floats = ops::AsFloats<float>;
  /// Bytes of the copies, as plans align scratch.
  static int64_t copied_bytes(const KernelCall& c) { return (Floats::elements(c) * int64_t(sizeof(float)) + 63) / 64 * 64; }

  InFloats(const KernelCall& c, std::unique_ptr<PreparedKernel> inner) : copied_(copied_bytes(c)), inner_(std::move(inner)) {}
  int64_t workspace_bytes() const override { return copied_ + inner_->workspace_bytes(); }
  void compile() override { inner_->compile(); }
  void run(const KernelCall& c) override {
    Floats floats(c, static_cast<float*>(c.workspace));
    floats.call().workspace = static_cast<std::byte*>(c.workspace) + copied_;
    inner_->run(floats.call());
    floats.store();
  }

 private:
  int64_t copied_;
  std::unique_ptr<PreparedKernel> inner_;
};

/// Gives f the call, or if it is in f16 the same in floats, without data.
template <class F>
auto in_floats(const KernelCall& c, F f) {
  if (ops::stored_type(c) != DType::f16) return f(c);
  InFloats::Floats floats(c, nullptr);
  return f(floats.call());
}

template <class Op>
int64_t workspace_of(const KernelCall& c) {
  if constexpr (Worked<Op>)
    return Op(c).workspace_bytes();
  else
    return Op::workspace(c);
}

template <class Op>
void describe(const KernelCall& c, uint32_t number, uint32_t most, std::vector<Way>& into) {
  if (into.size() >= most || !worthwhile<Op>(c)) return;
  Way way{number, true, uint64_t(workspace_of<Op>(c)), {}};
  std::snprintf(way.name, sizeof way.name, "%s", name_of<Op>());
  into.push_back(way);
}

/// An entry from its ways, in the order of their numbers.
template <class First, class... Others>
constexpr KernelEntry entry() {
  return {[](const KernelCall& given, uint32_t most) -> Result<std::vector<Way>> {
            if (Status s = check(given); !s.ok()) return s;
            return in_floats(given, [&](const KernelCall& c) -> Result<std::vector<Way>> {
              std::vector<Way> ways;
              uint32_t number = 0;
              if (Status s = guarded(c, [&] { describe<First>(c, number, most, ways); }); !s.ok()) return s;
              // One for which a library has nothing is left out.
              ((number++, guarded(c, [&] { describe<Others>(c, number, most, ways); })), ...);
              if (&c != &given)
                for (Way& way : ways) way.workspace_bytes += uint64_t(InFloats::copied_bytes(given));
              return ways;
            });
          },
          [](const KernelCall& given) -> Result<std::unique_ptr<PreparedKernel>> {
            if (Status s = check(given); !s.ok()) return s;
            return in_floats(given, [&](const KernelCall& c) -> Result<std::unique_ptr<PreparedKernel>> {
              std::unique_ptr<PreparedKernel> made;
              const Status s = guarded(c, [&] {
                uint32_t number = 0;
                if (c.way == number) made = prepared<First>(c);
                ((c.way == ++number && applies<Others>(c) ? void(made = prepared<Others>(c)) : void()), ...);
              });
              if (!s.ok()) return s;
              if (!made) return ops::refuse(c, "the cpu device has no kernel of this number for it");
              return &c == &given ? std::move(made) : std::make_unique<InFloats>(given, std::move(made));
            });
          }};
}

}  // namespace spillway::cpu
