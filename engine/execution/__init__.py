"""The only place with torch: weights, forward pass, attention, sampling."""

import os

# transformers reads them when it is imported, which every module here may be the first to do.
os.environ["HF_HUB_OFFLINE"] = "1"  # no network, ever
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
