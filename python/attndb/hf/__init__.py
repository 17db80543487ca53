"""attndb under Hugging Face transformers >= 5.12: the model keeps weights, attndb the context.

    import attndb, attndb.hf

    attndb.hf.use(model)                                   # Once a model.
    with attndb.open("store") as db:
        cache, ids = attndb.hf.create_session(db, model, input_ids)
        output = model.generate(**ids, past_key_values=cache)
        cache.store(name="manual")                         # A later process starts from it.

A forward that is given an :class:`AttndbCache` attends in attndb; any other forward of the same
model runs exactly as before :func:`use`. What can't be honoured raises
:class:`attndb.UnsupportedError` before any token is made.

Attention in attndb has no gradient: a backward pass through it raises. CPU tensors only.
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
