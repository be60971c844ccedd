# The guest's initramfs: what is common to all kernels, then the modules of one. The kernel unpacks both archives in turn.
# Nothing is compressed: emulated decompression costs more than the bytes.

# What the lab needs and cloud kernels do not have built in.
modules=(veth bridge dummy tcp_diag udp_diag sch_ingress cls_bpf)

# Prints the absolute path of a program on PATH or of a file; fails for other words.
resolve_file() {
    local path
    path=$(type -P -- "$1") || path=$1
    [[ -f $path ]] && realpath -s -- "$path"
}

# Makes $cache/base.cpio, once in a run: shell, tools, Weft and its tests, the plan.
base_made=false
make_base() {
    $base_made && return
    local root=$cache/base applet path
    rm -rf "$root"
    mkdir -p "$root"/{usr/{bin,sbin,lib,lib64},dev,proc,sys,run,tmp,root,etc,weft}
    for path in bin sbin lib lib64; do ln -s "usr/$path" "$root/$path"; done
    echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
    echo 'root:x:0:' >"$root/etc/group"
    printf '%s\n' '127.0.0.1 localhost' '::1 localhost' >"$root/etc/hosts"

    cp "$(type -P busybox)" "$root/usr/bin/busybox"
    for applet in $(busybox --list); do
        [[ $applet == busybox ]] || ln -s busybox "$root/usr/bin/$applet"
    done
    # The real ones replace busybox's: the lab uses options that busybox lacks, and busybox's shell runs
    # its own applets whatever PATH says.
    add_program "$(type -P sh)" /usr/bin/sh
    add_program "$(type -P ip)" /usr/bin/ip
    add_program "$(type -P tc)" /usr/bin/tc
    add_program "$(type -P nsenter)" /usr/bin/nsenter
    for path in "${extras[@]}"; do add_program "$(realpath -s -- "$path")"; done
    cp "$here"/guest/* "$plan" "$root/weft/"
    cp "$here/guest/init" "$root/init"
    pack "$root" "$cache/base.cpio"
    base_made=true
}

# Copies a file, stripped of debug information, and the libraries it is linked to: add_program FILE [PATH-IN-GUEST]
add_program() {
    local file=$1 target=$root${2:-$1} library
    mkdir -p "$(dirname "$target")"
    rm -f "$target"
    strip --strip-debug -o "$target" "$file" 2>/dev/null || cp -L "$file" "$target"
    for library in $({ ldd "$file" 2>/dev/null || true; } | grep -o '/[^ ]*'); do
        [[ -e $root$library ]] || install -D "$library" "$root$library"
    done
}

# Makes $cache/LINE/modules.cpio: the modules, and /weft/modules with their loading order.
make_modules() {
    local line=$1 dir root module path
    dir=$(modules_dir "$line")
    root=$cache/$line/modules
    rm -rf "$root"
    mkdir -p "$root/weft/ko"
    for module in "${modules[@]}"; do
        path=$(grep -m1 -E "/$module\.ko(\.[a-z]+)?:" "$dir/modules.dep" || true)
        if [[ -n $path ]]; then
            # modules.dep names a module, then what it needs, the most basic last.
            tr -d : <<<"$path" | tr ' ' '\n' | tac
        elif ! grep -q "/$module\.ko$" "$dir/modules.builtin"; then
            die "kernel $line has no module $module"
        fi
    done | awk 'NF && !seen[$0]++' | while read -r path; do
        module=$(basename "${path%%.ko*}").ko
        unpack_module "$dir/$path" >"$root/weft/ko/$module"
        echo "$module" >>"$root/weft/modules"
    done
    pack "$root" "$cache/$line/modules.cpio"
}

unpack_module() {
    case $1 in
    *.xz) xz -dc "$1" ;;
    *.zst) zstd -dc "$1" ;;
    *.gz) gzip -dc "$1" ;;
    *) cat "$1" ;;
    esac
}

pack() { (cd "$1" && find . -print0 | cpio --null --quiet -o -H newc -R 0:0) >"$2"; }
