"""Small integer helpers for tile sizes and grids."""


def cdiv(a: int, b: int) -> int:
    """a / b, rounded up."""
    return -(-a // b)


def next_power_of_2(x: int) -> int:
    """The least power of two >= x; 1 for x <= 1."""
    return 1 << (x - 1).bit_length() if x > 1 else 1
