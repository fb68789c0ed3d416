"""What is CUDA's own: the dialect, which is tilelang.language, and makers of matrix instructions by hand."""
