-- What an accepted change does before its event is processed, and what a delete without a version does to changes that arrive late.

alter table documents
    add column if not exists next_version   bigint, -- the version whose rights next_acl are; they hold until it, or a newer one, is visible
    add column if not exists next_digest    bytea,
    add column if not exists hidden_version bigint, -- an accepted delete that is not carried out yet: the document is shown to nobody
    add column if not exists hidden_digest  bytea,
    add column if not exists arrived_at     timestamptz, -- when the broker took the newest accepted change
    add column if not exists arrived_place  bigint[], -- its partition and offset, on Kafka
    add column if not exists cleared_at     timestamptz, -- a delete without a version: what arrived before it never becomes visible
    add column if not exists cleared_place  bigint[];
create index if not exists documents_hidden on documents (tenant_id, doc_id) where hidden_version is not null;

-- Whether one record arrived before another, or at the same time. Records of one partition are in the order of their offsets; the times of a batch are
-- equal. A record that is behind another in its partition is not before it, whatever the clocks say.
create or replace function arrived_before(at timestamptz, place bigint[], other_at timestamptz, other_place bigint[]) returns boolean
    language sql immutable parallel safe
    return coalesce(at <= other_at, false) and coalesce(place[1] <> other_place[1] or place[2] < other_place[2], true);

-- A tenant of this name holds the dead letters of records that do not say whose they are: deleting it lost the letters of all later ones.
do $$
begin
    perform set_config('livedex.tenant', '_unknown', true);
    delete from deleted_tenants where tenant_id = '_unknown';
    perform set_config('livedex.tenant', '', true);
end $$;
