-- Which sessions name which contents, so that contents that nobody needs can go. The new name of the table ends the
-- appends of nodes of earlier versions, which would not say what they name. `named` is about when contents were named
-- last; contents of before have none, and stay.
alter table payload rename to content;
alter table content add column named timestamptz;
create index content_named on content (named) where named is not null;
create table mention (
    session uuid not null,
    sha256 bytea not null,
    primary key (session, sha256)
);
create index mention_sha256 on mention (sha256);
