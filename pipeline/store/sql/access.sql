-- name: create_key
-- $1 text: tenant  $2 text: id  $3 text: name  $4 bytea: SHA-256 of the key  $5 text[]: scopes  $6 double precision: days until it expires, null for never
insert into api_keys (tenant_id, key_id, name, sha256, scopes, expires_at)
values ($1, $2, $3, $4, $5, now() + make_interval(secs => $6 * 86400.0))
returning key_id, name, scopes, created_at, expires_at, revoked_at, last_used_at;

-- name: list_keys
-- $1 text: tenant
select key_id, name, scopes, created_at, expires_at, revoked_at, last_used_at from api_keys where tenant_id = $1 order by created_at, key_id;

-- name: revoke_key
-- And tell every process. $1 text: tenant  $2 text: id
with revoked as (
    update api_keys set revoked_at = coalesce(revoked_at, now()) where tenant_id = $1 and key_id = $2 returning key_id
)
select pg_notify('livedex_keys', key_id) from revoked;

-- name: forget_keys
-- All of a tenant, and tell every process. $1 text: tenant
with gone as (delete from api_keys where tenant_id = $1 returning key_id)
select pg_notify('livedex_keys', key_id) from gone;

-- name: find_key
-- Whosever it is. $1 text: id
select tenant_id, sha256, scopes, revoked, expires_in_s, used_before_s from find_api_key($1);

-- name: was_key_made
-- Whether a key was ever made, also one that opens nothing any more.
select exists (select from keys_made);

-- name: note_key_made
insert into keys_made default values on conflict do nothing;

-- name: note_key_use
-- At most once a minute. $1 text: tenant  $2 text: id
update api_keys set last_used_at = now()
where tenant_id = $1 and key_id = $2 and (last_used_at is null or last_used_at < now() - interval '1 minute');

-- name: take_rate
-- Take requests from a bucket that fills evenly and holds one minute's; as many of those asked for as there are, and none is taken twice.
-- $1 text: credential  $2 integer: requests a minute  $3 integer: asked for
insert into rate_buckets as b (credential, tokens, granted, filled_at)
values ($1, $2::integer - least($3::integer, $2), least($3, $2), now())
on conflict (credential) do update
set (tokens, granted, filled_at) = (
    select f.tokens - g.granted, g.granted, greatest(b.filled_at, now())
    from (select least($2, b.tokens + greatest(0, extract(epoch from now() - b.filled_at)) * $2 / 60.0)::float8 as tokens) f
    cross join lateral (select floor(least($3, f.tokens))::integer as granted) g)
returning granted, tokens;

-- name: take_slot
-- Whether one more request may be under way. $1 text: credential  $2 bigint: holder  $3 integer: requests at once, of all holders
-- $4 double precision: seconds after which a holder that did not renew is gone
select take_request_slot($1, $2, $3, $4);

-- name: release_slots
-- $1 text[]: credentials, each once  $2 integer[]: how many of each  $3 bigint: holder
with n as (select * from unnest($1::text[], $2::integer[]) as n (credential, slots)),
gone as (delete from request_slots s using n where s.credential = n.credential and s.holder = $3 and s.slots <= n.slots)
update request_slots s set slots = s.slots - n.slots, renewed_at = now()
from n where s.credential = n.credential and s.holder = $3 and s.slots > n.slots;

-- name: renew_slots
-- $1 bigint: holder
update request_slots set renewed_at = now() where holder = $1;

-- name: clear_limits
-- Of credentials that asked nothing for an hour: their buckets are full.
with slots as (delete from request_slots where renewed_at < now() - interval '1 hour')
delete from rate_buckets where filled_at < now() - interval '1 hour';
