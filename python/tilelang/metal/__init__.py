"""The dialect for Apple GPUs, which are not among the targets: `import tilelang.metal.language as T`."""
