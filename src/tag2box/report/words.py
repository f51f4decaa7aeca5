"""Words made to fit, and numbers made not to say more than is so."""

import math


def shorten(name: str, most: int = 48) -> str:
    """A long name without its middle, on one line.

    >>> shorten("a/very/long/name.jpg", most=11)
    'a/ver….jpg'
    """
    name = " ".join(name.split())
    return name if len(name) <= most else f"{name[: most // 2].rstrip()}…{name[1 - most // 2 :].lstrip()}"


def rounded_down(value: float) -> str:
    """Two digits that are never more than the value: an overlap short of a half is not said to be one.

    >>> rounded_down(0.4997), rounded_down(0.29), rounded_down(1)
    ('0.49', '0.29', '1.00')
    """
    return f"{math.floor(round(100 * value, 6)) / 100:.2f}"


def told_apart(low: float, high: float) -> tuple[str, str]:
    """Two numbers with as many digits as it takes to see which one is larger, two at least.

    >>> told_apart(0.22, 0.4402), told_apart(0.4391, 0.4402), told_apart(0.44018, 0.44021)
    (('0.22', '0.44'), ('0.439', '0.440'), ('0.4402', '0.4402'))
    """
    return next(pair for digits in (2, 3, 4) if (pair := _both(low, high, digits))[0] != pair[1] or digits == 4)


def share_of(count: int, of: int) -> str:
    """A share in per cent; few are not none, and most are not all.

    >>> share_of(1, 250), share_of(249, 250), share_of(0, 250), share_of(208, 276), share_of(0, 0)
    ('under 1\xa0%', 'over 99\xa0%', '0\xa0%', '75\xa0%', 'none')
    """
    if not of:
        return "none"
    share = 100 * count / of
    if 0 < share < 1:
        return "under 1\u00a0%"
    return "over 99\u00a0%" if 99 < share < 100 else f"{share:.0f}\u00a0%"


def _both(low: float, high: float, digits: int) -> tuple[str, str]:
    return f"{low:.{digits}f}", f"{high:.{digits}f}"
