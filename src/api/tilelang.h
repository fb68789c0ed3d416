// tilelang in C++, in one header: describe a kernel on tiles, compile it for this machine, call it.
//
//   tilelang::Builder b("scale");
//   auto X = b.tensor("X", {n}, tilelang::f32), Y = b.tensor("Y", {n}, tilelang::f32);
//   b.kernel({n / 256}, 128, [&](Expr bx) {
//     b.parallel({256}, [&](Expr i) { Y[{bx * 256 + i}] = X[{bx * 256 + i}] * 2; });
//   });
//   auto kernel = tilelang::compile(b.finish());
//   kernel(tilelang::tensor(x.data(), {n}), tilelang::tensor(y.data(), {n}));
//
// Brackets are an element, A[{i, j}]; parentheses a tile: A(i, j) begins there and takes its extents from
// the other operand, A(slice(i0, i1), j) says them itself.  Numbers take the type of what they meet.  What
// is wrong is thrown as a std::runtime_error whose text begins with file:line:column.
#pragma once
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace tilelang {

using Where = std::source_location;

enum class DType : uint8_t { f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean };
inline constexpr DType f64 = DType::f64, f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16;
inline constexpr DType i8 = DType::i8, i16 = DType::i16, i32 = DType::i32, i64 = DType::i64;
inline constexpr DType u8 = DType::u8, u16 = DType::u16, u32 = DType::u32, u64 = DType::u64;
inline constexpr DType boolean = DType::boolean;

namespace detail {
struct Access;
struct ExprImpl;
struct BufferImpl;
struct BuilderImpl;
struct FunctionImpl;
struct KernelImpl;
struct MemoryImpl;
struct LayoutImpl;
struct FragmentImpl;
template <class T>
concept Number = std::is_arithmetic_v<T>;
// In a variant a number is a double or an int64_t, from 2^63 on a uint64_t.
template <class To, Number T>
To held(T number) {
  if constexpr (std::floating_point<T>) return double(number);
  if (std::is_unsigned_v<T> && uint64_t(number) > uint64_t(INT64_MAX)) return uint64_t(number);
  return int64_t(number);
}
}  // namespace detail

class Buffer;
class Element;
class Region;

// ── values ────────────────────────────────────────────────────────────────────────────────────────────
// An immutable value of the kernel, known when it runs (or sooner: constants fold).
class Expr {
 public:
  Expr(bool truth) : value(truth) {}
  template <detail::Number T>
  Expr(T number) : value(detail::held<decltype(value)>(number)) {}
  Expr(const Element& element);  // its value now
  Expr(const Buffer& variable);  // the value of an alloc_var
  DType dtype() const;
  std::string text() const;  // as text IR prints it

 private:
  friend struct detail::Access;
  explicit Expr(std::shared_ptr<const detail::ExprImpl> node) : value(std::move(node)) {}
  std::variant<std::shared_ptr<const detail::ExprImpl>, int64_t, double, bool, uint64_t> value;
};

// An operand, and where it was written.
struct Operand {
  Expr value;
  Where where;
  template <class T>
    requires std::convertible_to<const T&, Expr>
  Operand(const T& v, Where where = Where::current()) : value(v),
                                                        where(where) {}
};

Expr operator+(Operand a, Operand b);
Expr operator-(Operand a, Operand b);
Expr operator*(Operand a, Operand b);
Expr operator/(Operand a, Operand b);  // of integers: rounds towards zero, as in C++; see floordiv
Expr operator%(Operand a, Operand b);  // of integers: has the sign of a; see floormod
Expr operator&(Operand a, Operand b);
Expr operator|(Operand a, Operand b);
Expr operator^(Operand a, Operand b);
Expr operator<<(Operand a, Operand b);
Expr operator>>(Operand a, Operand b);
Expr operator==(Operand a, Operand b);
Expr operator!=(Operand a, Operand b);
Expr operator<(Operand a, Operand b);
Expr operator<=(Operand a, Operand b);
Expr operator>(Operand a, Operand b);
Expr operator>=(Operand a, Operand b);
Expr operator&&(Operand a, Operand b);  // evaluates both
Expr operator||(Operand a, Operand b);  // evaluates both
Expr operator-(Operand a);
Expr operator!(Operand a);
Expr operator~(Operand a);

Expr floordiv(Operand a, Operand b);
Expr floormod(Operand a, Operand b);
Expr ceildiv(Operand a, Operand b);
constexpr int64_t ceildiv(int64_t a, int64_t b) { return a / b + (a % b > 0); }
Expr min(Operand a, Operand b);
Expr max(Operand a, Operand b);
Expr select(Operand condition, Operand a, Operand b);
Expr cast(DType type, Operand a);
// A scalar function by its name: "exp", "rsqrt", "tanh", "fma", …
Expr call(std::string_view name, std::initializer_list<Operand> args, Where where = Where::current());
inline Expr exp(Operand x) { return call("exp", {x}, x.where); }
inline Expr exp2(Operand x) { return call("exp2", {x}, x.where); }
inline Expr log(Operand x) { return call("log", {x}, x.where); }
inline Expr sqrt(Operand x) { return call("sqrt", {x}, x.where); }
inline Expr rsqrt(Operand x) { return call("rsqrt", {x}, x.where); }
inline Expr tanh(Operand x) { return call("tanh", {x}, x.where); }
inline Expr sigmoid(Operand x) { return call("sigmoid", {x}, x.where); }
inline Expr abs(Operand x) { return call("abs", {x}, x.where); }

// ── buffers ───────────────────────────────────────────────────────────────────────────────────────────
struct Slice {
  Operand start, stop;
};
inline Slice slice(Operand start, Operand stop) { return {start, stop}; }
struct All {};
inline constexpr All all;

// One dimension of a part of a buffer: a place, a slice, or all of it.
using Index = std::variant<std::monostate, Operand, Slice, All>;
struct TileIndex {
  Index index;
  TileIndex() = default;
  TileIndex(Slice s) : index(s) {}
  TileIndex(All a) : index(a) {}
  template <class T>
    requires std::convertible_to<const T&, Expr>
  TileIndex(const T& v, Where where = Where::current()) : index(Operand(v, where)) {}
};

// A tensor, a tile or a variable of the function being built.
class Buffer {
 public:
  Element operator[](std::initializer_list<Operand> index) const;
  Element operator[](Operand index) const;
  Region operator()(TileIndex a, TileIndex b = {}, TileIndex c = {}, TileIndex d = {},
                    TileIndex e = {}) const;
  std::string name() const;
  DType dtype() const;

 private:
  friend struct detail::Access;
  explicit Buffer(std::shared_ptr<const detail::BufferImpl> impl) : impl(std::move(impl)) {}
  std::shared_ptr<const detail::BufferImpl> impl;
};

// One element: a value when read, a store when assigned.
class Element {
 public:
  void operator=(Operand value) const;
  void operator=(const Element& value) const;
  void operator+=(Operand value) const;
  void operator-=(Operand value) const;
  void operator*=(Operand value) const;

 private:
  friend struct detail::Access;
  Element(Buffer buffer, std::vector<Expr> index, Where where)
      : buffer(std::move(buffer)),
        index(std::move(index)),
        where(where) {}
  Buffer buffer;
  std::vector<Expr> index;
  Where where;
};

// A rectangular part of a buffer.
class Region {
  friend struct detail::Access;
  Region(Buffer buffer, std::vector<TileIndex> index) : buffer(std::move(buffer)), index(std::move(index)) {}
  Buffer buffer;
  std::vector<TileIndex> index;
};

using Tile = std::variant<Buffer, Region>;

// ── functions ─────────────────────────────────────────────────────────────────────────────────────────
// A finished program.
class Function {
 public:
  std::string name() const;
  std::string text() const;  // text IR

 private:
  friend struct detail::Access;
  std::shared_ptr<const detail::FunctionImpl> impl;
};
// Reads text IR; `file` is the name that errors carry.
Function parse(std::string_view text, std::string_view file = "<text>");

// ── where elements live ───────────────────────────────────────────────────────────────────────────────
// The indices of an element -> integers.
using IndexFunction = std::function<std::vector<Expr>(const std::vector<Expr>&)>;

// A map from the indices of a tile to places in memory.
class Layout {
 public:
  Layout(std::vector<int64_t> shape, const IndexFunction& place, Where where = Where::current());
  // Row-major, 16-byte chunks XORed with the row in patterns of 128, 64 or 32 bytes; 0: what fits, if any.
  static Layout swizzled(std::vector<int64_t> shape, DType type, int bytes = 0,
                         Where where = Where::current());
  Layout inverse(Where where = Where::current()) const;
  Layout repeat(int64_t dim, int64_t factor, Where where = Where::current()) const;
  bool operator==(const Layout& other) const;
  std::vector<int64_t> operator()(const std::vector<int64_t>& index, Where where = Where::current()) const;
  std::string text() const;     // "(i, j) -> i*32 + j"
  std::string drawing() const;  // a grid for a terminal
 private:
  friend struct detail::Access;
  explicit Layout(std::shared_ptr<const detail::LayoutImpl> impl) : impl(std::move(impl)) {}
  std::shared_ptr<const detail::LayoutImpl> impl;
};

// A tile spread over registers: element -> {thread, register}.  With several replicas the function takes the
// number of the copy as a last index.
class Fragment {
 public:
  Fragment(std::vector<int64_t> shape, const IndexFunction& place, int64_t replicas = 1,
           Where where = Where::current());
  Fragment repeat(const std::vector<int64_t>& factors, bool on_threads, bool last_dim_first = true,
                  Where where = Where::current()) const;
  Fragment replicate(int64_t copies, Where where = Where::current()) const;
  bool operator==(const Fragment& other) const;
  std::string text() const, drawing() const;

 private:
  friend struct detail::Access;
  explicit Fragment(std::shared_ptr<const detail::FragmentImpl> impl) : impl(std::move(impl)) {}
  std::shared_ptr<const detail::FragmentImpl> impl;
};

// The iterations of a loop: a count, or from start to stop by step.
struct Range {
  Expr start = 0, stop = 0, step = 1;
  template <class T>
    requires std::convertible_to<const T&, Expr>
  Range(const T& count) : stop(count) {}
  Range(Expr start, Expr stop, Expr step = 1)
      : start(std::move(start)),
        stop(std::move(stop)),
        step(std::move(step)) {}
};

// The threads of a block: a count, up to three extents, or the target's default.
struct Threads {
  std::vector<int64_t> extents;
  Threads() = default;
  Threads(int64_t count) : extents{count} {}
  Threads(std::initializer_list<int64_t> extents) : extents(extents) {}
};

struct GemmOptions {
  bool trans_a = false, trans_b = false;
  Expr clear_accum = false;       // or a condition that all threads of the block have the same of
  std::string policy = "square";  // how the warps share C: square, full_row, full_col
};
// Named options of a tile operator.
using Options = std::vector<std::pair<std::string, std::variant<int64_t, double, std::string>>>;

// Makes one Function.  Bodies are callables that take the variables bound.
class Builder {
 public:
  explicit Builder(std::string name);

  Buffer tensor(std::string name, std::initializer_list<Operand> shape, DType type,
                Where where = Where::current());
  Expr scalar(std::string name, DType type, Where where = Where::current());
  // An extent that the tensors of a call give.
  Expr dynamic(std::string name, Where where = Where::current());

  template <class Body>
  void kernel(std::initializer_list<Operand> grid, Threads threads, Body body,
              Where where = Where::current()) {
    run(begin_kernel(grid, threads, where), body, "kernel", where);
    end_kernel();
  }
  template <class Body>
  void serial(std::string name, Range range, Body body, Where where = Where::current()) {
    loop(begin_for("serial", {std::move(name)}, {std::move(range)}, 0, where), body, where);
  }
  template <class Body>
  void unrolled(std::string name, Range range, Body body, Where where = Where::current()) {
    loop(begin_for("unrolled", {std::move(name)}, {std::move(range)}, 0, where), body, where);
  }
  template <class Body>
  void vectorized(std::string name, Range range, Body body, Where where = Where::current()) {
    loop(begin_for("vectorized", {std::move(name)}, {std::move(range)}, 0, where), body, where);
  }
  template <class Body>
  void pipelined(std::string name, Range range, int num_stages, Body body, Where where = Where::current()) {
    loop(begin_for("pipelined", {std::move(name)}, {std::move(range)}, num_stages, where), body, where);
  }
  // Independent iterations over a box; the variables are called i, j, k, l.
  template <class Body>
  void parallel(std::initializer_list<Operand> extents, Body body, Where where = Where::current()) {
    loop(begin_parallel(extents, nullptr, where), body, where);
  }
  // The same, each iteration on the thread that `map` says.
  template <class Body>
  void parallel(std::initializer_list<Operand> extents, const Fragment& map, Body body,
                Where where = Where::current()) {
    loop(begin_parallel(extents, &map, where), body, where);
  }
  template <class Then>
  void when(Operand condition, Then then) {
    begin_if(condition);
    then();
    end_if();
  }
  template <class Then, class Else>
  void when(Operand condition, Then then, Else otherwise) {
    begin_if(condition);
    then();
    begin_else();
    otherwise();
    end_if();
  }

  Buffer alloc_shared(std::string name, std::initializer_list<Operand> shape, DType type,
                      Where where = Where::current());
  Buffer alloc_fragment(std::string name, std::initializer_list<Operand> shape, DType type,
                        Where where = Where::current());
  Buffer alloc_local(std::string name, std::initializer_list<Operand> shape, DType type,
                     Where where = Where::current());
  // A value that may change: set(x, x + 1).
  Buffer alloc_var(std::string name, DType type, Where where = Where::current());
  void set(const Buffer& variable, Operand value);
  // Computes a value once, under a name.
  Expr let(std::string name, Operand value);

  // Where the elements of a shared tile, a tensor or a fragment live: this, not what the compiler chooses.
  void annotate_layout(const Buffer& buffer, const Layout& layout, Where where = Where::current());
  void annotate_layout(const Buffer& buffer, const Fragment& fragment, Where where = Where::current());

  void copy(const Tile& src, const Tile& dst, Where where = Where::current());
  void gemm(const Tile& a, const Tile& b, const Tile& c, const GemmOptions& options = {},
            Where where = Where::current());
  void clear(const Tile& tile, Where where = Where::current());
  void fill(const Tile& tile, Operand value);
  // dst = src folded along dim by sum, max, min, abssum or absmax; onto dst's old value if it is not cleared.
  void reduce(std::string_view fold, const Tile& src, const Tile& dst, int dim = -1, bool clear = true,
              Where where = Where::current());
  // Blocks run in panels of that many columns of the grid (row after row), or of rows ("col").
  void use_swizzle(Operand panel_size, std::string_view order = "row");
  // Any tile operator by its name.
  void tile(std::string_view op, const std::vector<std::variant<Buffer, Region, Expr>>& operands,
            const Options& options = {}, Where where = Where::current());

  Function finish(Where where = Where::current());

 private:
  std::vector<Expr> begin_kernel(std::initializer_list<Operand> grid, const Threads& threads, Where where);
  void end_kernel();
  std::vector<Expr> begin_for(std::string_view kind, std::vector<std::string> names,
                              std::vector<Range> ranges, int num_stages, Where where,
                              const Fragment* map = nullptr);
  std::vector<Expr> begin_parallel(std::initializer_list<Operand> extents, const Fragment* map, Where where);
  void end_for();
  void begin_if(const Operand& condition);
  void begin_else();
  void end_if();
  Buffer alloc(std::string_view scope, std::string name, std::initializer_list<Operand> shape, DType type,
               Where where);
  [[noreturn]] void wrong_body(std::string_view what, size_t variables, Where where);

  template <class Body>
  void run(const std::vector<Expr>& v, Body& body, std::string_view what, Where where) {
    if constexpr (std::is_invocable_v<Body&, Expr>) {
      if (v.size() == 1) return void(body(v[0]));
    } else if constexpr (std::is_invocable_v<Body&, Expr, Expr>) {
      if (v.size() == 2) return void(body(v[0], v[1]));
    } else if constexpr (std::is_invocable_v<Body&, Expr, Expr, Expr>) {
      if (v.size() == 3) return void(body(v[0], v[1], v[2]));
    } else {
      static_assert(std::is_invocable_v<Body&, Expr, Expr, Expr, Expr>, "a body takes 1 to 4 Exprs");
      if (v.size() == 4) return void(body(v[0], v[1], v[2], v[3]));
    }
    wrong_body(what, v.size(), where);
  }
  template <class Body>
  void loop(const std::vector<Expr>& v, Body& body, Where where) {
    run(v, body, "loop", where);
    end_for();
  }

  std::shared_ptr<detail::BuilderImpl> impl;
};

// ── compiled kernels ──────────────────────────────────────────────────────────────────────────────────
// Memory of the caller's, row-major unless strides (in elements) say otherwise.
struct TensorRef {
  void* data = nullptr;
  DType type = f32;
  std::vector<int64_t> shape, strides = {};
  bool readonly = false;
  bool on_gpu = false;  // an address of the GPU `device`
  int device = 0;
};

template <class T>
constexpr DType dtype_of() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::same_as<U, double>)
    return f64;
  else if constexpr (std::same_as<U, float>)
    return f32;
  else if constexpr (std::same_as<U, bool>)
    return boolean;
  else {
    static_assert(std::integral<U>, "name the element type: TensorRef{data, tilelang::f16, shape}");
    constexpr DType types[2][4] = {{u8, u16, u32, u64}, {i8, i16, i32, i64}};
    return types[std::is_signed_v<U>][sizeof(U) == 1 ? 0 : sizeof(U) == 2 ? 1 : sizeof(U) == 4 ? 2 : 3];
  }
}
template <class T>
TensorRef tensor(T* data, std::initializer_list<int64_t> shape) {
  return {.data = const_cast<std::remove_cv_t<T>*>(data),
          .type = dtype_of<T>(),
          .shape = shape,
          .readonly = std::is_const_v<T>};
}

// An argument of a call.
using Argument = std::variant<TensorRef, int64_t, double, uint64_t>;

// A tensor where a kernel can reach it, made by Kernel::to_device; freed with its last copy.
class DeviceTensor {
 public:
  TensorRef ref() const { return view; }
  void to_host(void* data) const;  // row-major; waits for what was launched before
 private:
  friend struct detail::Access;
  TensorRef view;
  std::shared_ptr<detail::MemoryImpl> memory;
};

struct CompileOptions {
  bool cache = true;
  bool fast_math = false;
  bool deterministic = false;           // an error where a result depends on the order of atomic accesses
  bool strict = false;                  // an error where a pipeline that is asked for cannot be had
  std::string cache_dir = {};           // empty: the usual one
  std::string dump_dir = {};            // a folder for the text of every level
  std::vector<std::string> flags = {};  // for the device compiler
};

class Kernel {
 public:
  // Tensors and numbers in the order of the signature.  On a GPU the call returns before it has run.
  template <class... A>
  void operator()(const A&... arguments) const {
    launch({as_argument(arguments)...});
  }
  void launch(const std::vector<Argument>& arguments, uint64_t stream = 0) const;
  void synchronize() const;
  DeviceTensor to_device(const TensorRef& host) const;

  std::string target() const;   // as resolved: "cpu -mcpu=…"
  std::string source() const;   // the generated text
  std::string explain() const;  // why everything is as it is

 private:
  friend struct detail::Access;
  static Argument as_argument(const TensorRef& t) { return t; }
  static Argument as_argument(const DeviceTensor& t) { return t.ref(); }
  template <detail::Number T>
  static Argument as_argument(T number) {
    return detail::held<Argument>(number);
  }
  std::shared_ptr<detail::KernelImpl> impl;
};

// target: "auto" (CUDA where a device answers, else the CPU), "cuda", "cuda -arch=CHIP", "sim:CHIP", "cpu",
// "cpu -mcpu=CHIP", "reference".
Kernel compile(const Function& function, std::string_view target = "auto",
               const CompileOptions& options = {});

}  // namespace tilelang
