# Weft's own programs, as cargo builds them. A guest has them at the same paths, since tests look for them there.

build_artifacts() {
    say "building weft, weft-probe and the tests"
    weft=$(executable weft build -p weft --bin weft)
    probe=$(executable weft-probe build -p weft-lab --bin weft-probe)
    tests=$(executable kernels test --no-run -p weft-e2e --test kernels)
    interfaces=$(executable interfaces test --no-run -p weft-dataplane --test interfaces)
    closing=$(executable closing test --no-run -p weft-dataplane --test closing)
    extras+=("$weft" "$probe" "$tests" "$interfaces" "$closing")
}

# Builds with cargo and prints the path of the executable TARGET: executable TARGET CARGO-ARGUMENTS...
executable() {
    local target=$1 path
    shift
    path=$(cd "$repo" && cargo "$@" --message-format=json-render-diagnostics --quiet |
        jq -r --arg name "$target" 'select(.reason == "compiler-artifact" and .target.name == $name and .executable) | .executable') ||
        die "cargo $* failed"
    [[ -n $path ]] || die "cargo $* made no executable '$target'"
    tail -1 <<<"$path"
}
