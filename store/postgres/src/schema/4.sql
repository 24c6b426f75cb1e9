-- What became of messages, until their senders know. A message that an append has settled has a row from that commit on,
-- at first without `body`.
create table outcome (
    message uuid primary key,
    at timestamptz not null default clock_timestamp(),
    body bytea
);
