-- name: read_tenant
-- With the number of documents to be seen and of keys that open something. $1 text: tenant
select t.created_at,
       (select count(*) from documents d
        where d.tenant_id = $1 and (d.dead_version > coalesce(d.version, -1) or coalesce(d.state, 'deleted') <> 'deleted' or get_byte(d.pending_digest, 0) = 0))
           as documents,
       (select count(*) from api_keys k where k.tenant_id = $1 and k.revoked_at is null and (k.expires_at is null or k.expires_at > now())) as keys
from tenants t where t.tenant_id = $1;

-- name: tenant_deleted_at
-- $1 text: tenant
select deleted_at from deleted_tenants where tenant_id = $1;

-- name: forget_tenant_deletion
-- So that there may be a tenant of this name again. $1 text: tenant
delete from deleted_tenants where tenant_id = $1;

-- name: lock_tenant_writes
-- Wait for every transaction that writes for a tenant, and keep others waiting; see `refuse_deleted_tenant`. $1 text: tenant
select pg_advisory_xact_lock(1818521444, hashtext($1));

-- name: mark_tenant_deleted
-- $1 text: tenant
insert into deleted_tenants (tenant_id) values ($1) on conflict do nothing;

-- name: count_tenant_rows
-- In each table, of the tenant of this transaction.
select name, number from count_tenant_rows() where number > 0;

-- name: remove_tenant_rows
-- Of the tenant of this transaction; 0 when there are none left. $1 integer: rows at most
select remove_tenant_rows($1);

-- name: remove_tenant
-- $1 text: tenant
delete from tenants where tenant_id = $1;

-- name: queued_payloads
-- $1 bigint: rows after this one  $2 integer: rows at most
select id, payload from queue where id > $1 order by id limit $2;

-- name: remove_queued
-- $1 bigint[]: rows
delete from queue where id = any($1);
