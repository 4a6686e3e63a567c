-- The folders that watchers keep the index true to, and deletes that wait for a confirmation.

create table if not exists sources (
    tenant_id   text    not null,
    name        text    not null,
    path        text    not null default '',        -- absolute, of the folder or the file
    device      text    not null default '',        -- of the folder when it was last scanned; '': never
    inode       text    not null default '',
    mounts      jsonb   not null default '{}',      -- mount points below it: hexadecimal relative path to "device:inode"
    left_out    jsonb   not null default '{}',      -- files that are no documents: {"formats": {".pdf": 20}, "secrets": [...]}
    watcher     text    not null default '',        -- the installation that watches it; '': not known
    scanned_at  timestamptz,
    reported_at timestamptz not null default now(), -- a watcher named it last
    left_at     timestamptz,                        -- its watcher started without it; null: it did not
    primary key (tenant_id, name)
);
comment on table sources is 'Folders that are or were watched. A source that its watcher no longer names is orphaned: its documents stay until somebody removes it.';

create table if not exists withheld_deletes (
    tenant_id    text  not null,
    source       text  not null,
    path         bytea not null,                    -- of a file that was not there at a scan, and whose document was kept
    reason       text  not null,                    -- 'many': too many were gone at once; 'mount': it lies below a mount point that is not mounted
    withheld_at  timestamptz not null default now(),
    confirmed_at timestamptz,                       -- somebody said that it is to be deleted; the next scan does
    primary key (tenant_id, source, path)
);

do $$
declare
    name text;
begin
    foreach name in array array['sources', 'withheld_deletes'] loop
        execute format('alter table %I enable row level security', name);
        execute format('alter table %I force row level security', name);
        execute format('drop policy if exists own_rows on %I', name);
        execute format('create policy own_rows on %I using (tenant_id = (select current_setting(''livedex.tenant'', true)))
                        with check (tenant_id = (select current_setting(''livedex.tenant'', true)))', name);
        execute format('grant select, insert, update, delete on %I to livedex_app', name);
        execute format('drop trigger if exists refuse_deleted_tenant on %I', name);
        execute format('create trigger refuse_deleted_tenant before insert on %I for each statement execute function refuse_deleted_tenant()', name);
    end loop;
end $$;
