-- name: known_files
-- What is known of files and of their documents; a row for each path, in no order. `newest` is the newest version of the document anywhere.
-- $1 text: tenant  $2 text: source  $3 bytea[]: paths  $4 text[]: their document ids
-- `before` and `newest_before`: the document that stands for it, where it has another id since its source was renamed.
select n.path, f.fingerprint, f.sha256, coalesce(f.present, false) as present,
       greatest(f.version, d.version, d.pending_version, d.dead_version) as newest,
       coalesce(d.source = $2 and (d.state <> 'deleted' or (d.state is null and d.dead_version is not null)), false) as visible,
       w.path is not null as withheld, b.document_id as before, greatest(f.version, o.version, o.pending_version, o.dead_version) as newest_before
from unnest($3::bytea[], $4::text[]) as n (path, document_id)
left join source_files f on f.tenant_id = $1 and f.source = $2 and f.path = n.path
left join documents d on d.tenant_id = $1 and d.document_id = n.document_id
left join withheld_deletes w on w.tenant_id = $1 and w.source = $2 and w.path = n.path and w.confirmed_at is null
left join lateral (select f.document_id where f.present and f.document_id <> n.document_id) b on true
left join documents o on o.tenant_id = $1 and o.document_id = b.document_id;

-- name: files_between
-- The files whose documents should be there, by path. `outdated`: cut in another way, or with vectors of another generation;
-- `missing`: the index knows nothing as new as what was published, or something newer that is not of this source: somebody else wrote or
-- deleted the document.
-- $1 text: tenant  $2 text: source  $3 bytea: after this path  $4 bytea: before this path  $5 text: how texts are cut, '' for any
-- $6 bigint: the generation, null for any
select f.path, f.fingerprint, f.sha256,
       coalesce(d.state = 'synced' and d.pending_version is null and d.dead_version is null
                and (d.cut <> coalesce(nullif($5, ''), d.cut) or d.generation_id <> $6::bigint), false) as outdated,
       coalesce(greatest(d.version, d.pending_version, d.dead_version), -1) < f.version
       or coalesce(d.version > f.version and (d.state = 'deleted' or d.source <> $2), false) as missing
from source_files f
left join documents d on d.tenant_id = f.tenant_id and d.document_id = f.document_id
where f.tenant_id = $1 and f.source = $2 and f.path > $3 and f.path < $4 and f.present
order by f.path;

-- name: files_below
-- The files of several ranges of paths. $1 text: tenant  $2 text: source  $3 bytea[]: after these paths  $4 bytea[]: before these
select f.path
from unnest($3::bytea[], $4::bytea[]) as n (low, high)
join source_files f on f.tenant_id = $1 and f.source = $2 and f.path > n.low and f.path < n.high and f.present;

-- name: files_ending
-- The files whose fingerprint ends with two given words. $1 text: tenant  $2 text: source  $3 text[]: the two words, apart by a space
select f.path
from source_files f
where f.tenant_id = $1 and f.source = $2 and f.present
  and split_part(f.fingerprint, ' ', -2) || ' ' || split_part(f.fingerprint, ' ', -1) = any($3::text[]);

-- name: record_files
-- A delete that was published, and a file that is there, are no longer withheld.
-- $1 text: tenant  $2 text: source  $3 bytea[]: paths  $4 text[]: document ids  $5 text[]: fingerprints  $6 bytea[]: SHA-256 of the contents or null
-- $7 bigint[]: versions  $8 boolean[]: whether the file is there
with released as (
    delete from withheld_deletes w using unnest($3::bytea[]) as r (path) where w.tenant_id = $1 and w.source = $2 and w.path = r.path
)
insert into source_files as f (tenant_id, source, path, document_id, fingerprint, sha256, version, present)
select $1, $2, n.path, n.document_id, n.fingerprint, n.sha256, n.version, n.present
from unnest($3::bytea[], $4::text[], $5::text[], $6::bytea[], $7::bigint[], $8::boolean[]) as n (path, document_id, fingerprint, sha256, version, present)
on conflict (tenant_id, source, path) do update
set fingerprint = excluded.fingerprint, sha256 = excluded.sha256, version = greatest(f.version, excluded.version), present = excluded.present,
    document_id = excluded.document_id, seen_at = now();

-- name: stray_documents
-- Documents of a source that no file of the ledger stands for; `$3` also those whose delete was published and has come to nothing.
-- $1 text: tenant  $2 text: source  $3 boolean: look for lost deletes too
select d.document_id
from documents d
where d.tenant_id = $1 and d.source = $2 and (d.state <> 'deleted' or (d.state is null and d.dead_version is not null))
  and not exists (
      select from source_files f
      where f.tenant_id = $1 and f.source = $2 and f.document_id = d.document_id
        and (f.present or not $3 or d.pending_version is not null or f.version <= greatest(d.version, d.dead_version)));

-- name: load_progress
-- Files whose documents should be there, and of these how many documents have ended in that version or a newer one.
-- $1 text: tenant  $2 text: source
select count(*) as published, count(*) filter (where greatest(d.version, d.dead_version) >= f.version) as done
from source_files f
left join documents d on d.tenant_id = f.tenant_id and d.document_id = f.document_id
where f.tenant_id = $1 and f.source = $2 and f.present;

-- name: source_passages
-- Distinct passages that the documents of a source show. $1 text: tenant  $2 text: source
select count(distinct c.passage_id)
from documents d
join chunks c on c.tenant_id = d.tenant_id and c.doc_id = d.doc_id
where d.tenant_id = $1 and d.source = $2;
