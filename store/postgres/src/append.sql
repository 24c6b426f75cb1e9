with a as (
    select * from unnest(
        $1::uuid[], $2::int8[], $3::bytea[], $4::int8[], $5::int8[], $6::int8[], $7::bytea[], $8::bytea[],
        $9::bytea[], $15::bool[], $16::bytea[], $17::int4[], $18::int4[], $19::float8[]
    ) with ordinality as a(session, expected, before, epoch, first, last, link, head, body, wants,
        project, first_prompt, last_day, last_cost, n)
), settled as (
    select * from unnest($13::int8[], $14::uuid[]) as settled(n, id)
), locked as materialized (
    select s.id from session s join a on a.session = s.id order by s.id for update of s
), moved as (
    update session s set seq = a.last, link = a.link, head = a.head, wants = a.wants, project = a.project,
        first_prompt = a.first_prompt, last_day = a.last_day, last_cost = a.last_cost
    from a join locked on locked.id = a.session
    where s.id = a.session and s.seq = a.expected and s.link = a.before and s.epoch = a.epoch
        and not exists (
            select from settled where settled.n = a.n and not exists (
                select from inbox where inbox.id = settled.id))
    returning a.n, a.session, a.first, a.last, a.body
), batches as (
    insert into batch (session, first, last, body) select session, first, last, body from moved
), contents as (
    -- what was named lately is not removed, see `retention`; other contents are locked until the commit
    insert into content (sha256, body, named)
    select distinct on (p.sha256) p.sha256, p.body, clock_timestamp()
    from unnest($10::int8[], $11::bytea[], $12::bytea[]) as p(n, sha256, body)
    where p.n in (select n from moved) and not exists (
        select from content c where c.sha256 = p.sha256
            and (c.named is null or c.named > clock_timestamp() - interval '1 day'))
    order by p.sha256
    on conflict (sha256) do update set named = excluded.named
        where content.named < clock_timestamp() - interval '1 day'
), mentions as (
    insert into mention (session, sha256)
    select distinct moved.session, p.sha256
    from unnest($10::int8[], $11::bytea[]) as p(n, sha256) join moved on moved.n = p.n
    on conflict do nothing
), gone as (
    delete from inbox using settled
    where inbox.id = settled.id and settled.n in (select n from moved)
    returning inbox.id
), concluded as (
    insert into outcome (message) select id from gone on conflict do nothing
)
select n from moved
