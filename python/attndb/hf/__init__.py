"""attndb under Hugging Face transformers >= 5.12: the model has the weights, attndb the context.

    import attndb, attndb.hf

    attndb.hf.use(model)                                   # Once per model.
    with attndb.open("store") as db:
        cache, ids = attndb.hf.create_session(db, model, input_ids)
        output = model.generate(**ids, past_key_values=cache)
        cache.store(name="manual")                         # A later process can reuse it.

A forward that gets an :class:`AttndbCache` attends in attndb. Any other forward of the same model
runs exactly as before :func:`use`. A model or an argument that attndb does not support raises
:class:`attndb.UnsupportedError` before the model makes a token.

Attention in attndb has no gradient: a backward pass through it raises an error. All tensors must be
on the CPU.
"""

from __future__ import annotations

for _name in ("torch", "transformers"):
    try:
        __import__(_name)
    except ImportError as error:
        raise ImportError(f"attndb.hf needs {_name}: pip install {_name}", name=_name) from error

import transformers as _transformers

if tuple(int(part) for part in _transformers.__version__.split(".")[:2]) < (5, 12):
    raise ImportError(
        f"attndb.hf needs transformers >= 5.12, found {_transformers.__version__}",
        name="transformers",
    )

from attndb.hf._binding import spec, stop, use
from attndb.hf._cache import AttndbCache
from attndb.hf._fingerprint import fingerprint
from attndb.hf._question import Question, find_question
from attndb.hf._session import create_session, create_session_over

__all__ = [
    "AttndbCache",
    "Question",
    "create_session",
    "create_session_over",
    "find_question",
    "fingerprint",
    "spec",
    "stop",
    "use",
]
