-- name: take_claims
-- Claims of others stay until their leases have run out; those are taken over. What comes back is ours.
-- $1 text: tenant  $2 bigint: generation  $3 bigint[]: passages, each once  $4 bigint: holder  $5 double precision: seconds of a lease
insert into embedding_claims as c (tenant_id, generation_id, passage_id, holder, expires_at)
select $1, $2, n, $4, clock_timestamp() + make_interval(secs => $5) from unnest($3::bigint[]) as n order by n
on conflict (tenant_id, generation_id, passage_id) do update set holder = excluded.holder, expires_at = excluded.expires_at
where c.holder = excluded.holder
   or (c.expires_at < clock_timestamp()
       and not exists (select from embedding_holders h where h.holder = c.holder and h.expires_at >= clock_timestamp()))
returning passage_id;

-- name: vectors_there
-- $1 text: tenant  $2 bigint[]: passages
select passage_id from {vectors} where tenant_id = $1 and passage_id = any($2);

-- name: release_claims
-- Rows are locked in the order of their passages, as `take_claims` does. $1 text: tenant  $2 bigint: generation  $3 bigint[]: passages
-- $4 bigint[]: numbers that the holder had
with own as materialized (
    select passage_id from embedding_claims
    where tenant_id = $1 and generation_id = $2 and passage_id = any($3) and holder = any($4) order by passage_id for update
)
delete from embedding_claims c using own o where c.tenant_id = $1 and c.generation_id = $2 and c.passage_id = o.passage_id;

-- name: begin_holder
-- $1 bigint: holder  $2 double precision: seconds of a lease
insert into embedding_holders (holder, expires_at) values ($1, clock_timestamp() + make_interval(secs => $2));

-- name: renew_holder
-- Nothing comes back where the lease has run out: its claims may be somebody else's by now. $1 bigint: holder  $2 double precision: seconds of a lease
update embedding_holders set expires_at = clock_timestamp() + make_interval(secs => $2)
where holder = $1 and expires_at >= clock_timestamp() returning holder;

-- name: end_holder
-- $1 bigint: holder
delete from embedding_holders where holder = $1;

-- name: clear_holders
delete from embedding_holders where expires_at < clock_timestamp() - interval '1 hour';

-- name: clear_claims
-- Of holders that are gone. $1 text: tenant
delete from embedding_claims c
where c.tenant_id = $1 and c.expires_at < clock_timestamp()
  and not exists (select from embedding_holders h where h.holder = c.holder and h.expires_at >= clock_timestamp());
