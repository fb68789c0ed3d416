// A program that fails, made smaller for as long as it fails: delta debugging on text IR.
#pragma once
#include <functional>
#include <string>

namespace tl {

// `text` is text IR at any level, and fails(text) holds; it holds of what is returned.  Tried in turn, until
// none of it helps: fewer kernels and statements, bodies without their loops and conditions, smaller
// expressions, smaller numbers, fewer attributes, buffers and parameters.  `tell`, where given, hears of each
// smaller text.
std::string shrink(const std::string& text, const std::function<bool(const std::string&)>& fails,
                   const std::function<void(const std::string&)>& tell = {});

}  // namespace tl
