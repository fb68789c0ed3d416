"""The dialect for CPUs: `import tilelang.cpu.language as T`."""
