-- That a key was ever made, also once it is revoked, expired or deleted: from then on every request needs one.

create table if not exists keys_made (
    one     boolean primary key default true check (one),
    made_at timestamptz not null default now()
);
grant select, insert on keys_made to livedex_app;

-- Tells every process at once, through the channel on which revoked keys are told.
create or replace function note_key_made() returns trigger
    language plpgsql set search_path = pg_catalog, public, pg_temp
    as $$
begin
    insert into public.keys_made default values on conflict do nothing;
    perform pg_notify('livedex_keys', '');
    return null;
end $$;
create or replace trigger note_key_made after insert on api_keys for each statement execute function note_key_made();
