// cuDNN's backend: descriptors that are checked as they are set and finalized, a heuristic that names engines good and bad, and execution.
// An engine that the plugin must leave out (its notes tell why) computes something wrong. The rules follow cuDNN 9's answers for an H200: a
// bias only in the stored type, no rectifier with a slope, gradients of weights in the type of the factors. Worked example: tf32, forward,
// alone: loose, tensor core, exact, exact with scratch; and five that must not be taken.
#include <cudnn.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "test/native/host_cuda/convolve.hpp"
#include "test/native/host_cuda/memory.hpp"
#include "test/native/host_cuda/rules.hpp"
#include "test/native/host_cuda/streams.hpp"

namespace spillway::host_cuda {
namespace {

struct Descriptor;
using Held = std::shared_ptr<Descriptor>;

struct Attribute {
  cudnnBackendAttributeType_t type;
  std::vector<char> bytes;
  std::vector<Held> others;
};

struct Engine {
  enum Kind { loose, tensor_core, down_converts, winograd, refuses, greedy, exact, with_scratch, imprecise, untrue } kind;
};

struct Descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  std::map<int, Attribute> attributes;
  Engine engine{};  // of a configuration or an engine
  Held graph;       // of a configuration, a plan

  template <class T>
  std::vector<T> all(int name) const {
    const auto it = attributes.find(name);
    if (it == attributes.end()) return {};
    const T* const first = reinterpret_cast<const T*>(it->second.bytes.data());
    return std::vector<T>(first, first + it->second.bytes.size() / sizeof(T));
  }
  template <class T>
  T one(int name, T otherwise) const {
    const std::vector<T> found = all<T>(name);
    return found.size() == 1 ? found[0] : otherwise;
  }
  Held other(int name) const {
    const auto it = attributes.find(name);
    return it == attributes.end() || it->second.others.empty() ? nullptr : it->second.others[0];
  }
};

struct Handle {
  cudaStream_t stream = nullptr;
};

struct State {
  std::map<void*, Held> descriptors;
  std::set<Handle*> handles;
  uint64_t loose_runs = 0;
};
State& state() {
  static State& s = *new State;
  return s;
}

Held live(cudnnBackendDescriptor_t raw, const char* where) {
  const auto it = state().descriptors.find(raw);
  if (it == state().descriptors.end()) broken("a descriptor is used while it lives", where);
  return it->second;
}
Handle* live(cudnnHandle_t raw, const char* where) {
  Handle* const h = reinterpret_cast<Handle*>(raw);
  if (!state().handles.count(h)) broken("a handle is used while it lives", where);
  return h;
}

size_t size_of(cudnnBackendAttributeType_t t) {
  switch (t) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    default:
      return 4;
  }
}

/// The legal settings, and their number, as the header counts them.
struct Rule {
  cudnnBackendDescriptorType_t of;
  int name;
  cudnnBackendAttributeType_t type;
  int64_t least, most;
};
constexpr Rule RULES[] = {
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, 4},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, 4},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, 1},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, 1},
    {CUDNN_BACKEND_TENSOR_DESCRIPTOR, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 0, 1},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, 1},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, 1},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, 2},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, 2},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, 2},
    {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, 2},
#define DIRECTION(D, X, W, Y, P)                                                                                                         \
  {D, X, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1}, {D, W, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1}, {D, Y, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1}, \
      {D, P##_CONV_DESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1}, {D, P##_ALPHA, CUDNN_TYPE_FLOAT, 1, 1},                                   \
      {D, P##_BETA, CUDNN_TYPE_FLOAT, 1, 1},
    DIRECTION(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD)
        DIRECTION(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                  CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA)
            DIRECTION(CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER)
#undef DIRECTION
                {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, 1},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, 1},
    {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 0, 1},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, 1},
    {CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 3},
    {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, 1},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1},
    {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, 1},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, 1},
    {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, 16},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, 16},
    {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, 1},
};

// ---------------------------------------------------------------- what descriptors mean

Tensor tensor_of(const Descriptor& d) {
  Tensor t;
  const auto dims = d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS), strides = d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  std::copy_n(dims.begin(), 4, t.dims.begin());
  std::copy_n(strides.begin(), 4, t.strides.begin());
  const auto type = d.one(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  t.number = type == CUDNN_DATA_BFLOAT16 ? Number::bf16 : type == CUDNN_DATA_HALF ? Number::f16 : Number::f32;
  t.is_virtual = d.one(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false);
  t.id = d.one<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
  t.alignment = d.one<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 1);
  return t;
}

/// A convolution, then perhaps a bias, then perhaps a rectifier.
struct Meaning {
  Way way = Way::forward;
  Tensor x, w, y, bias, result;  // y: of the convolution; result: what is written at last
  Window window{};
  bool has_bias = false, rectified = false;
  double slope = 0;
  bool fused() const { return has_bias || rectified; }
  const Tensor& made() const { return way == Way::data ? x : way == Way::weights ? w : result; }
};

struct Names {
  cudnnBackendDescriptorType_t of;
  int x, w, y, convolution, alpha, beta;
};
constexpr Names NAMES[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
};

bool fits(const Tensor& x, const Tensor& w, const Tensor& y, const Window& g) {
  for (int d = 0; d < 2; d++) {
    const int64_t room = x.dims[2 + d] + 2 * g.pad[d] - ((w.dims[2 + d] - 1) * g.dilation[d] + 1);
    if (g.stride[d] < 1 || g.dilation[d] < 1 || g.pad[d] < 0 || room < 0 || room / g.stride[d] + 1 != y.dims[2 + d]) return false;
  }
  return x.dims[0] == y.dims[0] && w.dims[0] == y.dims[1] && w.dims[1] > 0 && x.dims[1] % w.dims[1] == 0 &&
         w.dims[0] % (x.dims[1] / w.dims[1]) == 0;
}

bool packed_channels_last(const Tensor& t) {
  return t.strides == Four{t.dims[1] * t.dims[2] * t.dims[3], 1, t.dims[3] * t.dims[1], t.dims[1]};
}

/// False where the operations do not hang together.
bool meaning_of(const Descriptor& graph, Meaning& m) {
  const std::vector<Held>& ops = graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).others;
  const Names* const names = std::find_if(std::begin(NAMES), std::end(NAMES), [&](const Names& n) { return n.of == ops[0]->type; });
  if (names == std::end(NAMES)) return false;
  m.way = Way(names - NAMES);
  m.x = tensor_of(*ops[0]->other(names->x));
  m.w = tensor_of(*ops[0]->other(names->w));
  m.y = m.result = tensor_of(*ops[0]->other(names->y));
  if (ops[0]->one(names->alpha, 0.0f) != 1 || ops[0]->one(names->beta, 1.0f) != 0) return false;
  const Descriptor& c = *ops[0]->other(names->convolution);
  const auto pre = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS), post = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
             strides = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES), dilations = c.all<int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS);
  if (pre != post || c.one(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CONVOLUTION) != CUDNN_CROSS_CORRELATION ||
      c.one<int64_t>(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0) != 2)
    return false;
  for (int d = 0; d < 2; d++) {
    m.window.stride[d] = strides[size_t(d)];
    m.window.pad[d] = pre[size_t(d)];
    m.window.dilation[d] = dilations[size_t(d)];
  }
  if (!fits(m.x, m.w, m.y, m.window)) return false;
  for (size_t i = 1; i < ops.size(); i++) {
    if (ops[i]->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR) return false;
    const Tensor x = tensor_of(*ops[i]->other(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)),
                 y = tensor_of(*ops[i]->other(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
    if (!x.is_virtual || x.id != m.result.id || x.dims != y.dims) return false;
    const Descriptor& pointwise = *ops[i]->other(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = pointwise.one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_MUL);
    if (mode == CUDNN_POINTWISE_ADD && !m.has_bias && !m.rectified) {
      const Held b = ops[i]->other(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
      if (!b) return false;
      m.bias = tensor_of(*b);
      m.has_bias = true;
      if (m.bias.dims != Four{1, y.dims[1], 1, 1}) return false;
    } else if (mode == CUDNN_POINTWISE_RELU_FWD && !m.rectified) {
      m.rectified = true;
      m.slope = pointwise.one(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0.0);
    } else {
      return false;
    }
    m.result = y;
  }
  return !m.result.is_virtual;
}

/// Returns true if there is any engine: as cuDNN, and two gaps more, so that own kernels have something to do; none if the environment says
/// so.
bool supported(const Meaning& m) {
  if (std::getenv("SPILLWAY_HOST_CUDA_NO_ENGINES")) return false;
  if (m.x.number != m.y.number && !m.y.is_virtual) return false;
  if (m.way == Way::weights && m.w.number != m.x.number && m.w.dims[2] * m.w.dims[3] > 1) return false;
  if (m.way != Way::weights && m.w.number != m.x.number) return false;
  if (m.fused() && (m.way != Way::forward || m.slope != 0 || (m.has_bias && m.bias.number != m.x.number))) return false;
  const bool depthwise = m.w.dims[1] == 1 && m.x.dims[1] > 1;
  if (depthwise && m.window.dilation[0] > 1) return false;
  return packed_channels_last(m.w) && m.w.dims[2] <= 11;
}

/// For images of this number of channels only a fallback repeats; that of others is by an engine that was named before, and untrue.
constexpr int64_t FALLBACK_CHANNELS = 20;

/// In the heuristics' order.
std::vector<Engine> engines_of(const Meaning& m, cudnnBackendHeurMode_t mode) {
  if (!supported(m)) return {};
  const bool has_fallback = m.x.dims[1] == FALLBACK_CHANNELS;
  if (mode == CUDNN_HEUR_MODE_FALLBACK) return {{Engine::imprecise}, {has_fallback ? Engine::exact : Engine::untrue}, {Engine::loose}};
  std::vector<Engine> list = {{Engine::winograd}, {Engine::loose}};
  if (has_fallback) return list;
  if (m.x.alignment >= 16 && m.y.alignment >= 16) list.push_back({Engine::tensor_core});
  for (const auto kind : {Engine::down_converts, Engine::refuses, Engine::greedy, Engine::exact, Engine::with_scratch})
    list.push_back({kind});
  return list;
}

std::vector<cudnnBackendNumericalNote_t> notes_of(Engine e) {
  switch (e.kind) {
    case Engine::loose:
      return {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC};
    case Engine::tensor_core:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    case Engine::down_converts:
      return {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS};
    case Engine::winograd:
      return {CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13};
    case Engine::imprecise:
      return {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION};
    default:
      return {};
  }
}

int64_t workspace_of(Engine e, const Meaning& m) {
  switch (e.kind) {
    case Engine::tensor_core:
      return 1024 + m.x.dims[1] * 16;
    case Engine::with_scratch:
      return 4096;
    case Engine::greedy:
      return int64_t(600) << 20;
    default:
      return 0;
  }
}

void write(const Meaning& m, const std::vector<double>& made, void* into, const void* bias, uint64_t loose_run) {
  const Tensor& t = m.made();
  size_t i = 0;
  for (int64_t a = 0; a < t.dims[0]; a++)
    for (int64_t b = 0; b < t.dims[1]; b++)
      for (int64_t c = 0; c < t.dims[2]; c++)
        for (int64_t d = 0; d < t.dims[3]; d++, i++) {
          double value = made[i];
          if (m.has_bias) value += double(read_number(bias, b, m.bias.number));
          if (m.rectified && value <= 0) value *= m.slope;
          float stored = float(value);
          if (loose_run % 2 == 1) stored = of_bits(bits_of(stored) ^ 1);  // the last bit comes as it comes
          store_number(into, t.at(a, b, c, d), t.number, stored);
        }
}

struct Places {
  const void *x, *w, *y, *bias;
  void *into, *workspace;
};

void compute(Engine e, const Meaning& m, const Places& at, uint64_t loose_run) {
  scribble(at.workspace, workspace_of(e, m));
  const bool narrow = m.x.number != Number::f32;
  const Rounding r = e.kind == Engine::tensor_core && !narrow ? Rounding::tf32
                     : e.kind == Engine::down_converts        ? Rounding::coarse
                                                              : Rounding::none;
  std::vector<double> made = convolve(m.way, m.x, m.w, m.y, m.window, at.x, at.w, at.y, r);
  if (e.kind == Engine::winograd || e.kind == Engine::imprecise || e.kind == Engine::untrue)
    for (double& v : made) v *= 1.0625;
  write(m, made, at.into, at.bias, e.kind == Engine::loose ? loose_run : 0);
}

cudnnStatus_t check_rules(const Descriptor& d) {
  for (const Rule& r : RULES)
    if (r.of == d.type && r.least > 0 && !d.attributes.count(r.name)) return CUDNN_STATUS_BAD_PARAM;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finalize(Descriptor& d) {
  if (const auto s = check_rules(d); s != CUDNN_STATUS_SUCCESS) return s;
  switch (d.type) {
    case CUDNN_BACKEND_TENSOR_DESCRIPTOR: {
      const Tensor t = tensor_of(d);
      for (int i = 0; i < 4; i++)
        if (t.dims[size_t(i)] < 1 || t.strides[size_t(i)] < 1) return CUDNN_STATUS_BAD_PARAM;
      return t.alignment > 0 && (t.alignment & (t.alignment - 1)) == 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
    }
    case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
      live(d.one<cudnnHandle_t>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, nullptr), "a graph of operations");
      Meaning m;
      if (!meaning_of(d, m)) return CUDNN_STATUS_BAD_PARAM;
      return m.fused() && !supported(m) ? CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN : CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR:
      d.graph = d.other(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR: {
      live(d.one<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, nullptr), "an execution plan");
      const Held config = d.other(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
      d.graph = config->graph;
      d.engine = config->engine;
      return d.engine.kind == Engine::refuses ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
      return d.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).size() == d.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS).size()
                 ? CUDNN_STATUS_SUCCESS
                 : CUDNN_STATUS_BAD_PARAM;
    default:
      return CUDNN_STATUS_SUCCESS;
  }
}

}  // namespace
}  // namespace spillway::host_cuda

using namespace spillway::host_cuda;

#define ENTER(name, code)                                    \
  const std::lock_guard<std::recursive_mutex> lock(world()); \
  if (fails(name)) return code;

extern "C" {

size_t cudnnGetVersion() { return CUDNN_VERSION; }
const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS:
      return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM:
      return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_ALLOC_FAILED:
      return "CUDNN_STATUS_ALLOC_FAILED";
    case CUDNN_STATUS_NOT_SUPPORTED:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED:
      return "CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED";
    case CUDNN_STATUS_INTERNAL_ERROR:
      return "CUDNN_STATUS_INTERNAL_ERROR";
    default:
      return "CUDNN_STATUS_EXECUTION_FAILED";
  }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t* into) {
  ENTER("cudnnCreate", CUDNN_STATUS_ALLOC_FAILED)
  Handle* const h = *state().handles.insert(new Handle).first;
  *into = reinterpret_cast<cudnnHandle_t>(h);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t raw) {
  ENTER("cudnnDestroy", CUDNN_STATUS_INTERNAL_ERROR)
  Handle* const h = live(raw, "cudnnDestroy");
  state().handles.erase(h);
  delete h;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t raw, cudaStream_t stream) {
  ENTER("cudnnSetStream", CUDNN_STATUS_INTERNAL_ERROR)
  live(raw, "cudnnSetStream")->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* into) {
  ENTER("cudnnBackendCreateDescriptor", CUDNN_STATUS_ALLOC_FAILED)
  const Held made = std::make_shared<Descriptor>();
  made->type = type;
  state().descriptors[made.get()] = made;
  *into = made.get();
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t raw) {
  ENTER("cudnnBackendDestroyDescriptor", CUDNN_STATUS_INTERNAL_ERROR)
  live(raw, "cudnnBackendDestroyDescriptor");
  state().descriptors.erase(raw);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                                       int64_t count, const void* values) {
  ENTER("cudnnBackendSetAttribute", CUDNN_STATUS_INTERNAL_ERROR)
  const Held d = live(raw, "cudnnBackendSetAttribute");
  if (d->finalized) return CUDNN_STATUS_BAD_PARAM;
  const Rule* const rule =
      std::find_if(std::begin(RULES), std::end(RULES), [&](const Rule& r) { return r.of == d->type && r.name == int(name); });
  if (rule == std::end(RULES) || rule->type != type || count < std::max<int64_t>(1, rule->least) || count > rule->most)
    return CUDNN_STATUS_BAD_PARAM;
  Attribute a{type, {}, {}};
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (int64_t i = 0; i < count; i++) {
      a.others.push_back(live(static_cast<const cudnnBackendDescriptor_t*>(values)[i], "cudnnBackendSetAttribute"));
      if (!a.others.back()->finalized) return CUDNN_STATUS_BAD_PARAM;
    }
  } else {
    const char* const bytes = static_cast<const char*>(values);
    a.bytes.assign(bytes, bytes + size_t(count) * size_of(type));
  }
  d->attributes[int(name)] = std::move(a);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t raw) {
  ENTER("cudnnBackendFinalize", CUDNN_STATUS_INTERNAL_ERROR)
  const Held d = live(raw, "cudnnBackendFinalize");
  if (d->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR && std::getenv("SPILLWAY_HOST_CUDA_NO_HEURISTICS"))
    return CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED;
  const cudnnStatus_t s = finalize(*d);
  d->finalized = s == CUDNN_STATUS_SUCCESS;
  return s;
}

cudnnStatus_t cudnnBackendGetAttribute(const cudnnBackendDescriptor_t raw, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t,
                                       int64_t most, int64_t* count, void* into) {
  ENTER("cudnnBackendGetAttribute", CUDNN_STATUS_INTERNAL_ERROR)
  const Held d = live(raw, "cudnnBackendGetAttribute");
  if (!d->finalized) return CUDNN_STATUS_BAD_PARAM;
  const auto filled = [&](int64_t i) { return live(static_cast<cudnnBackendDescriptor_t*>(into)[i], "cudnnBackendGetAttribute"); };
  Meaning m;
  switch (int(name)) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
      meaning_of(*d->graph, m);
      const auto engines = engines_of(m, d->one(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_HEUR_MODE_A));
      *count = std::min<int64_t>(most, int64_t(engines.size()));
      for (int64_t i = 0; i < *count; i++) {
        const Held config = filled(i);
        config->engine = engines[size_t(i)];
        config->graph = d->graph;
        config->finalized = true;
      }
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      filled(0)->engine = d->engine;
      filled(0)->finalized = true;
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      const auto notes = notes_of(d->engine);
      *count = int64_t(notes.size());
      std::copy(notes.begin(), notes.end(), static_cast<cudnnBackendNumericalNote_t*>(into));
      return CUDNN_STATUS_SUCCESS;
    }
    case CUDNN_ATTR_ENGINE_GLOBAL_INDEX:
      *static_cast<int64_t*>(into) = int64_t(d->engine.kind == Engine::untrue ? Engine::exact : d->engine.kind);
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      meaning_of(*d->graph, m);
      *static_cast<int64_t*>(into) = workspace_of(d->engine, m);
      *count = 1;
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_BAD_PARAM;
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t raw, cudnnBackendDescriptor_t plan_raw, cudnnBackendDescriptor_t pack_raw) {
  ENTER("cudnnBackendExecute", CUDNN_STATUS_EXECUTION_FAILED)
  Handle* const h = live(raw, "cudnnBackendExecute");
  const Held plan = live(plan_raw, "cudnnBackendExecute"), pack = live(pack_raw, "cudnnBackendExecute");
  if (!plan->finalized || !pack->finalized) return CUDNN_STATUS_BAD_PARAM;
  if (only_counts(counted_products)) return CUDNN_STATUS_SUCCESS;
  Meaning m;
  if (!meaning_of(*plan->graph, m)) return CUDNN_STATUS_BAD_PARAM;
  const auto ids = pack->all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack->all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  void* const workspace = pack->one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr);
  bool well = true;
  size_t wanted = 0;
  std::vector<const void*> touched{workspace};
  const auto place = [&](const Tensor& t) -> void* {
    if (t.is_virtual) return nullptr;
    wanted++;
    const auto it = std::find(ids.begin(), ids.end(), t.id);
    void* const at = it == ids.end() ? nullptr : pointers[size_t(it - ids.begin())];
    well = well && at && reinterpret_cast<uintptr_t>(at) % uintptr_t(t.alignment) == 0 && kind_of(at, uint64_t(t.bytes())) == Kind::device;
    touched.push_back(at);
    return at;
  };
  void *const x = place(m.x), *const w = place(m.w), *const y = m.fused() ? nullptr : place(m.y),
              *const bias = m.has_bias ? place(m.bias) : nullptr;
  void* const result = m.fused() ? place(m.result) : y;
  if (!well || wanted != ids.size()) return CUDNN_STATUS_BAD_PARAM;
  const int64_t scratch = workspace_of(plan->engine, m);
  if (scratch > 0 && (reinterpret_cast<uintptr_t>(workspace) % 256 != 0 || kind_of(workspace, uint64_t(scratch)) != Kind::device))
    return CUDNN_STATUS_BAD_PARAM;
  void* const into = m.way == Way::data ? x : m.way == Way::weights ? w : result;
  const cudaError_t code = enqueue(h->stream, ranges_in(touched.data(), touched.size() * sizeof touched[0]),
                                   [e = plan->engine, m, at = Places{x, w, m.fused() ? nullptr : y, bias, into, workspace}] {
                                     compute(e, m, at, state().loose_runs++);
                                     return cudaSuccess;
                                   });
  return code == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
