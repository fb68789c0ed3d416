"""The dialect for AMD GPUs, which are not among the targets yet: `import tilelang.rocm.language as T`."""
