-- Subscribers: who is told outside of what becomes of documents.

-- name: configure_subscriber
-- As the settings have it. $1 text: tenant  $2 text: name  $3 text[]: events  $4 text[]: collections  $5 boolean: reads for itself
-- $6 double precision: days that a notice waits at most
insert into subscribers as s (tenant_id, name, events, collections, reads, keep_days) values ($1, $2, $3, $4, $5, $6)
on conflict (tenant_id, name) do update
set events = excluded.events, collections = excluded.collections, reads = excluded.reads, keep_days = excluded.keep_days, configured = true
where (s.events, s.collections, s.reads, s.keep_days, s.configured)
      is distinct from (excluded.events, excluded.collections, excluded.reads, excluded.keep_days, true);

-- name: add_subscriber
-- Where its row is gone, with all else of a tenant that was emptied. $1 text: tenant  $2 text: name  $3 text[]: events  $4 text[]: collections
-- $5 boolean: reads for itself  $6 double precision: days that a notice waits at most
insert into subscribers (tenant_id, name, events, collections, reads, keep_days) values ($1, $2, $3, $4, $5, $6) on conflict do nothing;

-- name: configured_subscribers
-- Those that the settings name, as `add_subscriber` takes them. $1 text: tenant
select s.name, s.events, s.collections, s.reads, s.keep_days from subscribers s
where s.tenant_id = $1 and s.configured and not exists (
    select from registered_subscribers r where r.tenant_id = $1 and r.name = s.name)
order by s.name;

-- name: forget_other_subscribers
-- Nothing is written any more for those that neither the settings name nor the API created. $1 text: tenant  $2 text[]: names that the settings do
update subscribers s set configured = false
where s.tenant_id = $1 and s.configured and s.name <> all($2) and not exists (
    select from registered_subscribers r where r.tenant_id = $1 and r.name = s.name)
returning s.name;

-- name: remove_forgotten_subscribers
-- Once nothing waits for them. $1 text: tenant
delete from subscribers s where s.tenant_id = $1 and not s.configured and not exists (
    select from notices n where n.tenant_id = $1 and n.subscriber = s.name);

-- name: list_subscribers
-- $1 text: tenant
select s.name, s.events, s.collections, s.reads, s.configured, s.failures, s.refusals, s.stopped_at, s.problem,
       greatest(extract(epoch from s.paused_until - now())::float8, 0.0) as pause_s, n.waiting,
       coalesce(extract(epoch from now() - n.oldest)::float8, 0.0) as oldest_s,
       exists (select from registered_subscribers r where r.tenant_id = $1 and r.name = s.name) as registered
from subscribers s, lateral (
    select count(*) as waiting, min(n.at) as oldest from notices n where n.tenant_id = $1 and n.subscriber = s.name) as n
where s.tenant_id = $1 order by s.name;

-- name: subscriber_failed
-- Pause it, longer with each failure in a row, 5 minutes at most. What was under way when it was paused is no further failure.
-- $1 text: tenant  $2 text: name  $3 text: what failed  $4 double precision: seconds that it asks for at least, 0 where it does not
update subscribers
set problem = $3, failures = case when paused_until > now() then failures else failures + 1 end,
    paused_until = case when paused_until > now() then greatest(paused_until, now() + make_interval(secs => $4))
                        else now() + make_interval(secs => greatest($4, least(power(2, least(failures, 9)), 300.0))) end
where tenant_id = $1 and name = $2
returning extract(epoch from paused_until - now())::float8 as pause_s;

-- name: subscriber_refused
-- It answered, and did not take what it was sent. $1 text: tenant  $2 text: name  $3 text: what it answered
update subscribers set problem = $3, refusals = refusals + 1, failures = 0, paused_until = null where tenant_id = $1 and name = $2;

-- name: subscriber_works
-- $1 text: tenant  $2 text: name
update subscribers set failures = 0, refusals = 0, paused_until = null, problem = null
where tenant_id = $1 and name = $2 and (failures > 0 or refusals > 0);

-- name: stop_subscriber
-- It wants to be told no more. $1 text: tenant  $2 text: name  $3 text: why
update subscribers set stopped_at = now(), problem = $3 where tenant_id = $1 and name = $2 and stopped_at is null;

-- name: resume_subscriber
-- Send to it again, and at once. $1 text: tenant  $2 text: name
with resumed as (
    update subscribers set stopped_at = null, paused_until = null, problem = null, failures = 0, refusals = 0
    where tenant_id = $1 and name = $2 returning name
), due as (
    update notices n set due_at = now() from resumed r where n.tenant_id = $1 and n.subscriber = r.name and n.due_at > now()
)
select pg_notify('livedex_notices', r.name), r.name from resumed r;
