"""The migrations as one SQL script, for administrators who do not run `livedex migrate`."""

from __future__ import annotations

from livedex.pipeline.store.schema.database_roles import DEFAULT_ROLES, DatabaseRoles
from livedex.pipeline.store.schema.migrator import BOOTSTRAP_SQL, all_migrations
from livedex.pipeline.store.schema.sql_text import dollar_quoted

_SET_SEARCH_PATH = """\
select set_config('search_path', 'public' || coalesce((
    select ', ' || quote_ident(n.nspname) from pg_extension e join pg_namespace n
      on n.oid = e.extnamespace
    where e.extname = 'vector' and n.nspname <> 'public'), ''), {local});
"""
_DO_BLOCK = """\
do {body};
"""


def migration_script(roles: DatabaseRoles = DEFAULT_ROLES) -> str:
    """Return a script that does what `migrate` does on an empty database. It can be run repeatedly,
    and applies only missing migrations.

    Args:
        roles: of the installation.
    """
    path = _SET_SEARCH_PATH.format(local="false")
    parts = [
        "-- prepare\nselect set_config('search_path', 'public', false);\n"
        f"{roles.render(BOOTSTRAP_SQL)}{path}"
    ]
    for m in all_migrations():
        body = f"""
begin
    if exists (select from migrations where number = {m.number} and sha256 <> '{m.sha256}') then
        raise exception
            '{m.name} was changed after it was applied: restore it and add a new migration instead';
    end if;
    if not exists (select from migrations where number = {m.number}) then
        execute {dollar_quoted(roles.render(m.sql))};
        insert into migrations (number, name, sha256) values ({m.number}, '{m.name}', '{m.sha256}');
    end if;
end """
        parts.append(f"-- {m.name}\n" + _DO_BLOCK.format(body=dollar_quoted(body)))
    return "\n".join([*parts, "reset search_path;\n"])
