// PyTorch's tensors by the C functions of libtorch (aoti_torch_get_…, whose ABI is stable): a third of the
// time that DLPack's table takes.  Where the tensor lies in its Python object, and what its numbers for
// types and devices mean, is learnt by comparison with `_cdata` and with DLPack; what disagrees is left to
// DLPack.
#pragma once
#include "api/kernel.h"
#include "convert.h"
#include "dlpack.h"

namespace torch_tensors {

// Is this torch.Tensor or torch.nn.Parameter itself?  Subclasses may have no memory of their own.
bool is_plain(PyTypeObject* type);
// Does its memory hold the negated numbers?  DLPack does not say so.
bool is_negated(PyObject* object, bool is_plain);
// False: ask DLPack.
bool read(PyObject* object, const dlpack::ExchangeApi& api, tl::TensorView& view);
// Whether autograd records what is done now; PyTorch is there.
bool is_recording();

}  // namespace torch_tensors
