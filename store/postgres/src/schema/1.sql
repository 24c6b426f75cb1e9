-- A node has its sessions as long as `until` has not passed. `since` is when its lease began: a node
-- takes over sessions of others only after a whole lease of its own, so that nobody does right after
-- the database was away.
create table node (
    id uuid primary key default gen_random_uuid(),
    until timestamptz not null,
    since timestamptz not null,
    labels text[] not null
);

-- One row per session: its last event, and who may append. All sessions of a family have the epoch of
-- its root. Updates of `seq`, `link` and `head` touch no index, so with free room in each page they
-- leave nothing for vacuum to do.
create table session (
    id uuid primary key,
    family uuid not null,
    seq bigint not null default 0,
    link bytea not null,
    epoch bigint not null default 0,
    owner uuid,
    place text,
    wants boolean not null default false,
    due timestamptz,
    head bytea
) with (fillfactor = 60);
create index session_family on session (family);
create index session_owner on session (owner) where owner is not null;
create index session_waiting on session (due) where wants and owner is null;

-- One row per batch. The ids of sessions begin with their time, so a partition holds the sessions of
-- one month, and dropping it forgets them.
create table batch (
    session uuid not null,
    first bigint not null,
    last bigint not null check (last >= first),
    body bytea not null,
    primary key (session, first)
) partition by range (session);
create table batch_other partition of batch default;

create table payload (
    sha256 bytea primary key,
    body bytea not null
);

-- Messages for the owners of sessions: prompts, answers, interrupts.
create table inbox (
    id uuid primary key,
    session uuid not null,
    posted timestamptz not null default clock_timestamp(),
    body bytea not null
);
create index inbox_session on inbox (session, posted);
