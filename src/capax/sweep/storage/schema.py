"""Tables of a store. Change them only together with SCHEMA_VERSION."""

APPLICATION_ID = 0x43415058
"""SQLite's mark for the kind of file: the letters CAPX."""

SCHEMA_VERSION = 2

SCHEMA = (
    """CREATE TABLE meta (
        key TEXT PRIMARY KEY,
        value TEXT NOT NULL
    ) STRICT""",
    """CREATE TABLE sessions (
        session INTEGER PRIMARY KEY,
        started TEXT NOT NULL,
        versions TEXT NOT NULL      -- JSON: packages, Python, device
    ) STRICT""",
    """CREATE TABLE searches (
        panel TEXT NOT NULL,
        number INTEGER NOT NULL,    -- 0 for the first; grows when the settings of a search change
        settings TEXT NOT NULL,     -- JSON
        since TEXT NOT NULL,
        PRIMARY KEY (panel, number)
    ) STRICT""",
    """CREATE TABLE jobs (
        panel TEXT NOT NULL,
        T INTEGER NOT NULL,
        search INTEGER NOT NULL,    -- the search that is finished, or that stopped with `note`
        finished INTEGER NOT NULL CHECK (finished IN (0, 1)),
        note TEXT NOT NULL,         -- what a reader must know: no m in range, no memory
        PRIMARY KEY (panel, T)
    ) STRICT""",
    """CREATE TABLE trials (
        trial_id TEXT PRIMARY KEY,
        panel TEXT NOT NULL,
        T INTEGER NOT NULL,
        m INTEGER NOT NULL,
        number INTEGER NOT NULL,    -- among the trials of this panel at (T, m)
        solved INTEGER NOT NULL CHECK (solved IN (0, 1)),
        reason TEXT NOT NULL,       -- why a trial ended without a verdict of training; mostly empty
        search INTEGER NOT NULL,    -- number of the panel's search that asked for it
        finished TEXT NOT NULL,
        UNIQUE (panel, T, m, number)
    ) STRICT""",
    """CREATE TABLE runs (
        run_id TEXT PRIMARY KEY,
        trial_id TEXT NOT NULL REFERENCES trials,
        restart INTEGER NOT NULL,
        outcome TEXT NOT NULL CHECK (outcome IN ('solved', 'failed', 'diverged')),
        solved_step INTEGER,
        steps INTEGER NOT NULL,
        seconds REAL NOT NULL,
        path TEXT NOT NULL,
        reason TEXT NOT NULL,
        spec TEXT NOT NULL,         -- JSON: everything that determines the run
        curves TEXT NOT NULL,       -- JSON: equal-length series over the evaluated steps
        session INTEGER NOT NULL REFERENCES sessions,
        UNIQUE (trial_id, restart)
    ) STRICT""",
    """CREATE TABLE parameters (
        run_id TEXT PRIMARY KEY REFERENCES runs,
        tensors BLOB NOT NULL       -- safetensors
    ) STRICT""",
)

COLUMNS = {
    "meta": ("key", "value"),
    "sessions": ("session", "started", "versions"),
    "searches": ("panel", "number", "settings", "since"),
    "jobs": ("panel", "T", "search", "finished", "note"),
    "trials": ("trial_id", "panel", "T", "m", "number", "solved", "reason", "search", "finished"),
    "runs": ("run_id", "trial_id", "restart", "outcome", "solved_step", "steps", "seconds",
             "path", "reason", "spec", "curves", "session"),
    "parameters": ("run_id", "tensors"),
}  # fmt: skip
"""The columns of every store, by table."""

_LENGTHS = "NOT T BETWEEN 1 AND 2147483647"
NONSENSE = {
    "searches": "number < 0",
    "jobs": f"{_LENGTHS} OR search < 0",
    "trials": f"{_LENGTHS} OR NOT m BETWEEN 0 AND 2147483647 OR number < 0 OR search < 0",
    "runs": "restart < 0 OR steps < 0 OR solved_step < 0 OR NOT seconds BETWEEN 0 AND 1e12",
}
"""Impossible rows with valid types: a condition by table."""
