"""The published module paths, and the names of other projects that kernels import: forwarders, which
nobody inside imports."""
