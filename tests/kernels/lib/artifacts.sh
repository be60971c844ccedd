# Weft's own programs, as cargo builds them. A guest has them at the same paths, since tests look for them there.

# The tests of the plan, by cargo's names, and where each begins: some names are of an end-to-end test too.
declare -A suites=(
    [kernels]=tests/e2e/tests/kernels.rs
    [pod]=dataplane/tests/pod/main.rs
    [choose]=dataplane/tests/choose.rs
    [limits]=dataplane/tests/limits.rs
    [interfaces]=dataplane/tests/interfaces.rs
    [closing]=dataplane/tests/closing.rs
)
# The same names, to the programs that cargo made.
declare -A suite=()

# Sets `weft`, `probe` and `suite`. The whole workspace is asked for, as `make test` does: for single packages cargo would choose other
# features of what they depend on, and build all of that once more.
build_artifacts() {
    local name selection=()
    say "building weft, weft-probe and the tests"
    for name in "${!suites[@]}"; do selection+=(--test "$name"); done
    cargo_build build --workspace --bins
    weft=$(executable cli/src/main.rs)
    probe=$(executable tests/lab/src/bin/weft-probe/main.rs)
    cargo_build test --workspace --no-run "${selection[@]}"
    for name in "${!suites[@]}"; do
        suite[$name]=$(executable "${suites[$name]}")
    done
    extras+=("$weft" "$probe" "${suite[@]}")
}

# Runs cargo, and keeps what it says of its work for `executable`.
cargo_build() {
    (cd "$repo" && cargo "$@" --message-format=json-render-diagnostics --quiet) >"$cache/cargo.json" || die "cargo $* failed"
}

# Prints the path of the program that cargo_build made of a source file of this repository.
executable() {
    local path
    path=$(jq -r --arg source "/$1" \
        'select(.reason == "compiler-artifact" and .executable and (.target.src_path | endswith($source))) | .executable' \
        "$cache/cargo.json" | tail -1)
    [[ -n $path ]] || die "cargo made no program of $1"
    echo "$path"
}
