"""attndb: a database for KV caches. It keeps keys and values durably, and attends over them.

    import attndb

    with attndb.open("store") as db:
        session, rest = db.create_session(spec, prompt)  # rest: the model must run these tokens
        ...                                              # session.append, session.attend
        db.store(session, all_tokens, name="manual")     # durable when it returns

:mod:`attndb.hf` runs transformers models over attndb. This module needs numpy only.
"""

from attndb import _core
from attndb._capture import capture
from attndb._custom import (
    CustomIndex,
    CustomKey,
    CustomPart,
    CustomQuery,
    CustomRows,
    CustomSelection,
)
from attndb._db import DB, SessionStart, open
from attndb._errors import (
    AlreadyExistsError,
    BusyError,
    CancelledError,
    CorruptionError,
    Error,
    FailedPreconditionError,
    InternalError,
    OtherModelError,
    InvalidArgumentError,
    IoError,
    NotFoundError,
    ReadOnlyError,
    ResourceExhaustedError,
    UnsupportedError,
)
from attndb._kv_file import KvFile, write_kv_file
from attndb._results import (
    BuildReport,
    CompanionInfo,
    ContextInfo,
    CriticalTokens,
    Cut,
    Damage,
    Explain,
    FindResult,
    HeadExplain,
    LayerExplain,
    MachineProfile,
    Passage,
    PrefixExplain,
    RoomReport,
    SegmentInfo,
    SessionContext,
    SimulatedModel,
    SimulatedRun,
    SimulateReport,
    SkippedContext,
    Stats,
    Substitute,
    VerifyReport,
)
from attndb._server import Answer, Imported, Server, Stream, connect
from attndb._session import Session, attend_batch
from attndb._simulate import simulate
from attndb._spec import LayerSpec, ModelSpec, Rope

__version__ = _core.version()

__all__ = [
    "DB",
    "AlreadyExistsError",
    "Answer",
    "BuildReport",
    "BusyError",
    "CancelledError",
    "CompanionInfo",
    "ContextInfo",
    "CorruptionError",
    "CustomIndex",
    "CustomKey",
    "CustomPart",
    "CustomQuery",
    "CustomRows",
    "CustomSelection",
    "Damage",
    "Error",
    "Explain",
    "FailedPreconditionError",
    "FindResult",
    "CriticalTokens",
    "Cut",
    "HeadExplain",
    "Imported",
    "InternalError",
    "OtherModelError",
    "InvalidArgumentError",
    "IoError",
    "KvFile",
    "LayerExplain",
    "LayerSpec",
    "MachineProfile",
    "ModelSpec",
    "NotFoundError",
    "Passage",
    "PrefixExplain",
    "ReadOnlyError",
    "ResourceExhaustedError",
    "RoomReport",
    "Rope",
    "SegmentInfo",
    "Server",
    "Session",
    "SessionContext",
    "SessionStart",
    "SimulateReport",
    "SimulatedModel",
    "SimulatedRun",
    "SkippedContext",
    "Stats",
    "Substitute",
    "Stream",
    "UnsupportedError",
    "VerifyReport",
    "__version__",
    "attend_batch",
    "capture",
    "connect",
    "open",
    "simulate",
    "write_kv_file",
]
