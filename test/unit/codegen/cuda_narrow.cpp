// Integers of 8 and 16 bits in CUDA text.  C++ computes them as int, so what a template, an overload, a
// constraint of inline PTX or a brace sees must be the type of the IR again.
#include "unit/codegen/machine.h"

using namespace tl;

namespace {

Expr result_of(std::string_view row, std::vector<Expr> args, DType t) {
  return call(*find_intrinsic(row), std::move(args), t.with_lanes(args.empty() ? 1 : args[0]->dtype.lanes));
}

// Every way to compute an integer of x and y.
std::vector<Expr> results(const Expr& x, const Expr& y) {
  DType t = x->dtype;
  using enum BinaryOp;
  std::vector<Expr> all;
  for (BinaryOp op :
       {add, sub, mul, floordiv, floormod, truncdiv, truncmod, min, max, bit_and, bit_or, bit_xor, shl, shr})
    all.push_back(binary(op, x, y));
  Expr one = imm(1, t.scalar());
  if (t.lanes > 1) one = broadcast(one, t.lanes);
  all.push_back(binary(shr, x, one));
  all.push_back(binary(bit_or, x, binary(bit_and, x, one)));
  all.push_back(binary(floordiv, x, binary(shl, one, one)));
  all.push_back(unary(UnaryOp::neg, x));
  all.push_back(unary(UnaryOp::bit_not, x));
  all.push_back(select(binary(lt, x, y), x, one));
  all.push_back(cast(t, binary(mul, cast(i32.with_lanes(t.lanes), x), cast(i32.with_lanes(t.lanes), y))));
  all.push_back(cast(t, binary(lt, x, y)));
  for (auto* row : {"abs", "popcount"}) all.push_back(result_of(row, {x}, t.scalar()));
  all.push_back(result_of("fma", {x, y, one}, t.scalar()));
  return all;
}

std::vector<DType> others_of_width(DType t) {
  if (t.bits == 8) return {i8, u8};
  return {i16, u16, f16, bf16};
}

// Functions of foreign text that take one type and no other.
constexpr std::string_view foreign = R"(
template <class T, class U> struct same { static constexpr bool value = false; };
template <class T> struct same<T, T> { static constexpr bool value = true; };
template <class T> __device__ int takes_i8(T) { static_assert(same<T, signed char>::value, "i8"); return 0; }
template <class T> __device__ int takes_u8(T) { static_assert(same<T, unsigned char>::value, "u8"); return 0; }
template <class T> __device__ int takes_i16(T) { static_assert(same<T, short>::value, "i16"); return 0; }
template <class T> __device__ int takes_u16(T) { static_assert(same<T, unsigned short>::value, "u16"); return 0; }
template <class T> __device__ int takes_bool(T) { static_assert(same<T, bool>::value, "bool"); return 0; }
)";

}  // namespace

TEST_CASE("cuda: a result of 8 or 16 bits has its type wherever C++ asks for it") {
  Machine m("narrow");
  BufferId atoms = m.tensor("I", i32, {imm(128)});
  m.k.attrs.entries["source"] = std::string(foreign);
  for (DType t : {u8, i8, u16, i16}) {
    std::string name = to_string(t);
    BufferId a = m.tensor("A" + name, t, {imm(128)}), b = m.tensor("B" + name, t, {imm(128)});
    std::map<std::string, BufferId> outputs;
    std::vector<Stmt> body;
    auto keep = [&](Expr e) {
      auto& out = outputs[to_string(e->dtype)];
      if (!out) out = m.tensor("C" + name + to_string(e->dtype), e->dtype, {imm(128)});
      body.push_back(put(out, m.k.thread, std::move(e)));
    };
    Expr x = m.at(a, m.k.thread), y = m.at(b, m.k.thread),
         masked = m.at(a, m.k.thread, lt(m.k.thread, imm(100)));
    std::vector<Expr> all = results(x, y);
    all.push_back(masked);
    for (auto& e : all) {
      for (DType to : others_of_width(t)) keep(result_of("reinterpret", {e}, to));
      for (auto* row : {"shfl", "shfl_xor", "shfl_up", "shfl_down"})
        keep(result_of("reinterpret", {call(*find_intrinsic(row), {e, imm(3)})},
                       others_of_width(t)[t.is_signed()]));
      keep(call(*find_intrinsic("match_any_sync"), {e, imm(-1, u32)}));
      keep(call(*find_intrinsic("clz"), {e}));
      keep(select(lt(m.k.thread, imm(64)), e, y));
      Expr place = address(m.at(a, m.k.thread)), word = address(m.at(atoms, m.k.thread));
      body.push_back(
          eval(call(*find_intrinsic("atomic_store"), {place, e, string_imm("relaxed")}, none_type)));
      body.push_back(
          eval(call(*find_intrinsic("atomic_add"), {word, cast(i32, e), string_imm("relaxed")}, none_type)));
      keep(call(call_extern, {string_imm("takes_" + name), string_imm(""), e}, i32));
      if (t.bits == 16)
        body.push_back(eval(call(
            inline_ptx, {string_imm("mov.b16 {out}, {0};"), string_imm(""), imm(1), place, e}, none_type)));
    }
    m.k.name = name;
    m.body(body);
  }
  compiles(m.f, {"sm_90"});
}

TEST_CASE("cuda: lanes of 8 or 16 bits, or of bools, have their type within a vector") {
  Machine m("lanes");
  for (DType t : {u8, i8, u16, i16}) {
    std::string name = to_string(t);
    BufferId a = m.tensor("A" + name, t, {imm(512)}), b = m.tensor("B" + name, t, {imm(512)});
    BufferId c = m.tensor("C" + name, t, {imm(512)}), d = m.tensor("D" + name, boolean, {imm(512)});
    Expr at = range_from(m.k.thread * 4, 4), x = m.at(a, at), y = m.at(b, at);
    std::vector<Stmt> body;
    for (auto& e : results(x, y)) body.push_back(put(c, at, e));
    Expr less = binary(BinaryOp::lt, x, y), equal = binary(BinaryOp::eq, x, y);
    for (BinaryOp op : {BinaryOp::bit_and, BinaryOp::bit_or, BinaryOp::bit_xor})
      body.push_back(put(d, at, binary(op, less, equal)));
    body.push_back(put(d, at, select(less, equal, m.at(d, at))));
    m.k.name = name;
    m.body(body);
  }
  compiles(m.f, {"sm_90"});
}
