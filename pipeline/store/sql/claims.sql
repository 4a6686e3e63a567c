-- name: take_claims
-- Claims of others that live stay; those of the dead are taken over. What comes back is ours.
-- $1 text: tenant  $2 bigint: generation  $3 bigint[]: passages, each once  $4 bigint: holder
insert into embedding_claims as c (tenant_id, generation_id, passage_id, holder)
select $1, $2, n, $4 from unnest($3::bigint[]) as n order by n
on conflict (tenant_id, generation_id, passage_id) do update set holder = excluded.holder
where c.holder = excluded.holder or not exists (
    select from pg_locks l
    where l.locktype = 'advisory' and l.objsubid = 1 and l.granted
      and l.database = (select oid from pg_database where datname = current_database())
      and ((l.classid::bigint << 32) | l.objid::bigint) = c.holder)
returning passage_id;

-- name: vectors_there
-- $1 text: tenant  $2 bigint[]: passages
select passage_id from {vectors} where tenant_id = $1 and passage_id = any($2);

-- name: release_claims
-- Rows are locked in the order of their passages, as `take_claims` does. $1 text: tenant  $2 bigint: generation  $3 bigint[]: passages
-- $4 bigint: holder
with own as materialized (
    select passage_id from embedding_claims
    where tenant_id = $1 and generation_id = $2 and passage_id = any($3) and holder = $4 order by passage_id for update
)
delete from embedding_claims c using own o where c.tenant_id = $1 and c.generation_id = $2 and c.passage_id = o.passage_id;

-- name: clear_claims
-- Of holders that are gone. $1 text: tenant
delete from embedding_claims c
where c.tenant_id = $1 and not exists (
    select from pg_locks l
    where l.locktype = 'advisory' and l.objsubid = 1 and l.granted
      and l.database = (select oid from pg_database where datname = current_database())
      and ((l.classid::bigint << 32) | l.objid::bigint) = c.holder);
