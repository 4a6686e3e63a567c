-- Notices: what subscribers have still to be told. They are written by `end_syncs` and by `tell_of_letter`.

-- name: tell_of_letter
-- In the transaction that writes the letter. A subscriber to some collections is told if the document's is or would have been among them.
-- $1 text: tenant  $2 text: letter  $3 text: stage  $4 text: document, null where unknown  $5 bigint: version, null where unknown
-- $6 text: reason  $7 text: collection that the version would have had, null where the event does not say
with about as materialized (
    select gen_random_uuid() as event_id, d.collection as had,
           coalesce($7, (select m.attributes ->> 'collection' from manifests m
                         where m.tenant_id = $1 and m.document_id = $4 and m.version = $5 limit 1), d.collection) as collection
    from (select) as one left join documents d on d.tenant_id = $1 and d.document_id = $4
), notice as (
    insert into notices (tenant_id, subscriber, event_id, kind, document_id, version, data)
    select $1, s.name, a.event_id, 'dead', $4, $5,
           jsonb_build_object('collection', a.collection, 'stage', $3::text, 'reason', $6::text, 'letter_id', $2::text)
    from about a join subscribers s on s.tenant_id = $1 and s.configured and 'dead' = any(s.events)
         and (s.collections = '{}' or a.collection = any(s.collections) or a.had = any(s.collections))
    returning subscriber
)
select pg_notify('livedex_notices', n.subscriber) from notice n;

-- name: look_at_subscriber
-- $1 text: tenant  $2 text: subscriber
select failures, refusals, problem, stopped_at is not null as stopped, greatest(extract(epoch from paused_until - now())::float8, 0.0) as pause_s
from subscribers where tenant_id = $1 and name = $2;

-- name: take_notices
-- Those that are due, of each document only the oldest, for as long as a lease lasts. $1 text: tenant  $2 text: subscriber
-- $3 integer: notices at most  $4 double precision: seconds of the lease
with due as (
    select n.notice_id from notices n
    where n.tenant_id = $1 and n.subscriber = $2 and n.due_at <= now() and (n.taken_until is null or n.taken_until <= now())
      and not exists (select from notices e
                      where e.tenant_id = $1 and e.subscriber = $2 and e.document_id = n.document_id and e.notice_id < n.notice_id)
    order by n.due_at, n.notice_id limit $3 for update skip locked
)
update notices n set taken_until = now() + make_interval(secs => $4) from due where n.tenant_id = $1 and n.notice_id = due.notice_id
returning n.notice_id, n.subscriber, n.event_id, n.kind, n.document_id, n.version, n.data || coalesce(n.bill, '{}') as data, n.at, n.attempts, n.taken_until as leased_until;

-- name: remove_notices
-- They were told. $1 text: tenant  $2 bigint[]: notices
delete from notices where tenant_id = $1 and notice_id = any($2);

-- name: postpone_notice
-- An attempt failed; not where somebody else has it by now. $1 text: tenant  $2 bigint: notice  $3 timestamptz: until when it was taken
-- $4 double precision: seconds until the next attempt  $5 integer: attempts that this one counts as
update notices set attempts = attempts + $5, due_at = now() + make_interval(secs => $4), taken_until = null
where tenant_id = $1 and notice_id = $2 and taken_until = $3;

-- name: release_notices
-- Of processes that are known to be gone. $1 text: tenant
update notices set taken_until = null where tenant_id = $1 and taken_until is not null;

-- name: take_expired_notices
-- Those that wait for too long, oldest first, by a lease. $1 text: tenant  $2 text: subscriber  $3 integer: notices at most
-- $4 double precision: seconds of the lease
with old as (
    select n.notice_id from notices n join subscribers s on s.tenant_id = $1 and s.name = n.subscriber
    where n.tenant_id = $1 and n.subscriber = $2 and n.at < now() - make_interval(secs => s.keep_days * 86400.0)
      and (n.taken_until is null or n.taken_until <= now())
    order by n.notice_id limit $3 for update of n skip locked
)
update notices n set taken_until = now() + make_interval(secs => $4) from old where n.tenant_id = $1 and n.notice_id = old.notice_id
returning n.notice_id, n.subscriber, n.event_id, n.kind, n.document_id, n.version, n.data || coalesce(n.bill, '{}') as data, n.at, n.attempts, n.taken_until as leased_until;

-- name: clear_notices
-- What nobody has read for too long, or was set up to be told and is no more. What is told at a URL becomes dead letters; a week later it goes from
-- here where nobody sees to that. $1 text: tenant
delete from notices n using subscribers s
where n.tenant_id = $1 and s.tenant_id = $1 and s.name = n.subscriber
  and n.at < now() - make_interval(days => case when s.reads or not s.configured then 0 else 7 end, secs => s.keep_days * 86400.0);

-- name: read_notices
-- In the order in which they are read. $1 text: tenant  $2 text: subscriber  $3 integer: notices at most
select notice_id, subscriber, event_id, kind, document_id, version, data || coalesce(bill, '{}') as data, at, attempts, taken_until as leased_until
from notices where tenant_id = $1 and subscriber = $2 order by notice_id limit $3;

-- name: put_notice
-- To be told again. $1 text: tenant  $2 text: subscriber  $3 uuid: event  $4 text: kind  $5 text: document  $6 bigint: version  $7 jsonb: data
-- $8 timestamptz: of what it tells
with notice as (
    insert into notices (tenant_id, subscriber, event_id, kind, document_id, version, data, at) values ($1, $2, $3, $4, $5, $6, $7, $8)
    returning subscriber
)
select pg_notify('livedex_notices', n.subscriber) from notice n;
