-- One row per imported session: a line of JSON that says up to where its log came from elsewhere.
create table imported (
    session uuid primary key,
    note text not null
);
