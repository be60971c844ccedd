# Debian packages: the tools this harness needs, and the kernels under test.

# package:program
tools=(
    qemu-system-x86:qemu-system-x86_64 busybox-static:busybox kmod:depmod cpio:cpio xz-utils:xz
    binutils:strip iproute2:ip util-linux:nsenter jq:jq
)

# Debian's release that carries a kernel line, for machines whose own sources do not.
suite_of() {
    case $1 in
    6.1) echo bookworm ;;
    6.12) echo trixie ;;
    esac
}

ensure_tools() {
    local pair missing=()
    [[ $(uname -m) == x86_64 ]] || die "the guests are x86_64; this machine is $(uname -m)"
    for pair in "${tools[@]}"; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${pair#*:}" >/dev/null || missing+=("${pair%%:*}")
    done
    ((${#missing[@]})) || return 0
    ((EUID == 0)) || die "missing: ${missing[*]}; install them, or run as root"
    say "installing ${missing[*]}"
    apt-get install -qq -y --no-install-recommends "${missing[@]}" >"$cache/apt.log" 2>&1 ||
        { apt-get update -qq && apt-get install -qq -y --no-install-recommends "${missing[@]}"; } >"$cache/apt.log" 2>&1 ||
        die "apt-get install ${missing[*]} failed, see $cache/apt.log"
}

# Unpacks the newest kernel of a line below $cache/LINE/root, unless it is there already.
# Without a network, the kernel of the last run is used.
fetch_kernel() {
    local line=$1 dir=$cache/$1 apt=() package
    mkdir -p "$dir"
    package=$(newest_image "$line")
    if [[ -z $package ]]; then
        private_apt "$line"
        package=$(newest_image "$line" "${apt[@]}")
    fi
    [[ -n $package ]] && [[ -e $dir/package && $(<"$dir/package") == "$package" ]] && return
    [[ -n $package ]] && download_kernel "$line" && return
    [[ -e $dir/package ]] ||
        die "cannot download linux-image-$line*-cloud-amd64, see $dir/apt.log; Debian's $(suite_of "$line") has it (old lists? apt-get update)"
    say "        cannot download ${package:-a newer $line kernel}, using $(<"$dir/package")"
}

# Uses `package` and `apt` of its caller.
download_kernel() {
    local line=$1 dir=$cache/$1
    rm -rf "$dir/new"
    mkdir "$dir/new"
    (cd "$dir/new" && apt-get "${apt[@]}" -o APT::Sandbox::User=root -qq download "$package") >"$dir/apt.log" 2>&1 || return
    dpkg -x "$dir"/new/*.deb "$dir/new"
    rm -rf "$dir/root" "$dir/package" "$dir"/new/*.deb
    mv "$dir/new" "$dir/root"
    # depmod looks below /lib, where bookworm's packages put modules; trixie's use /usr/lib.
    [[ -e $dir/root/lib ]] || ln -s usr/lib "$dir/root/lib"
    depmod -b "$dir/root" "$(kernel_release "$line")"
    echo "$package" >"$dir/package"
}

# The package names carry the kernel's release, so that sorting names by version finds the newest.
newest_image() {
    local line=$1
    shift
    apt-cache "$@" search --names-only "^linux-image-${line//./\\.}\\.[0-9].*-cloud-amd64\$" | cut -d' ' -f1 | sort -V | tail -1
}

# Sets `apt` to options for an apt that knows the suite of LINE and leaves the machine's own configuration alone.
# The archive is the one that the machine already uses.
private_apt() {
    local line=$1 dir=$cache/apt archive
    # shellcheck disable=SC2016 # apt's variables, not the shell's
    archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -1)
    [[ -n $archive ]] || die "no Debian archive among apt's sources to fetch a $line kernel from"
    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
    echo "deb [arch=amd64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $archive $(suite_of "$line") main" >"$dir/sources.list"
    apt=(-o "Dir::Etc::sourcelist=$dir/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir/cache")
    apt-get "${apt[@]}" -o APT::Sandbox::User=root -qq update >"$dir/apt.log" 2>&1 || say "        apt-get update failed, see $dir/apt.log"
}

modules_dir() { echo "$cache/$1"/root/lib/modules/*; }
kernel_release() { basename "$(modules_dir "$1")"; }
