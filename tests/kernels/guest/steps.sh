# shellcheck shell=sh disable=SC1090,SC2317
# steps.sh PLAN: runs the plan, the same in a guest and on the host. Exits with the number of failed steps.
#
# Each step is framed by lines that start with `@`, which lib/say.sh turns into lines for people:
#   @step NAME, the output, then @passed NAME (TIME) or @failed NAME (exit STATUS, TIME)
export WEFT_TEST_KERNEL=1 RUST_BACKTRACE=1
failed=0

seconds() { cut -d' ' -f1 /proc/uptime; }
since() { echo "$1 $(seconds)" | awk '{ printf "%.1f s", $2 - $1 }'; }

step() {
    name=$1
    shift
    echo "@step $name"
    started=$(seconds)
    "$@" 2>&1
    status=$?
    # The output may have ended without a newline.
    echo
    if [ "$status" -eq 0 ]; then
        echo "@passed $name ($(since "$started"))"
    else
        failed=$((failed + 1))
        echo "@failed $name (exit $status, $(since "$started"))"
    fi
}

. "$1"
exit "$failed"
