CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    parent TEXT,            -- of a subagent
    fork_of TEXT,
    directory TEXT,
    title TEXT,
    agent TEXT,
    version TEXT,           -- of Leftfold
    began TEXT NOT NULL,    -- times are UTC, as SQLite's date functions read them
    last TEXT NOT NULL
) STRICT;
CREATE TABLE events (
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at TEXT NOT NULL,
    type TEXT NOT NULL,
    of INTEGER,             -- the event that this one is the outcome of, or is about
    data TEXT NOT NULL,     -- JSON
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE turns (
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,   -- of the prompt
    at TEXT NOT NULL,
    ended TEXT,
    ms INTEGER,
    agent TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    prompt TEXT NOT NULL,
    answer TEXT,
    reason TEXT,            -- NULL: it was cut off, or goes on
    error TEXT,
    steps INTEGER,
    input INTEGER, output INTEGER, reasoning INTEGER, cache_read INTEGER, cache_write INTEGER, -- tokens
    cost REAL,              -- US dollars
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE requests (
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    turn INTEGER,           -- seq of the turn
    at TEXT NOT NULL,
    first_ms INTEGER,       -- until the first piece of the reply
    ms INTEGER,
    agent TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    purpose TEXT NOT NULL,  -- turn, title, compaction, session_summary
    step INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    finish TEXT,
    error TEXT,             -- the class of a failure
    message TEXT,
    status INTEGER,         -- of HTTP
    request_id TEXT,        -- the provider's
    input INTEGER, output INTEGER, reasoning INTEGER, cache_read INTEGER, cache_write INTEGER,
    cost REAL,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE calls (
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,
    turn INTEGER,
    made_by INTEGER,        -- seq of the request, prompt or call
    call_id TEXT NOT NULL,  -- the model's
    at TEXT NOT NULL,
    ms INTEGER,             -- of its run, without questions
    tool TEXT NOT NULL,
    class TEXT,
    arguments TEXT NOT NULL, -- JSON
    action TEXT,            -- of the permission rules: allow, ask, deny
    rule_permission TEXT, rule_pattern TEXT,
    asked INTEGER NOT NULL, -- 1: a person was asked
    outcome TEXT,           -- ok, error, not_run, denied, rejected, timed_out, lost, cancelled; NULL: cut off, or it goes on
    exit_code INTEGER,
    output TEXT,
    subagent TEXT,
    PRIMARY KEY (session, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE files (
    session TEXT NOT NULL,
    seq INTEGER NOT NULL,   -- of files.snapshotted
    turn INTEGER,
    path TEXT NOT NULL,     -- relative to the worktree
    change TEXT NOT NULL,   -- added, modified, deleted
    additions INTEGER NOT NULL,
    deletions INTEGER NOT NULL,
    PRIMARY KEY (session, seq, path)
) STRICT, WITHOUT ROWID;
CREATE VIEW costs AS
SELECT date(at) AS day, session, provider, model, purpose, count(*) AS requests,
    sum(input) AS input, sum(output) AS output, sum(reasoning) AS reasoning,
    sum(cache_read) AS cache_read, sum(cache_write) AS cache_write, sum(cost) AS cost
FROM requests GROUP BY day, session, provider, model, purpose;
CREATE INDEX events_by_type ON events (type);
