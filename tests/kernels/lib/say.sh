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
        /^@step /   { $1 = ""; running = $0; output = ""; next }
        /^@passed / { $1 = ""; print "  ok    " substr($0, 2); fflush(); output = running = ""; next }
        /^@failed / { $1 = ""; printf "%s  FAIL  %s\n", output, substr($0, 2); fflush(); output = running = ""; next }
        /^test .* \.\.\. / { print "        " $0; fflush(); next }
        { output = output "        | " $0 "\n" }
        END { printf "%s", output; if (running) print "  LOST " running " did not end" }'
}

# Adds one kernel to the totals: total KERNEL RELEASE LOG VERDICT
total() {
    local kernel=$1 release=$2 log=$3 verdict=$4
    totals+=("$(printf '%-5s %-4s %-30s steps: %d ok, %d failed; tests: %d ok, %d failed, %d ignored' \
        "$verdict" "$kernel" "$release" \
        "$(grep -c '^@passed ' "$log" || true)" "$(grep -c '^@failed ' "$log" || true)" \
        "$(tests_with passed "$log")" "$(tests_with failed "$log")" "$(tests_with ignored "$log")")")
}

# Sums libtest's own summaries: tests_with passed|failed|ignored LOG
tests_with() {
    awk -v verdict="$1;" '/^test result: / { for (i = 2; i <= NF; i++) if ($i == verdict) n += $(i - 1) } END { print n + 0 }' "$2"
}

summary() {
    say ""
    printf '%s\n' "${totals[@]}"
}
