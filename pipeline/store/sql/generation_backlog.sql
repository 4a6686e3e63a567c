-- name: generation_is_incomplete
-- Whether any document lacks vectors of the generation; each part walks the index. $1 text: tenant  $2 bigint: generation
select exists (select from documents where tenant_id = $1 and chunk_count > 0 and generation_id < $2)
    or exists (select from documents where tenant_id = $1 and chunk_count > 0 and generation_id > $2)
    or exists (select from documents where tenant_id = $1 and chunk_count > 0 and generation_id is null);

-- name: documents_of_other_generations
-- A page of them, the newest changes first. $1 text: tenant  $2 bigint: generation  $3 timestamptz, $4 bigint: after the document of this time
-- and number  $5 integer: documents at most
select doc_id, synced_at from documents
where tenant_id = $1 and chunk_count > 0 and (generation_id < $2 or generation_id > $2 or generation_id is null) and (synced_at, doc_id) < ($3, $4)
order by synced_at desc, doc_id desc limit $5;

-- name: lacking_passages
-- Passages of documents without a vector in the generation, each once, with their texts; vectors are looked up one by one.
-- $1 text: tenant  $2 bigint[]: documents' numbers  $3 bigint: after this passage  $4 integer: passages at most
with shown as materialized (
    select distinct c.passage_id from chunks c where c.tenant_id = $1 and c.doc_id = any($2) and c.passage_id > $3
), lacking as materialized (
    select s.passage_id from shown s
    where (select true from {vectors} v where v.tenant_id = $1 and v.passage_id = s.passage_id) is null order by s.passage_id limit $4
)
select p.passage_id, p.content from lacking l join passages p on p.tenant_id = $1 and p.passage_id = l.passage_id order by p.passage_id;

-- name: finish_generation
-- Note that documents have all their vectors, but for passages that the model refuses. A document that somebody works on is left for the next time.
-- $1 text: tenant  $2 bigint: generation  $3 bigint[]: documents' numbers  $4 bigint[]: refused passages  $5 text[]: why, of each
with refused as materialized (
    select * from unnest($4::bigint[], $5::text[]) as r (passage_id, why)
), free as materialized (
    select doc_id from documents where tenant_id = $1 and doc_id = any($3) order by document_id for no key update skip locked
), whole as materialized (
    select f.doc_id, (select min(r.why) from chunks c join refused r using (passage_id) where c.tenant_id = $1 and c.doc_id = f.doc_id) as why
    from free f
    where not exists (
        select from chunks c
        where c.tenant_id = $1 and c.doc_id = f.doc_id and (select true from {vectors} v where v.tenant_id = $1 and v.passage_id = c.passage_id) is null
          and c.passage_id not in (select r.passage_id from refused r))
)
update documents d
set generation_id = $2, error = case when w.why is not null then w.why when d.error like 'not embedded: %' then null else d.error end
from whole w where d.tenant_id = $1 and d.doc_id = w.doc_id
returning d.doc_id;

-- name: doubt_generation
-- Of documents that are said to have vectors in the generation, forget it of those that lack one. $1 text: tenant  $2 bigint[]: documents' numbers
update documents d set generation_id = null
where d.tenant_id = $1 and d.doc_id = any($2) and d.generation_id is not null
  and exists (select from chunks c
              where c.tenant_id = $1 and c.doc_id = d.doc_id and (select true from {vectors} v where v.tenant_id = $1 and v.passage_id = c.passage_id) is null);

-- name: documents_of_generation
-- A page of them by number. $1 text: tenant  $2 bigint: generation  $3 bigint: after this number  $4 integer: documents at most
select doc_id from documents where tenant_id = $1 and chunk_count > 0 and generation_id = $2 and doc_id > $3 order by doc_id limit $4;

-- name: generation_left
-- Documents that lack vectors of the generation, or are not known to have them all, and passages that lack one. $1 text: tenant  $2 bigint: generation
with left_over as materialized (
    select doc_id from documents
    where tenant_id = $1 and chunk_count > 0 and (generation_id < $2 or generation_id > $2 or generation_id is null)
)
select (select count(*) from left_over) as documents,
       (select count(*) from (
            select distinct c.passage_id from left_over l join chunks c on c.tenant_id = $1 and c.doc_id = l.doc_id
            where (select true from {vectors} v where v.tenant_id = $1 and v.passage_id = c.passage_id) is null) as lacking) as passages;

-- name: everything_left
-- As `generation_left`, for a model that never answered. $1 text: tenant
select count(distinct c.doc_id) as documents, count(distinct c.passage_id) as passages from chunks c where c.tenant_id = $1;
