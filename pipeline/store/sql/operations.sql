-- name: insert_letter
-- $1 text: letter  $2 text: tenant  $3 text: stage  $4 text: document  $5 bigint: version  $6 text: reason  $7 text: detail
-- $8 integer: attempts  $9 text: topic  $10 jsonb: place  $11 jsonb: headers  $12 bytea: exact bytes
-- One that was sent through again and failed again is in the list again; its bytes, place and headers stay.
insert into dead_letters as l (letter_id, tenant_id, stage, document_id, version, reason, detail, attempts, topic, place, headers, payload)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
on conflict (letter_id) do update
set reason = excluded.reason, detail = excluded.detail, attempts = excluded.attempts, document_id = excluded.document_id, version = excluded.version,
    replayed_at = null
where l.replayed_at is not null and l.payload = excluded.payload
returning xmax = 0 as is_new;

-- name: begin_replay
-- $1 text: tenant  $2 text: letter
update dead_letters set replayed_at = now()
where tenant_id = $1 and letter_id = $2 and (replayed_at is null or replayed_at < now() - interval '15 minutes') returning letter_id;

-- name: cancel_replay
-- $1 text: tenant  $2 text: letter
update dead_letters set replayed_at = null where tenant_id = $1 and letter_id = $2;

-- name: read_replayed
-- $1 text: tenant  $2 text: letter  $3 bytea: exact bytes
select attempts, place, headers from dead_letters where tenant_id = $1 and letter_id = $2 and payload = $3 for update;

-- name: end_replay
-- $1 text: tenant  $2 text: letter  $3 bytea: exact bytes
delete from dead_letters where tenant_id = $1 and letter_id = $2 and payload = $3 and replayed_at is not null;

-- name: list_letters
-- Without those that were sent through again, for as long as that may still have an outcome. $1 text: tenant
select letter_id, stage, document_id, version, reason, detail, attempts, at, octet_length(payload) as size_bytes
from dead_letters
where tenant_id = $1 and (replayed_at is null or replayed_at < now() - interval '15 minutes')
order by at, letter_id;

-- name: page_letters
-- As `list_letters`. $1 text: tenant  $2 text: stage, null for all  $3 timestamptz: only letters after this moment  $4 text: and this id
-- $5 integer: rows at most
select letter_id, stage, document_id, version, reason, detail, attempts, at, octet_length(payload) as size_bytes
from dead_letters
where tenant_id = $1 and (replayed_at is null or replayed_at < now() - interval '15 minutes')
  and ($2::text is null or stage = $2) and at >= $3 and (at, letter_id) > ($3, $4)
order by at, letter_id limit $5;

-- name: read_letter
-- $1 text: tenant  $2 text: letter
select letter_id, tenant_id, stage, document_id, version, reason, detail, attempts, topic, place, headers, payload, at
from dead_letters where tenant_id = $1 and letter_id = $2;

-- name: delete_letter
-- $1 text: tenant  $2 text: letter
delete from dead_letters where tenant_id = $1 and letter_id = $2 returning document_id, version;

-- name: count_letters
-- $1 text: tenant
select count(*) from dead_letters where tenant_id = $1 and (replayed_at is null or replayed_at < now() - interval '15 minutes');

-- name: unmarked_letters
-- Letters that no document is marked by: of bytes that name none, and of pushes that could not be looked up, which are called as no document is.
-- $1 text: tenant
select count(*) from dead_letters l
where l.tenant_id = $1 and l.stage <> 'notify' and (l.replayed_at is null or l.replayed_at < now() - interval '15 minutes')
  and (l.document_id is null or l.version is null
       or (position('"listing":true'::bytea in l.payload) > 0
           and not exists (select from documents d where d.tenant_id = l.tenant_id and d.document_id = l.document_id)));

-- name: set_health
-- $1 text: component  $2 text: state  $3 text: detail  $4 double precision: seconds after which a word on it lapses
insert into health as h (component, state, detail) values ($1, $2, $3)
on conflict (component) do update
set since = case when h.state = excluded.state and (h.state = 'ok' or h.updated_at > now() - make_interval(secs => $4)) then h.since else now() end, state = excluded.state, detail = excluded.detail, updated_at = now();

-- name: read_health
-- $1 double precision: seconds after which a word on a component lapses; a source is spoken of at each scan alone
select h.component, case when l.lapsed then 'ok' else h.state end as state, case when l.lapsed then null else h.detail end as detail,
       case when l.lapsed then h.updated_at else h.since end as since
from health h
cross join lateral (select h.state = 'down' and h.component not like 'source:%' and h.updated_at < now() - make_interval(secs => $1) as lapsed) l
order by h.component;

-- name: probe_writes
-- Changes nothing, and is refused where nothing can be changed.
update health set detail = detail where component = '';

-- name: clear_health
delete from health;

-- name: queue_backlog
-- Waiting, being worked on included.
select queue, count(*) as waiting, extract(epoch from now() - min(created_at))::float8 as oldest_s from queue group by queue;

-- name: queued_since
-- Events on the way that were accepted at or before a moment. $1 text: ISO 8601 in UTC, as in the header
select count(*) from queue where coalesce(headers ->> 'accepted', '') <= $1;

-- name: release_leases
-- Of a process that is known to be gone: at the start of the only one.
update queue set acquired_token = null, acquired_at = null where acquired_token is not null;

-- name: renew_leases
-- $1 uuid[]: tokens that this process works on
update queue set acquired_at = now() where acquired_token = any($1);

-- name: request_reconcile
insert into reconcile_requests default values returning request_id, requested_at;

-- name: open_reconcile_requests
select request_id from reconcile_requests where handled_at is null order by request_id;

-- name: close_reconcile_requests
-- $1 bigint[]: requests  $2 text: what was found
update reconcile_requests set handled_at = now(), detail = $2 where request_id = any($1);

-- name: reconcile_handled
-- $1 bigint: request
select handled_at is not null from reconcile_requests where request_id = $1;

-- name: clear_reconcile_requests
delete from reconcile_requests where requested_at < now() - interval '1 day';

-- name: mark_unused
-- Passages that no document shows, for the first time. $1 text: tenant  $2 double precision: seconds that a passage under way may be old
insert into unused_passages (tenant_id, passage_id)
select p.tenant_id, p.passage_id from passages p
where p.tenant_id = $1 and p.created_at < now() - make_interval(secs => $2)
  and not exists (select from chunks c where c.tenant_id = $1 and c.passage_id = p.passage_id)
  and not exists (select from manifests m where m.tenant_id = $1 and m.passage_ids @> array[p.passage_id])
on conflict do nothing;

-- name: unmark_used
-- $1 text: tenant
delete from unused_passages u where u.tenant_id = $1 and exists (select from chunks c where c.tenant_id = $1 and c.passage_id = u.passage_id);

-- name: clear_unused
-- Passages (and, with them, vectors) that no document has shown for so long. $1 text: tenant  $2 double precision: days
with old as (
    select u.passage_id from unused_passages u
    where u.tenant_id = $1 and u.since < now() - make_interval(secs => $2 * 86400.0)
      and not exists (select from chunks c where c.tenant_id = $1 and c.passage_id = u.passage_id)
      and not exists (select from manifests m where m.tenant_id = $1 and m.passage_ids @> array[u.passage_id])
    order by u.passage_id for update skip locked
)
delete from passages p using old where p.tenant_id = $1 and p.passage_id = old.passage_id;

-- name: has_language
-- $1 text: name of a text search configuration
select exists (select from pg_ts_config where cfgname = $1);
