-- What sessions have used of the quotas of their projects: the hash of the project's folder, the day of the first prompt
-- (null for subagents), and the day of the last event with the cost on it. Days count from 1970-01-01, UTC. The
-- indexed columns change once a day at most, so that an update of the others touches no index.
alter table session add column project bytea;
alter table session add column first_prompt int;
alter table session add column last_day int;
alter table session add column last_cost float8;
create index session_use on session (project, last_day) where project is not null;
