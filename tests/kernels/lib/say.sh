# What the person at the terminal sees: one line per step and test, failures in full, totals at the end.

say() { printf '%s\n' "$*"; }
die() {
    printf 'tests/kernels: %s\n' "$*" >&2
    exit 1
}

totals=()

# Reads the stream that guest/steps.sh writes and prints it as lines for people.
# A step's own output appears only when the step failed, apart from libtest's verdicts.
show_steps() {
    tr -d '\r' | awk '
        /^@step /   { output = ""; next }
        /^@passed / { $1 = ""; print "  ok    " substr($0, 2); fflush(); output = ""; next }
        /^@failed / { $1 = ""; printf "%s  FAIL  %s\n", output, substr($0, 2); fflush(); output = ""; next }
        /^test .* \.\.\. / { print "        " $0; fflush(); next }
        { output = output "        | " $0 "\n" }
        END { printf "%s", output }'
}

# Adds one kernel to the totals: total KERNEL RELEASE LOG VERDICT
total() {
    local kernel=$1 release=$2 log=$3 verdict=$4
    totals+=("$(printf '%-5s %-4s %-30s steps: %d ok, %d failed; tests: %d ok, %d failed, %d ignored' \
        "$verdict" "$kernel" "$release" \
        "$(matches '^@passed ' "$log")" "$(matches '^@failed ' "$log")" \
        "$(matches '^test .* \.\.\. ok' "$log")" "$(matches '^test .* \.\.\. FAILED' "$log")" \
        "$(matches '^test .* \.\.\. ignored' "$log")")")
}
matches() { grep -c -- "$1" "$2" || true; }

summary() {
    say ""
    printf '%s\n' "${totals[@]}"
}
