-- Filters of a search on more of a document than its metadata.

create or replace function filter_subject(
    metadata jsonb, document_id text, source text, mime_type text, changed_at timestamptz, synced_at timestamptz)
    returns jsonb
    language sql stable parallel safe set search_path = pg_catalog, pg_temp
    as $$
    select jsonb_build_object(
        'metadata', metadata,
        'document', jsonb_build_object(
            'document_id', document_id, 'source', source, 'mime_type', mime_type,
            'changed_at', to_char(changed_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US'),
            'synced_at', to_char(synced_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US')))
$$;
revoke all on function filter_subject(jsonb, text, text, text, timestamptz, timestamptz) from public;
grant execute on function filter_subject(jsonb, text, text, text, timestamptz, timestamptz) to livedex_app;
