-- Subscribers that were created over the API.

-- name: subscriber_tenants
-- Tenants that have any.
select subscriber_tenants() as tenant_id;

-- name: lock_registered_subscribers
-- One transaction at a time creates subscribers of a tenant. $1 text: tenant
select pg_advisory_xact_lock(1818521446, hashtext($1));

-- name: register_subscriber
-- No row where there is one of this name. $1 text: tenant  $2 text: name  $3 text: url, null for one that reads its notifications  $4 text: secret
-- $5 text[]: events  $6 text[]: collections  $7 integer: attempts  $8 double precision: days that a notification is kept
insert into registered_subscribers (tenant_id, name, url, secret, events, collections, attempts, keep_days) values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict do nothing returning created_at;

-- name: is_subscriber_configured
-- Null: there is none of this name. $1 text: tenant  $2 text: name
select configured from subscribers where tenant_id = $1 and name = $2 for update;

-- name: count_registered_subscribers
-- $1 text: tenant
select count(*) from registered_subscribers where tenant_id = $1;

-- name: list_registered_subscribers
-- `is_active`: notifications are written for it. $1 text: tenant
select r.name, r.url, r.secret, r.events, r.collections, r.attempts, r.keep_days, r.created_at, coalesce(s.configured, false) as is_active
from registered_subscribers r left join subscribers s on s.tenant_id = r.tenant_id and s.name = r.name
where r.tenant_id = $1 order by r.name;

-- name: unregister_subscriber
-- $1 text: tenant  $2 text: name
delete from registered_subscribers where tenant_id = $1 and name = $2 returning name;

-- name: delete_subscriber
-- With its pending notifications. $1 text: tenant  $2 text: name
delete from subscribers where tenant_id = $1 and name = $2;
