-- A ULID begins with 48 bits of milliseconds, so a month of ids is a range.
do $$
declare
    month timestamp;
    low uuid;
    high uuid;
    name text;
begin
    -- before anything is looked up: what was looked up once is remembered
    perform pg_advisory_xact_lock(7810488366211427);
    for ahead in 0..MONTHS loop
        month := date_trunc('month', now() at time zone 'UTC') + make_interval(months => ahead);
        name := 'batch_' || to_char(month, 'YYYY_MM');
        continue when to_regclass(name) is not null;
        low := rpad(lpad(to_hex((extract(epoch from month) * 1000)::bigint), 12, '0'), 32, '0')::uuid;
        month := month + interval '1 month';
        high := rpad(lpad(to_hex((extract(epoch from month) * 1000)::bigint), 12, '0'), 32, '0')::uuid;
        execute format('create table %I (like batch including all)', name);
        execute format(
            'with moved as (delete from batch_other where session >= %L and session < %L returning *)
             insert into %I select * from moved', low, high, name);
        execute format(
            'alter table batch attach partition %I for values from (%L) to (%L)', name, low, high);
    end loop;
end
$$;
