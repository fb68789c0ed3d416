"""The dialect for WebGPU, which is not among the targets: `import tilelang.webgpu.language as T`."""
