-- name: charge_embeddings
-- Count passages that were embedded, for the source and the manifest of the version that needed them; those without a version go to the source of
-- a document that shows them. The last statement of its transaction.
-- $1 text: tenant  $2 text: model  $3 numeric: US dollars for a token, null where unknown  $4 bigint[]: passages  $5 bigint[]: tokens of each
-- $6 bigint[]: estimated tokens of each  $7 integer[]: of each the place of its version in the lists, from 1; null where there is none
-- $8 text[]: documents  $9 bigint[]: versions  $10 bytea[]: digests  $11 text[]: sources; null: that of the manifest
with version as materialized (
    select n.place, n.document_id, n.version, n.digest, coalesce(n.source, m.attributes ->> 'source') as source
    from unnest($8::text[], $9::bigint[], $10::bytea[], $11::text[]) with ordinality as n (document_id, version, digest, source, place)
    left join manifests m on m.tenant_id = $1 and m.document_id = n.document_id and m.version = n.version and m.digest = n.digest
), charged as materialized (
    select p.place, p.tokens, p.estimated,
           coalesce(v.source, case when p.place is null then (
               select d.source from chunks c join documents d on d.tenant_id = $1 and d.doc_id = c.doc_id
               where c.tenant_id = $1 and c.passage_id = p.passage_id limit 1) end, '') as source
    from unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::integer[]) as p (passage_id, tokens, estimated, place)
    left join version v on v.place = p.place
), bill as materialized (
    select v.document_id, v.version, v.digest, count(*) as texts, sum(c.tokens) as tokens, sum(c.estimated) as estimated
    from charged c join version v on v.place = c.place group by 1, 2, 3
), locked as materialized (
    select m.document_id, m.version, m.digest
    from manifests m join bill b on m.document_id = b.document_id and m.version = b.version and m.digest = b.digest
    where m.tenant_id = $1 order by 1, 2, 3 for no key update of m
), billed as (
    update manifests m
    set embedded_texts = coalesce(m.embedded_texts, 0) + b.texts, embedded_tokens = coalesce(m.embedded_tokens, 0) + b.tokens,
        estimated_tokens = coalesce(m.estimated_tokens, 0) + b.estimated
    from locked l join bill b using (document_id, version, digest)
    where m.tenant_id = $1 and m.document_id = l.document_id and m.version = l.version and m.digest = l.digest
)
insert into embedding_costs as e (tenant_id, day, source, model_id, slot, texts, tokens, cost, unpriced_tokens)
select $1, (now() at time zone 'utc')::date, c.source, $2, pg_backend_pid() % 16, count(*), sum(c.tokens), coalesce(sum(c.tokens) * $3::numeric, 0),
       case when $3::numeric is null then sum(c.tokens) else 0 end
from charged c group by c.source order by c.source
on conflict (tenant_id, day, source, model_id, slot) do update
set texts = e.texts + excluded.texts, tokens = e.tokens + excluded.tokens, cost = e.cost + excluded.cost,
    unpriced_tokens = e.unpriced_tokens + excluded.unpriced_tokens;

-- name: count_version_costs
-- Count what versions that became visible embedded at once and reused. The last statement of its transaction.
-- $1 text: tenant  $2 text: model  $3 numeric: US dollars for a token, null where unknown  $4 text[]: sources  $5 bigint[]: passages embedded with
-- the version  $6 bigint[]: their tokens  $7 bigint[]: passages reused  $8 bigint[]: their tokens, estimated
insert into embedding_costs as e (tenant_id, day, source, model_id, slot, texts, tokens, cost, unpriced_tokens, reused_texts, saved_tokens, saved_cost)
select $1, (now() at time zone 'utc')::date, n.source, $2, pg_backend_pid() % 16, sum(n.texts), sum(n.tokens), coalesce(sum(n.tokens) * $3::numeric, 0),
       case when $3::numeric is null then sum(n.tokens) else 0 end, sum(n.reused), sum(n.saved), coalesce(sum(n.saved) * $3::numeric, 0)
from unnest($4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]) as n (source, texts, tokens, reused, saved)
group by n.source order by n.source
on conflict (tenant_id, day, source, model_id, slot) do update
set texts = e.texts + excluded.texts, tokens = e.tokens + excluded.tokens, cost = e.cost + excluded.cost,
    unpriced_tokens = e.unpriced_tokens + excluded.unpriced_tokens, reused_texts = e.reused_texts + excluded.reused_texts,
    saved_tokens = e.saved_tokens + excluded.saved_tokens, saved_cost = e.saved_cost + excluded.saved_cost;

-- name: count_query_costs
-- $1 text: tenant  $2 text: model  $3 numeric: US dollars for a token, null where unknown  $4 bigint: texts  $5 bigint: tokens
insert into embedding_costs as e (tenant_id, day, source, model_id, slot, queries, query_tokens, query_cost)
values ($1, (now() at time zone 'utc')::date, '', $2, pg_backend_pid() % 16, $4::bigint, $5::bigint, coalesce($5::bigint * $3::numeric, 0))
on conflict (tenant_id, day, source, model_id, slot) do update
set queries = e.queries + excluded.queries, query_tokens = e.query_tokens + excluded.query_tokens, query_cost = e.query_cost + excluded.query_cost;

-- name: read_costs
-- By day, source and model. $1 text: tenant  $2 integer: days, today included  $3 text: source, null for all  $4 text: model, null for all
select day, source, model_id, sum(texts) as texts, sum(tokens) as tokens, sum(cost) as cost, sum(unpriced_tokens) as unpriced_tokens,
       sum(reused_texts) as reused_texts, sum(saved_tokens) as saved_tokens, sum(saved_cost) as saved_cost,
       sum(queries) as queries, sum(query_tokens) as query_tokens, sum(query_cost) as query_cost
from embedding_costs
where tenant_id = $1 and day > (now() at time zone 'utc')::date - $2::integer and ($3::text is null or source = $3) and ($4::text is null or model_id = $4)
group by day, source, model_id order by day, source, model_id;

-- name: merge_costs
-- Slots of past days; nobody writes them any more. $1 text: tenant
with old as (
    delete from embedding_costs
    where tenant_id = $1 and day < (now() at time zone 'utc')::date - 1
      and (day, source, model_id) in (select day, source, model_id from embedding_costs
                                      where tenant_id = $1 and day < (now() at time zone 'utc')::date - 1 group by 1, 2, 3 having count(*) > 1)
    returning *
)
insert into embedding_costs (tenant_id, day, source, model_id, slot, texts, tokens, cost, unpriced_tokens, reused_texts, saved_tokens, saved_cost,
                             queries, query_tokens, query_cost)
select tenant_id, day, source, model_id, 16, sum(texts), sum(tokens), sum(cost), sum(unpriced_tokens), sum(reused_texts), sum(saved_tokens),
       sum(saved_cost), sum(queries), sum(query_tokens), sum(query_cost)
from old group by 1, 2, 3, 4;
