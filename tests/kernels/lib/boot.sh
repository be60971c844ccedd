# Runs the plan: in a guest, or right here.

run_guest() {
    local line=$1 dir=$cache/$1 release status verdict=ok
    fetch_kernel "$line"
    release=$(kernel_release "$line")
    say "" && say "kernel $line: $release under QEMU"
    make_base
    make_modules "$line"
    cat "$cache/base.cpio" "$dir/modules.cpio" >"$dir/initrd"
    rm -f "$dir"/{console,output,result}
    boot "$dir" | tee "$dir/output" | show_steps
    status=$(tr -dc 0-9 <"$dir/result" 2>/dev/null || true)
    if [[ -z $status ]]; then
        verdict=FAIL
        say "  FAIL  the guest ended or was stopped after $guest_timeout s without a result; its console ends:"
        tail -n 25 "$dir/console" | sed 's/^/        | /'
    elif ((status != 0)); then
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
    timeout --kill-after=5 "$guest_timeout" qemu-system-x86_64 \
        -machine q35 -accel tcg,thread=multi -cpu max -smp 2 -m 2G -nodefaults -display none -no-reboot \
        -serial "file:$dir/console" -serial stdio -serial "file:$dir/result" \
        -kernel "$dir/root/boot/vmlinuz-"* -initrd "$dir/initrd" \
        -append "console=ttyS0 panic=-1 loglevel=5 random.trust_cpu=on rdinit=/init" \
        </dev/null 2>"$dir/qemu.log" || true
}

# A lock-up is no complaint: the emulator's processors stand still whenever the machine is busy.
kernel_complained() { grep -E 'BUG:|Oops|WARNING: |general protection' "$1" | grep -qvE 'soft lockup|hard LOCKUP'; }

run_native() {
    local release dir=$cache/host verdict=ok
    release=$(uname -r)
    ((EUID == 0)) || die "BPF programs are loaded as root only: run as root, or name the kernels to test under QEMU"
    say "" && say "kernel host: $release"
    mkdir -p "$dir/bin" "$dir/kernels"
    rm -f "$dir"/{bin,kernels}/*
    cp "$here"/guest/* "$plan" "$dir/kernels/"
    if [[ -n ${weft:-} ]]; then
        ln -s "$weft" "$dir/bin/weft"
        ln -s "$probe" "$dir/bin/weft-probe"
        ln -s "$tests" "$dir/kernels/tests"
    fi
    PATH=$dir/bin:$PATH WEFT_KERNELS=$dir/kernels sh "$dir/kernels/steps.sh" </dev/null 2>&1 |
        tee "$dir/output" | show_steps || verdict=FAIL
    total host "$release" "$dir/output" "$verdict"
    [[ $verdict == ok ]]
}
