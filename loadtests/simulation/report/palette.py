"""Colours that everybody can tell apart, on light and on dark paper."""

from typing import NamedTuple


class Ink(NamedTuple):
    """One colour, as hexadecimal RGB."""

    light: str
    """On white."""
    dark: str
    """On black."""


TEXT = Ink("#1d2939", "#e6e9ef")
SOFT = Ink("#667085", "#98a2b3")
GRID = Ink("#e4e7ec", "#2c333f")
OTHERS = Ink("#98a3b5", "#6b7686")
"""Of policies that need no colour of their own in a picture of bars."""

# Okabe and Ito's palette ("Color Universal Design", 2008), a shade darker or lighter where the
# paper needs it.
_BLUE = Ink("#0072b2", "#4aa8e8")
_VERMILLION = Ink("#d55e00", "#ff8a3d")
_GREEN = Ink("#008060", "#2bc492")
_PURPLE = Ink("#b8558f", "#e08fc0")
_ORANGE = Ink("#b27a00", "#f0b429")
_SKY = Ink("#3f9fd8", "#8fd0f5")
_GREY = Ink("#8a8f98", "#8b93a1")

OURS, PEER, ORACLE = "marginal-cost", "vllm", "oracle"
INK_OF_POLICY = {
    OURS: _BLUE,
    ORACLE: TEXT,
    PEER: _VERMILLION,
    "vllm-classic": _ORANGE,
    "least-inflight": _PURPLE,
    "power-of-two": _SKY,
    "round-robin": _GREEN,
}


def ink_of(policy: str) -> Ink:
    """The colour of a policy's line; grey for those that nobody looks for."""
    return INK_OF_POLICY.get(policy, _GREY)


def bar_ink(policy: str) -> Ink:
    """The colour of a policy's bar: the three that are compared stand out."""
    return ink_of(policy) if policy in (OURS, PEER, ORACLE) else OTHERS


def all_inks() -> dict[str, Ink]:
    """Every colour by a name that a style sheet can use."""
    named = {"text": TEXT, "soft": SOFT, "grid": GRID, "others": OTHERS, "grey": _GREY}
    policies = {name: ink for name, ink in INK_OF_POLICY.items() if ink not in named.values()}
    return {f"ink-{name}": ink for name, ink in (named | policies).items()}
