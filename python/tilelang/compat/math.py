"""Small integer helpers for tile sizes and grids."""


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    """The least power of two >= n; 1 for n <= 1."""
    return 1 << (n - 1).bit_length() if n > 1 else 1
