"""Privileges on the schema: compares the grants of the migrations with those in the database.

A dump that was restored on another server, or without owners and grants, has the tables and data,
but lacks privileges.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import asyncpg

from livedex.pipeline.store.schema.database_roles import DatabaseRoles
from livedex.pipeline.store.schema.sql_text import split_statements

_GRANT = re.compile(
    r"grant ([a-z, ]+?) on (function |schema |table )?(.+) to (\w+(?:, \w+)*)$", re.DOTALL
)
_REVOKE = re.compile(r"revoke all on function (.+) from public$", re.DOTALL)
_OWNER = re.compile(r"alter function (.+) owner to (\w+)$", re.DOTALL)
_POLICY = re.compile(r"create policy (\w+) on (\w+)\b.*?(?: to (\w+))?(?: using| with)", re.DOTALL)
_TABLE = re.compile(r"create (?:unlogged )?table (?:if not exists )?(\w+)")
_DROPPED = re.compile(r"drop function (?:if exists )?(.+)$", re.DOTALL)
_DROPPED_TABLE = re.compile(r"drop table (?:if exists )?([\w, ]+?)(?: cascade)?$")
_DROPPED_POLICY = re.compile(r"drop policy (?:if exists )?(\w+) on (\w+)$")
_FUNCTION = re.compile(r"create or replace function (\w+)\(")
_SIGNATURES = re.compile(r"\w+\([^()]*\)")
_ALL_PRIVILEGES = ("select", "insert", "update", "delete")
_TENANT_POLICY = "own_rows"  # on every table with a column tenant_id

_TENANT_TABLES_SQL = """
select c.oid::regclass::text as name, c.relrowsecurity and c.relforcerowsecurity as secured
from pg_catalog.pg_class c join pg_catalog.pg_attribute a on a.attrelid = c.oid
  and a.attname = 'tenant_id' and not a.attisdropped
where c.relkind in ('r', 'p') and c.relnamespace = 'public'::regnamespace and (c.relname = any ($1)
  or c.relname ~ '^vectors_[0-9]+$')
order by 1"""
_POLICIES_SQL = """
select c.oid::regclass::text as name, p.polname::text as policy,
       case when p.polroles = '{0}' then null
         else pg_catalog.pg_get_userbyid(p.polroles[1])::text end as role
from pg_catalog.pg_policy p join pg_catalog.pg_class c on c.oid = p.polrelid
  where c.relnamespace = 'public'::regnamespace"""
_TABLE_PRIVILEGES_SQL = """
select c.oid::regclass::text as name, lower(x.privilege_type) as privilege,
  pg_catalog.pg_get_userbyid(x.grantee)::text as role
from pg_catalog.pg_class c, lateral pg_catalog.aclexplode(c.relacl) x
  where c.relnamespace = 'public'::regnamespace and x.grantee <> 0"""
_FUNCTIONS_SQL = """
select s.signature, pg_catalog.pg_get_userbyid(p.proowner)::text as owner, p.prosrc as body,
       array(select case x.grantee when 0 then 'public'
         else pg_catalog.pg_get_userbyid(x.grantee)::text end
             from pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f',
               p.proowner))) x where x.privilege_type = 'EXECUTE') as executors
from unnest($1::text[]) s (signature) join pg_catalog.pg_proc p
  on p.oid = pg_catalog.to_regprocedure('public.' || s.signature)"""


@dataclass(frozen=True, slots=True)
class _Policy:
    name: str
    table: str
    role: str | None
    statement: str


class SchemaPrivileges:
    """The privileges that the migrations grant.

    Args:
        scripts: texts of the migrations in order, for the roles of this installation.
        roles: of the installation.
    """

    def __init__(self, scripts: list[str], roles: DatabaseRoles) -> None:
        self._roles = roles
        self._tables: set[str] = set()
        self._grants: dict[tuple[str, str], set[str]] = {}
        self._schemas: set[tuple[str, str]] = set()
        self._executors: set[tuple[str, str]] = set()
        self._revoked_from_public: set[str] = set()
        self._owners: dict[str, str] = {}
        self._policies: dict[tuple[str, str], _Policy] = {}
        self._functions_naming_roles: dict[str, str] = {}
        for script in scripts:
            for statement in split_statements(script):
                self._read_statement(statement)

    def _read_statement(self, written: str) -> None:
        statement = " ".join(written.split())
        if found := _TABLE.match(statement):
            self._tables.add(found[1])
        elif found := _GRANT.match(statement):
            self._read_grant(found[1], (found[2] or "table ").strip(), found[3], _names(found[4]))
        elif found := _REVOKE.match(statement):
            self._revoked_from_public |= set(_SIGNATURES.findall(found[1]))
        elif found := _OWNER.match(statement):
            self._owners[found[1]] = found[2]
        elif (found := _POLICY.match(statement)) and found[1] != _TENANT_POLICY:
            self._policies[found[2], found[1]] = _Policy(found[1], found[2], found[3], written)
        elif statement.startswith("drop "):
            self._read_drop(statement)
        elif (found := _FUNCTION.match(statement)) and self._roles.application in statement:
            self._functions_naming_roles[found[1]] = written

    def _read_drop(self, statement: str) -> None:
        """Forget the privileges on a table, policy or function that a later migration drops."""
        if found := _DROPPED_TABLE.match(statement):
            dropped = set(_names(found[1]))
            self._tables -= dropped
            self._grants = {
                key: value for key, value in self._grants.items() if key[0] not in dropped
            }
            self._policies = {
                key: value for key, value in self._policies.items() if key[0] not in dropped
            }
        elif found := _DROPPED_POLICY.match(statement):
            self._policies.pop((found[2], found[1]), None)
        elif found := _DROPPED.match(statement):
            for signature in _SIGNATURES.findall(found[1]):
                self._revoked_from_public.discard(signature)
                self._owners.pop(signature, None)
                self._executors = {
                    (name, role) for name, role in self._executors if name != signature
                }

    def _read_grant(self, privileges: str, kind: str, names: str, roles: list[str]) -> None:
        for role in roles:
            if kind == "function":
                self._executors |= {(signature, role) for signature in _SIGNATURES.findall(names)}
            elif kind == "schema":
                self._schemas |= {(names, role)} if privileges == "usage" else set()
            else:
                for table in _names(names):
                    self._grants.setdefault((table, role), set()).update(_names(privileges))

    async def missing(self, connection: asyncpg.Connection) -> list[str]:
        """Return the statements that restore missing privileges, in order.

        Args:
            connection: as any role, to a database with all migrations.

        Raises:
            MissingRolesError: the roles do not exist.
        """
        if not await connection.fetchval(
            "select count(*) = 2 from pg_catalog.pg_roles where rolname = any ($1)",
            [self._roles.application, self._roles.definer],
        ):
            raise MissingRolesError
        return [
            *await self._missing_of_schemas(connection),
            *await self._missing_of_tables(connection),
            *await self._missing_policies(connection),
            *await self._missing_of_functions(connection),
        ]

    async def _missing_of_schemas(self, connection: asyncpg.Connection) -> list[str]:
        vectors = await connection.fetchval(
            "select n.nspname::text from pg_catalog.pg_extension e join "
            "pg_catalog.pg_namespace n on n.oid = e.extnamespace"
            " where e.extname = 'vector'"
        )
        wanted = sorted(
            self._schemas | ({(vectors, self._roles.application)} if vectors else set())
        )
        query = "select pg_catalog.has_schema_privilege($1::name, $2::text, 'usage')"
        return [
            f'grant usage on schema "{name}" to {role}'
            for name, role in wanted
            if not await connection.fetchval(query, role, name)
        ]

    async def _missing_of_tables(self, connection: asyncpg.Connection) -> list[str]:
        wanted = {key: set(privileges) for key, privileges in self._grants.items()}
        statements = []
        for row in await connection.fetch(_TENANT_TABLES_SQL, list(self._tables)):
            wanted.setdefault((row["name"], self._roles.application), set()).update(_ALL_PRIVILEGES)
            if not row["secured"]:
                statements += [
                    f"alter table {row['name']} enable row level security",
                    f"alter table {row['name']} force row level security",
                ]
        have: dict[tuple[str, str], set[str]] = {}
        for row in await connection.fetch(_TABLE_PRIVILEGES_SQL):
            have.setdefault((row["name"], row["role"]), set()).add(row["privilege"])
        for (table, role), privileges in sorted(wanted.items()):
            if lacking := sorted(privileges - have.get((table, role), set())):
                statements.append(f"grant {', '.join(lacking)} on {table} to {role}")
        return statements

    async def _missing_policies(self, connection: asyncpg.Connection) -> list[str]:
        have = {
            (row["name"], row["policy"]): row["role"]
            for row in await connection.fetch(_POLICIES_SQL)
        }
        statements = []
        for row in await connection.fetch(_TENANT_TABLES_SQL, list(self._tables)):
            if (row["name"], "own_rows") not in have:
                mine = "tenant_id = (select current_setting('livedex.tenant', true))"
                statements.append(
                    f"create policy own_rows on {row['name']} using ({mine}) with check ({mine})"
                )
        for key, policy in self._policies.items():
            if key not in have:
                statements.append(policy.statement)
            elif policy.role is not None and have[key] != policy.role:
                statements.append(f"alter policy {policy.name} on {policy.table} to {policy.role}")
        return list(dict.fromkeys(statements))

    async def _missing_of_functions(self, connection: asyncpg.Connection) -> list[str]:
        signatures = sorted(
            {name for name, _ in self._executors} | self._revoked_from_public | set(self._owners)
        )
        statements, owners = [], []
        for row in await connection.fetch(_FUNCTIONS_SQL, signatures):
            name, executors = row["signature"], set(row["executors"])
            statement = self._functions_naming_roles.get(name.partition("(")[0])
            if statement is not None and self._roles.application not in row["body"]:
                statements.append(statement)
            if name in self._revoked_from_public and "public" in executors:
                statements.append(f"revoke all on function {name} from public")
            lacking = sorted(
                role for wanted, role in self._executors if wanted == name and role not in executors
            )
            statements += [f"grant execute on function {name} to {role}" for role in lacking]
            if self._owners.get(name, row["owner"]) != row["owner"]:
                owners.append(f"alter function {name} owner to {self._owners[name]}")
        if owners:
            owners = [
                f"grant create on schema public to {self._roles.definer}",
                *owners,
                f"revoke create on schema public from {self._roles.definer}",
            ]
        return statements + owners


class MissingRolesError(Exception):
    """The roles do not exist."""


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
