-- Nodes may have leases of different lengths.
alter table node add column lease float8 not null default 15;
-- The sessions that want a node, by the place that they are bound to.
drop index session_waiting;
alter table session drop column due;
create index session_wanting on session (place) where wants;
