// The arguments of a Python call, as the runtime's arguments.  Nothing is copied: the views borrow from the
// objects, and live as long as this.
#pragma once
#include "api/kernel.h"
#include "arrays.h"

class Arguments {
 public:
  Arguments(const tl::Program& wanted, size_t count, bool on_gpu);
  // All of a call, and its stream asked of the arrays' library where `stream` is not given.
  Arguments(const tl::Program& wanted, nb::handle const* objects, size_t count, bool on_gpu,
            std::optional<tl::Stream> stream);
  Arguments(const Arguments&) = delete;

  // The objects' places among the parameters are `params`; what is not set is None.
  void read_all(nb::handle const* objects, std::span<const size_t> params, std::optional<tl::Stream> wanted);
  void read(size_t param, nb::handle object) { read(param, object, array_type(Py_TYPE(object.ptr()))); }
  // An array allocated for the result: it has no other user, so it may be written whatever its library says.
  void read_new(size_t param, nb::handle object) {
    read(param, object);
    if (auto* view = std::get_if<tl::TensorView>(&items[param])) view->readonly = false, view->fresh = true;
  }
  std::span<const tl::Argument> list() const { return {items, count}; }
  tl::Stream stream = 0;
  nb::handle model;  // the first array; null where there is none

 private:
  static constexpr size_t few = 64;
  const tl::Program& program;
  size_t count;
  bool on_gpu;
  alignas(tl::Argument) std::byte small[few * sizeof(tl::Argument)];
  std::vector<tl::Argument> large;
  tl::Argument* items;
  Borrowed borrowed;

  void read(size_t param, nb::handle object, ArrayType& type);
  void read_tensor(const tl::ParamSpec& spec, nb::handle object, ArrayType& type, tl::Argument& out);
  bool find_stream();
};
