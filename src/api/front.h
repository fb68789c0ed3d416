// The implementation behind the handles of tilelang.h.
#pragma once
#include "api/builder.h"
#include "api/kernel.h"
#include "api/layout.h"
#include "api/tilelang.h"

namespace tilelang::detail {

struct ExprImpl {
  tl::Expr expr;
};
struct BuilderImpl {
  tl::Builder builder;
};
struct BufferImpl {
  tl::Buffer buffer;
  std::shared_ptr<BuilderImpl> owner;
};
struct LayoutImpl {
  tl::Layout layout;
};
struct FragmentImpl {
  tl::Fragment fragment;
};
struct FunctionImpl {
  tl::Function function;
};
struct KernelImpl {
  std::shared_ptr<tl::CompiledKernel> kernel;
};

tl::Span span_of(const Where& where);
tl::DType type_of(DType type);
tl::TensorView view_of(const TensorRef& t);
DType type_from(tl::DType type);

// The one friend of the handles.
struct Access {
  static tl::Value value(const Expr& e);
  static std::vector<tl::Value> values(const std::vector<Expr>& list);
  static std::vector<tl::Value> values(std::initializer_list<Operand> list);
  static Expr expr(tl::Expr e);
  static const tl::Buffer& buffer(const Buffer& b);
  static Buffer buffer(std::shared_ptr<BuilderImpl> owner, tl::Buffer b);
  static tl::Builder& builder(const Buffer& b);
  static Element element(const Buffer& buffer, std::initializer_list<Operand> index, Where where);
  static Region region(const Buffer& buffer, std::vector<TileIndex> index);
  static Expr load(const Element& e);
  static void store(const Element& e, const Operand& value);
  static tl::TileOperand tile(const Tile& t);
  static Layout layout(tl::Layout l);
  static const tl::Layout& layout(const Layout& l);
  static Fragment fragment(tl::Fragment f);
  static const tl::Fragment& fragment(const Fragment& f);
  static Function function(tl::Function f);
  static const tl::Function& function(const Function& f);
  static Kernel kernel(std::shared_ptr<tl::CompiledKernel> k);
  static DeviceTensor device_tensor(TensorRef view, std::shared_ptr<MemoryImpl> memory);
};

}  // namespace tilelang::detail
