// Reads requests of single kernels.
#include "addon/requests.hpp"

#include <algorithm>

#include "addon/arguments.hpp"
#include "ops/table.hpp"

namespace spillway::addon {
namespace {

DType parse_dtype(const Napi::Value& value) {
  const std::string name = value.IsUndefined() ? "f32" : as_string(value, "dtype");
  std::string legal;
  for (const DType t : DTYPES) {
    if (name == name_of(t)) return t;
    legal += text(legal.empty() ? "" : ", ", name_of(t));
  }
  fail(value.Env(), text("dtype '", name, "': one of ", legal));
}

/// Up to four whole numbers; false when the field is missing.
bool parse_sizes(const Napi::Object& operand, const char* key, int64_t (&into)[4], uint32_t* rank = nullptr) {
  const Napi::Value value = operand.Get(key);
  if (value.IsUndefined()) return false;
  const Napi::Array list = as_array(value, key);
  if (list.Length() < 1 || list.Length() > 4) fail(operand.Env(), text(key, " must have one to four numbers"));
  for (uint32_t i = 0; i < list.Length(); i++) {
    const uint64_t n = as_count(list.Get(i), key);
    if (n > 0xffffffff) fail(operand.Env(), text(key, ": ", n, " is too large"));
    into[i] = int64_t(n);
  }
  if (rank) *rank = list.Length();
  return true;
}

/// Channels-last for activations, row-major for the others.
void set_dense_strides(View& v, Role role) {
  const int64_t* d = v.dims;
  const bool data = role == Role::data || (role == Role::any && v.rank == 4);
  const int64_t last[4] = {d[1] * d[2] * d[3], 1, d[3] * d[1], d[1]}, natural[4] = {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
  std::copy_n(data ? last : natural, 4, v.strides);
}

/// Elements from the first to the last, inclusive.
uint64_t span_of(Napi::Env env, const View& v) {
  uint64_t last = 0, step = 0;
  for (int d = 0; d < 4; d++)
    if (__builtin_mul_overflow(uint64_t(v.dims[d] - 1), uint64_t(v.strides[d]), &step) || __builtin_add_overflow(last, step, &last) ||
        last >> 56)
      fail(env, "an operand has more than 2^56 elements");
  return last + 1;
}

View parse_view(const Napi::Value& value, const OperandInfo& info) {
  const Napi::Object o = as_object(value, info.name);
  View v;
  v.dtype = parse_dtype(o.Get("dtype"));
  if (!parse_sizes(o, "dims", v.dims, &v.rank)) fail(o.Env(), text(info.name, ".dims is missing"));
  v.rank = uint32_t(count_or(o, "rank", v.rank));
  if (v.rank < 1 || v.rank > 4) fail(o.Env(), text(info.name, ": rank ", v.rank));
  if (info.role == Role::data && v.rank != 4) fail(o.Env(), text(info.name, " must have rank 4"));
  uint64_t elements = 1;
  for (const int64_t d : v.dims)
    if (d == 0 || __builtin_mul_overflow(elements, uint64_t(d), &elements) || elements >> 48)
      fail(o.Env(), text(info.name, ": a dimension is 0, or it has more than 2^48 elements"));
  set_dense_strides(v, info.role);
  parse_sizes(o, "strides", v.strides);
  parse_sizes(o, "origin", v.origin);
  std::copy_n(v.dims, 4, v.extent);
  parse_sizes(o, "extent", v.extent);
  for (int d = 0; d < 4; d++)
    if (v.origin[d] + v.dims[d] > v.extent[d]) fail(o.Env(), text(info.name, ": the box exceeds the whole value in dimension ", d));
  return v;
}

/// Points the view at a typed array that holds all of it.
void attach(View& v, const Napi::Object& operand, const char* name) {
  const Napi::Value data = operand.Get("data");
  if (!data.IsTypedArray()) fail(operand.Env(), text(name, ".data must be a typed array"));
  const auto array = data.As<Napi::TypedArray>();
  constexpr napi_typedarray_type arrays[] = {napi_float32_array, napi_float64_array, napi_int32_array, napi_uint16_array, napi_uint8_array};
  const napi_typedarray_type want = arrays[uint32_t(v.dtype)];
  if (array.TypedArrayType() != want) fail(operand.Env(), text(name, ".data has another type than the operand's dtype"));
  const uint64_t offset = count_or(operand, "offset", 0), span = span_of(operand.Env(), v);
  if (offset > array.ElementLength() || span > array.ElementLength() - offset)
    fail(operand.Env(), text(name, ".data has ", array.ElementLength(), " elements; the view reaches element ", offset + span));
  v.data = static_cast<std::byte*>(array.ArrayBuffer().Data()) + array.ByteOffset() + offset * dtype_bytes(v.dtype);
}

const OpInfo& parse_kind(const Napi::Value& value) {
  for (const OpInfo& op : OP_TABLE)
    if (value.IsString() ? op.kind == value.As<Napi::String>().Utf8Value()
                         : value.IsNumber() && op.wire == value.As<Napi::Number>().DoubleValue())
      return op;
  fail(value.Env(), text("unknown operator ", value.ToString().Utf8Value()));
}

void parse_attrs(const Napi::Value& value, Request& r) {
  const Napi::Array list = as_array(value, "attrs");
  for (uint32_t i = 0; i < list.Length(); i++) r.attrs.push_back(as_number(list.Get(i), "attribute"));
}

std::vector<View> parse_operands(const Napi::Value& value, const OpInfo& op, bool outs) {
  const Napi::Array list = as_array(value, outs ? "outs" : "ins");
  std::vector<View> views;
  for (uint32_t i = 0; i < list.Length(); i++) views.push_back(parse_view(list.Get(i), outs ? op.out(i) : op.in(i)));
  return views;
}

std::vector<View> with_data(std::vector<View> views, const Napi::Value& list, const OpInfo& op, bool outs) {
  for (uint32_t i = 0; i < views.size(); i++)
    attach(views[i], as_object(list.As<Napi::Array>().Get(i), "operand"), (outs ? op.out(i) : op.in(i)).name);
  return views;
}

/// The input whose bytes the first output takes over; -1: none.
int parse_in_place(const Napi::Value& value, const Request& r) {
  if (value.IsUndefined()) return -1;
  const uint64_t in_place = as_count(value, "inPlace");
  if (in_place >= r.ins.size() || r.outs.empty() || span_bytes(r.ins[in_place]) != span_bytes(r.outs[0]))
    fail(value.Env(), text(r.op->kind, ": input ", in_place, " cannot be the memory of the first output: their sizes differ"));
  return int(in_place);
}

}  // namespace

Precision parse_precision(const Napi::Value& value) {
  const std::string name = value.IsUndefined() ? PRECISIONS[0] : as_string(value, "precision");
  for (uint32_t i = 0; i < std::size(PRECISIONS); i++)
    if (name == PRECISIONS[i]) return Precision(i);
  fail(value.Env(), text("precision '", name, "': fp32, tf32, bf16 or fp16"));
}

int parse_threads(const Napi::Value& value) {
  constexpr uint64_t MOST_THREADS = 4096;
  const uint64_t threads = value.IsUndefined() ? 0 : as_count(value, "threads");
  if (threads > MOST_THREADS) fail(value.Env(), text("threads: ", threads, " is too many"));
  return int(threads);
}

std::unique_ptr<Request> parse_request(const Napi::Value& value, bool data) {
  const Napi::Object o = as_object(value, "request");
  const std::string name = as_string(o.Get("device"), "device");
  auto r = std::make_unique<Request>();
  r->device = take(o.Env(), load_device(name));
  r->op = &parse_kind(o.Get("kind"));
  if (!r->device->has_kernel(r->op->wire)) fail(o.Env(), text("device '", name, "' has no kernel for ", r->op->kind));
  parse_attrs(o.Get("attrs"), *r);
  const Napi::Value ins = o.Get("ins"), outs = o.Get("outs");
  Status s = ops::check_attrs(*r->op, r->attrs.data(), uint32_t(r->attrs.size()));
  if (s.ok()) s = ops::check_counts(*r->op, r->attrs.data(), as_array(ins, "ins").Length(), as_array(outs, "outs").Length());
  if (!s.ok()) fail(o.Env(), text(r->op->kind, ": ", s.message));
  r->ins = parse_operands(ins, *r->op, false);
  r->outs = parse_operands(outs, *r->op, true);
  for (const View& v : r->ins) span_of(o.Env(), v);
  for (const View& v : r->outs) span_of(o.Env(), v);
  if (data) {
    r->ins = with_data(std::move(r->ins), ins, *r->op, false);
    r->outs = with_data(std::move(r->outs), outs, *r->op, true);
  }
  r->step = {count_or(o, "step", 1), count_or(o, "seed", 0), number_or(o, "lrScale", 1)};
  r->call = {.kind = r->op->wire,
             .ins = r->ins.data(),
             .n_ins = uint32_t(r->ins.size()),
             .outs = r->outs.data(),
             .n_outs = uint32_t(r->outs.size()),
             .attrs = r->attrs.data(),
             .n_attrs = uint32_t(r->attrs.size()),
             .way = uint32_t(std::min<uint64_t>(count_or(o, "way", 0), UINT32_MAX)),
             .step = &r->step};
  r->options = {parse_precision(o.Get("precision")), parse_threads(o.Get("threads")), parse_in_place(o.Get("inPlace"), *r)};
  return r;
}

}  // namespace spillway::addon
