// The asynchronous copies that a program begins and groups itself, and waits for: T.async_copy,
// T.ptx_cp_async, T.ptx_commit_group, T.ptx_wait_group.
#pragma once
#include "ir/build.h"
#include "ir/kernel.h"

namespace tl {

// The operator that begins one.
bool is_async_copy(const Stmt& s);
// What a body is where nothing is asynchronous: each copy has landed before the next statement.
Stmt with_copies_in_order(const Function& f, const Stmt& body);

}  // namespace tl
