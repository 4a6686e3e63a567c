-- name: withhold_deletes
-- $1 text: tenant  $2 text: source  $3 bytea[]: paths  $4 text: reason
insert into withheld_deletes (tenant_id, source, path, reason) select $1, $2, n.path, $4 from unnest($3::bytea[]) as n (path)
on conflict do nothing;

-- name: release_deletes
-- Of files that are there again. $1 text: tenant  $2 text: source  $3 bytea[]: paths
delete from withheld_deletes where tenant_id = $1 and source = $2 and path = any($3::bytea[]);

-- name: confirm_deletes
-- $1 text: tenant  $2 text: source
update withheld_deletes set confirmed_at = now() where tenant_id = $1 and source = $2 and confirmed_at is null;

-- name: withheld_paths
-- $1 text: tenant  $2 text: source
select path, confirmed_at is not null as confirmed from withheld_deletes where tenant_id = $1 and source = $2;

-- name: read_source
-- $1 text: tenant  $2 text: source
select path, device, inode, mounts from sources where tenant_id = $1 and name = $2;

-- name: keep_source
-- What a scan found of a folder. $1 text: tenant  $2 text: source  $3 text: path  $4 text: device  $5 text: inode  $6 jsonb: mounts  $7 jsonb: left out
insert into sources as s (tenant_id, name, path, device, inode, mounts, left_out, scanned_at) values ($1, $2, $3, $4, $5, $6, $7, now())
on conflict (tenant_id, name) do update
set path = excluded.path, device = excluded.device, inode = excluded.inode, mounts = excluded.mounts, left_out = excluded.left_out,
    scanned_at = now(), reported_at = now(), left_at = null;

-- name: keep_mounts
-- Before files below them are published. $1 text: tenant  $2 text: source  $3 text: path  $4 jsonb: mounts
insert into sources as s (tenant_id, name, path, mounts) values ($1, $2, $3, $4)
on conflict (tenant_id, name) do update set mounts = excluded.mounts, reported_at = now();

-- name: report_sources
-- A watcher names the sources that it watches. $1 text: tenant  $2 text[]: names  $3 text[]: paths  $4 text: watcher
insert into sources as s (tenant_id, name, path, watcher) select $1, n.name, n.path, $4 from unnest($2::text[], $3::text[]) as n (name, path)
on conflict (tenant_id, name) do update set watcher = excluded.watcher, reported_at = now(), left_at = null;

-- name: meet_sources
-- Folders that were watched before sources were kept. $1 text: tenant
insert into sources (tenant_id, name) select distinct tenant_id, source from source_files where tenant_id = $1 on conflict do nothing;

-- name: leave_sources
-- Those of a watcher that it no longer names. $1 text: tenant  $2 text[]: names that it names  $3 text: watcher  $4 boolean: it is the only one there is
update sources set left_at = now()
where tenant_id = $1 and not (name = any($2::text[])) and left_at is null and (watcher = $3 or $4);

-- name: list_sources
-- With the documents that each shows, and sources that send, which are no folders. Orphaned: its watcher started without it.
-- $1 text: tenant
with held as (
    select source as name, count(*) filter (where coalesce(state, 'deleted') <> 'deleted' or (state is null and dead_version is not null)
                                               or (pending_version is not null and get_byte(pending_digest, 0) = 0)) as documents
    from documents where tenant_id = $1 and source <> '' group by source
), withheld as (
    select source as name, count(*) as withheld from withheld_deletes where tenant_id = $1 and confirmed_at is null group by source
)
select coalesce(s.name, h.name) as name, s.name is not null as is_folder, coalesce(s.path, '') as path, s.device, s.inode, s.scanned_at, s.reported_at,
       s.left_out, coalesce(h.documents, 0) as documents, coalesce(w.withheld, 0) as withheld, s.left_at is not null as orphaned
from (select * from sources where tenant_id = $1) s
full join held h on h.name = s.name
left join withheld w on w.name = coalesce(s.name, h.name)
where s.name is not null or h.documents > 0
order by 1;

-- name: source_documents
-- Documents of a source that are there or on their way, in the order of their ids, with the newest version that is known of each.
-- $1 text: tenant  $2 text: source  $3 text: only ids above this one, '' for all  $4 integer: rows at most
select document_id, greatest(version, pending_version, dead_version) as newest, collection
from documents
where tenant_id = $1 and source = $2 and document_id > $3 and hidden_version is null
  and (dead_version > coalesce(version, -1) or coalesce(state, 'deleted') <> 'deleted' or (pending_version is not null and get_byte(pending_digest, 0) = 0))
order by document_id limit $4;

-- name: forget_source
-- $1 text: tenant  $2 text: source
with files as (delete from source_files where tenant_id = $1 and source = $2),
     withheld as (delete from withheld_deletes where tenant_id = $1 and source = $2)
delete from sources where tenant_id = $1 and name = $2;

-- name: count_present_files
-- $1 text: tenant  $2 text: source
select count(*) from source_files where tenant_id = $1 and source = $2 and present;

-- name: forget_absent_files
-- $1 text: tenant  $2 text: source
delete from source_files where tenant_id = $1 and source = $2 and not present;

-- name: rename_source
-- The ledger goes with the name, and still says what each document is called; the next scan publishes them by their new ids and deletes the old ones.
-- $1 text: tenant  $2 text: name until now  $3 text: new name
with files as (update source_files set source = $3 where tenant_id = $1 and source = $2),
     withheld as (update withheld_deletes set source = $3 where tenant_id = $1 and source = $2),
     gone as (delete from sources where tenant_id = $1 and name = $2 returning path, device, inode, mounts, watcher, left_out, scanned_at)
insert into sources as s (tenant_id, name, path, device, inode, mounts, watcher, left_out, scanned_at)
select $1, $3, g.path, g.device, g.inode, g.mounts, g.watcher, g.left_out, g.scanned_at from gone g
on conflict (tenant_id, name) do update
set device = excluded.device, inode = excluded.inode, mounts = excluded.mounts, left_at = null;
