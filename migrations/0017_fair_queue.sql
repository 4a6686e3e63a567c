-- Rows of the queue are taken by tenants in turn: whose they are stands in a column of its own, with an index that finds the first of each tenant.

alter table queue add column if not exists tenant text not null generated always as (coalesce(headers ->> 'tenant', '')) stored;
create index if not exists queue_by_tenant on queue (queue, tenant, next_attempt_at, id) where acquired_token is null;
drop index if exists queue_pending_idx;
