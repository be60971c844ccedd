# Runs the plan: in a guest, or right here.

run_guest() {
    local line=$1 dir=$cache/$1 release status verdict=ok
    fetch_kernel "$line"
    release=$(kernel_release "$line")
    say "" && say "kernel $line: $release under QEMU"
    make_base
    make_modules "$line"
    cat "$cache/base.cpio" "$dir/modules.cpio" >"$dir/initrd"
    rm -f "$dir"/{console,output,result,timeout}
    boot "$dir" | tee "$dir/output" | show_steps
    status=$(tr -dc 0-9 <"$dir/result" 2>/dev/null || true)
    if [[ -z $status ]]; then
        verdict=FAIL
        explain_loss "$dir"
    elif ((status != 0)); then
        verdict=FAIL
    elif no_tests_ran "$dir/output"; then
        verdict=FAIL
    elif kernel_complained "$dir/console"; then
        verdict=FAIL
        say "  FAIL  the kernel complained, see $dir/console"
    fi
    rm -f "$dir/initrd"
    total "$line" "$release" "$dir/output" "$verdict"
    [[ $verdict == ok ]]
}

# Three serial ports: the kernel's console, the steps' output, the result. None can be mistaken for another.
boot() {
    local dir=$1
    # In the foreground, so that an interrupt from the keyboard reaches the guest too.
    timeout --foreground --kill-after=5 "$guest_timeout" qemu-system-x86_64 \
        -machine q35 -accel tcg,thread=multi -cpu max -smp 2 -m 2G -nodefaults -display none -no-reboot \
        -serial "file:$dir/console" -serial stdio -serial "file:$dir/result" \
        -kernel "$dir/root/boot/vmlinuz-"* -initrd "$dir/initrd" \
        -append "console=ttyS0 panic=-1 loglevel=5 random.trust_cpu=on rdinit=/init" \
        </dev/null 2>"$dir/qemu.log" || { (($? == 124)) && touch "$dir/timeout"; } || true
}

explain_loss() {
    local dir=$1
    if [[ -e $dir/timeout ]]; then
        say "  FAIL  the guest was stopped after $guest_timeout s; its console ends:"
        tail -n 10 "$dir/console"
    elif [[ ! -s $dir/console ]]; then
        say "  FAIL  the emulator did not start:"
        cat "$dir/qemu.log"
    else
        say "  FAIL  the guest died; its console:"
        # From the first complaint on: a trace is of use at its head.
        awk '/BUG:|Oops|panic|sysrq/ { on = 1 } on && n++ < 30; END { exit !on }' "$dir/console" || tail -n 10 "$dir/console"
    fi | sed '1!s/^/        | /'
}

# libtest is content with an empty set of tests; we are not. A COMMAND of the user's need not be a test.
no_tests_ran() {
    ((${#command[@]} == 0 && $(tests_with passed "$1") == 0)) || return
    say "  FAIL  no test passed"
}

# A lock-up is no complaint: the emulator's processors stand still whenever the machine is busy.
kernel_complained() { grep -E 'BUG:|Oops|WARNING: |general protection' "$1" | grep -qvE 'soft lockup|hard LOCKUP'; }

run_native() {
    local release dir=$cache/host verdict=ok
    release=$(uname -r)
    ((EUID == 0)) || die "BPF programs are loaded as root only: run as root, or name the kernels to test under QEMU"
    say "" && say "kernel host: $release"
    mkdir -p "$dir"
    WEFT_KERNELS=$here/guest sh "$here/guest/steps.sh" "$plan" </dev/null 2>&1 {lock}>&- |
        tee "$dir/output" | show_steps || verdict=FAIL
    no_tests_ran "$dir/output" && verdict=FAIL
    total host "$release" "$dir/output" "$verdict"
    [[ $verdict == ok ]]
}
