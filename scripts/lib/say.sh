# shellcheck shell=bash
# What the person at the terminal sees. Colours only on a terminal, and not with NO_COLOR.

if [[ -t 1 && -z ${NO_COLOR-} ]]; then
    bold=$'\e[1m' red=$'\e[31m' yellow=$'\e[33m' plain=$'\e[0m'
else
    bold='' red='' yellow='' plain=''
fi

# A step begins.
step() { printf '%s==> %s%s\n' "$bold" "$*" "$plain"; }

# Something was left out: never in silence.
skip() { printf '%sSKIPPED: %s%s\n' "$yellow" "$*" "$plain" >&2; }

die() {
    printf '%serror:%s %s\n' "$red" "$plain" "$*" >&2
    exit 1
}
