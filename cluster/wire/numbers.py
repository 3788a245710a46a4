"""Numbers as messages carry them: whoever sends one out of all bounds is not understood.

An incarnation of 2**62 or a load of NaN would be believed for ever; here it is no message at all.
"""

from typing import Annotated

from msgspec import Meta

Place = Annotated[int, Meta(ge=0, lt=65_536)]
"""An engine's rank or a frontend's index."""
Count = Annotated[int, Meta(ge=0, le=2**53)]
"""A number of things, or one of a rising sequence."""
Finite = Annotated[float, Meta(ge=-1e15, le=1e15)]
"""A float that sums and comparisons survive: neither NaN nor infinite."""
