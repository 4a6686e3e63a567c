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

-- name: has_keys
-- Whether any key opens something.
select has_api_keys();

-- name: note_key_use
-- At most once a minute. $1 text: tenant  $2 text: id
update api_keys set last_used_at = now()
where tenant_id = $1 and key_id = $2 and (last_used_at is null or last_used_at < now() - interval '1 minute');
