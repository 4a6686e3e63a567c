"""The schema as a script, for administrators who run it by other means than `livedex migrate`."""

from __future__ import annotations

from livedex.pipeline.store.schema.database_roles import DEFAULT_ROLES, Roles
from livedex.pipeline.store.schema.migrator import PREPARE, all_migrations
from livedex.pipeline.store.schema.sql_text import dollar_quoted

_PATH = """\
select set_config('search_path', 'public' || coalesce((
    select ', ' || quote_ident(n.nspname) from pg_extension e join pg_namespace n on n.oid = e.extnamespace
    where e.extname = 'vector' and n.nspname <> 'public'), ''), {local});
"""
_ONCE = """\
do {body};
"""


def statements(roles: Roles = DEFAULT_ROLES) -> str:
    """Return everything that `migrate` would run on an empty database; run again, it applies what is missing and nothing twice."""
    path = _PATH.format(local="false")
    parts = [f"-- prepare\nselect set_config('search_path', 'public', false);\n{roles.render(PREPARE)}{path}"]
    for m in all_migrations():
        body = f"""
begin
    if exists (select from migrations where number = {m.number} and sha256 <> '{m.sha256}') then
        raise exception '{m.name} was changed after it was applied: restore it and add a new migration instead';
    end if;
    if not exists (select from migrations where number = {m.number}) then
        execute {dollar_quoted(roles.render(m.sql))};
        insert into migrations (number, name, sha256) values ({m.number}, '{m.name}', '{m.sha256}');
    end if;
end """
        parts.append(f"-- {m.name}\n" + _ONCE.format(body=dollar_quoted(body)))
    return "\n".join([*parts, "reset search_path;\n"])
