// oneDNN primitives on memory that the plan owns. In: an operation on operands in the formats that our views have.
// Out: a primitive with the reorders that it wants, all scratch in one workspace. Sizes are known from the description alone; code
// is generated when it is prepared.
// Invariant: never a reference implementation (a thousand times slower), never memory of oneDNN's own.
#pragma once
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cpu/onednn_version.hpp"
#include "cpu/pointwise_weights.hpp"

namespace spillway::cpu {

inline dnnl::memory::desc f32_desc(const dnnl::memory::dims& dims, dnnl::memory::format_tag tag) {
  return {dims, dnnl::memory::data_type::f32, tag};
}
/// The factors of products if activations are bf16.
inline dnnl::memory::desc factor_desc(bool bf16, const dnnl::memory::dims& dims, dnnl::memory::format_tag tag) {
  return {dims, bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32, tag};
}

inline bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }
inline bool trust_all(const std::string&) { return true; }

/// The first implementation that is not a reference one and whose name is trusted; none when oneDNN has no other.
template <class Primitive, class Trusts, class Arguments, class... Forward>
auto fast_implementation(const Trusts& trusts, const Arguments& arguments, const Forward&... forward) {
  using Found = std::optional<typename Primitive::primitive_desc>;
  const auto first_fast = [&](auto description) -> Found {
    do {
      if (const std::string name = description.impl_info_str(); !contains(name, "ref") && trusts(name)) return description;
    } while (description.next_impl());
    return std::nullopt;
  };
  try {
    return with_description<Primitive>(first_fast, arguments, forward...);
  } catch (const dnnl::error& e) {
    if (e.status != dnnl_unimplemented) throw;
    return Found();
  }
}

/// Places in one workspace, each at a multiple of 64 bytes.
class WorkspaceLayout {
 public:
  int64_t place(int64_t bytes) {
    const int64_t offset = bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return offset;
  }
  int64_t place(const dnnl::memory::desc& desc) { return place(int64_t(desc.get_size())); }
  int64_t bytes() const { return bytes_; }

 private:
  int64_t bytes_ = 0;
};

/// One operand of a primitive: as our memory holds it, and as the primitive wants it.
struct Argument {
  int id;
  dnnl::memory::desc ours, wanted;
  bool written;
};

/// A primitive with its reorders and scratch laid out in one workspace.
class Compiled {
 public:
  using MakePrimitive = std::function<dnnl::primitive()>;
  Compiled(MakePrimitive make, const dnnl::memory::desc& scratchpad, const std::vector<Argument>& arguments);

  int64_t workspace_bytes() const { return layout_.bytes(); }
  /// Generates the code, once.
  void prepare() const;

 private:
  friend class Bound;
  struct Placed {
    Argument argument;
    std::optional<dnnl::reorder::primitive_desc> reorder;  // where ours is not what is wanted
    pointwise_weights::Panels panels;                      // that our own way leads to
    int64_t offset = 0, scratch = 0;
  };
  struct Code {
    std::once_flag once;
    dnnl::primitive primitive;
    std::vector<dnnl::reorder> reorders;  // one for each argument; empty ones where none is due
  };

  MakePrimitive make_;
  dnnl::memory::desc scratchpad_;
  std::vector<Placed> placed_;
  WorkspaceLayout layout_;
  int64_t scratch_ = 0;
  std::shared_ptr<Code> code_ = std::make_shared<Code>();
};

/// A compiled primitive with memory objects of its own, for one prepared call: used by one thread at a time.
class Bound {
 public:
  explicit Bound(const Compiled& compiled);
  /// Data pointers in the order of the arguments.
  void run(std::span<void* const> data, void* workspace);

 private:
  struct Operand {
    dnnl::memory used, ours, scratch;  // what the primitive sees; where it differs, what we have and the reorder's scratch
  };
  void reorder(size_t i, const dnnl::memory& from, const dnnl::memory& to);

  const Compiled& compiled_;
  dnnl::memory scratchpad_;
  std::vector<Operand> operands_;
  std::vector<dnnl_exec_arg_t> arguments_;
};

/// A cache of values by operator, sizes, attributes and threads. A value is shared as long as it is in use. It is safe from any thread.
template <class Value>
class Shared {
 public:
  using Key = std::vector<int64_t>;
  template <class Make>
  std::shared_ptr<const Value> get(const Key& key, const Make& make) {
    const std::lock_guard lock(mutex_);
    std::weak_ptr<const Value>& known = values_[key];
    if (std::shared_ptr<const Value> value = known.lock()) return value;
    auto value = std::make_shared<const Value>(make());
    known = value;
    if (values_.size() > bound_) {
      std::erase_if(values_, [](const auto& entry) { return entry.second.expired(); });
      bound_ = std::max(least_bound, 2 * values_.size());
    }
    return value;
  }

 private:
  static constexpr size_t least_bound = 256;
  std::mutex mutex_;
  std::map<Key, std::weak_ptr<const Value>> values_;
  size_t bound_ = least_bound;
};

}  // namespace spillway::cpu
