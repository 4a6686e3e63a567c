"""Files that hold credentials by their names: they are left out unless `include` names them.

The list is about names that are used for keys and passwords and for little else. Matching ignores
case.
"""

from __future__ import annotations

import fnmatch
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache

CREDENTIAL_GLOBS = (
    # environments
    ".env",
    ".env.*",
    "*.env",
    "*.env.local",
    "*.env.prod*",
    ".envrc",
    "!*.env.example",
    "!*.env.sample",
    "!*.env.template",
    "!*.env.dist",
    # private keys and key stores
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    "identity.pem",
    "*_rsa",
    "*_ed25519",
    "*_ecdsa",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.p8",
    "*.pkcs12",
    "*.jks",
    "*.jceks",
    "*.keystore",
    "*.bcfks",
    "*.ppk",
    "*.asc.key",
    "secring.*",
    "*.gpg.key",
    "*.ovpn",
    "*.keytab",
    # password stores
    "*.kdbx",
    "*.kdb",
    "*.1pif",
    "*.agilekeychain",
    "*.psafe3",
    "*.opvault",
    "logins.json",
    "key3.db",
    "key4.db",
    "login data",
    # credentials of programs
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    ".netrc",
    "_netrc",
    ".pgpass",
    "pgpass.conf",
    ".my.cnf",
    ".mylogin.cnf",
    ".git-credentials",
    ".htpasswd",
    "htpasswd",
    ".dockercfg",
    ".docker/config.json",
    ".dockerconfigjson",
    ".kube/config",
    "kubeconfig",
    "*.kubeconfig",
    ".aws/credentials",
    ".boto",
    ".s3cfg",
    ".terraformrc",
    "terraform.rc",
    ".vault-token",
    ".cargo/credentials*",
    "*.tfstate",
    "*.tfstate.*",
    "*.tfvars",
    "*.tfvars.json",
    ".gem/credentials",
    ".composer/auth.json",
    "auth.json",
    ".ssh/**",
    ".gnupg/**",
    "rclone.conf",
    "wp-config.php",
    "master.key",
    "credentials.yml.enc",
    "secrets.yml.key",
    ".bash_history",
    ".zsh_history",
    ".psql_history",
    ".mysql_history",
    ".python_history",
    # credentials of clouds and applications
    "credentials",
    "credentials.json",
    "credentials.ya?ml",
    "credentials.yml",
    "credentials.yaml",
    "credentials.toml",
    "credentials.ini",
    "credentials.csv",
    "*_credentials.json",
    "*-credentials.json",
    "application_default_credentials.json",
    "client_secret*.json",
    "client-secret*.json",
    "*service-account*.json",
    "*service_account*.json",
    "*serviceaccount*.json",
    "accesskeys.csv",
    "*_accesskeys.csv",
    "rootkey.csv",
    "secrets.json",
    "secrets.yml",
    "secrets.yaml",
    "secrets.toml",
    "secrets.ini",
    "secrets.env",
    "secret.json",
    "secret.yml",
    "secret.yaml",
    "secret.toml",
    "*.secret",
    "*.secrets",
)
"""Globs of names in lower case; those with a slash are of the last parts of a path, `/**` of all
that is below, `!` makes an exception.
"""

_WILDCARD = re.compile(r"\[[^\]/]*\]|[*?]")


def _either(globs: Iterable[str]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(glob) for glob in globs))


def _by_extension(globs: Iterable[str]) -> dict[str, re.Pattern[str]]:
    """One expression for each extension, with '*' for the globs that leave it open: most names are
    then compared with a few.
    """
    found = defaultdict[str, list[str]](list)
    for glob in globs:
        extension = glob.rpartition(".")[2] if "." in glob else ""
        found["*" if _WILDCARD.search(extension) and "." in glob else extension].append(glob)
    return {extension: _either(group) for extension, group in found.items()}


_EXCEPTIONS = _either(glob[1:] for glob in CREDENTIAL_GLOBS if glob.startswith("!"))
_NAMES = _by_extension(
    glob for glob in CREDENTIAL_GLOBS if "/" not in glob and not glob.startswith("!")
)
_PLACES = _either(f"*/{glob}" for glob in CREDENTIAL_GLOBS if "/" in glob)
_DOTTED = "/."


def is_credential_file(path: str) -> bool:
    """Return whether a file of this relative path holds credentials, by its name; a folder's name
    alone says nothing, but for `.ssh` and `.gnupg`.
    """
    path = path.lower()
    name = path.rpartition("/")[2]
    for extension in ("*", name.rpartition(".")[2] if "." in name else ""):
        globs = _NAMES.get(extension)
        if globs is not None and globs.match(name) is not None and _EXCEPTIONS.match(name) is None:
            return True
    path = f"/{path}"
    return _DOTTED in path and path.count("/") > 1 and _PLACES.match(path) is not None


@lru_cache(maxsize=1_000)
def glob_names_credentials(glob: str) -> bool:
    """Return whether a glob is written for files with credentials: `*.pem` and `deploy/prod.env`
    are, `**/*` and `*.json` are not.

    A glob is, where what it says literally is the name of such a file whatever stands for its
    wildcards.
    """
    parts = [part for part in glob.lstrip("!").strip("/").split("/") if part != "**"]
    return any(
        is_credential_file(sample)
        for sample in ("/".join(_WILDCARD.sub(fill, part) for part in parts) for fill in ("", "x"))
        if sample.strip("/")
    )
