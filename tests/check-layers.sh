#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Checks what the compiler cannot: which folder may include which, and how large a file may grow.
#
#   check-layers.sh [TREE]       one line per violation; exit 1 if there is any
#   check-layers.sh --self-test  plants each kind of violation in a copy and sees that it is found
#
# The arrows are those of docs/CODING.md. Another folder is entered by its folder.h alone (base by any
# of its headers); private.h stays at home. A new folder needs a line in may_include().
set -euo pipefail

folders="base quota writeback control fusefs trials cli"
max_source=800
max_header=150

# Prints the folders that folder $1 may include, itself left out.
may_include()
{
	case $1 in
	base) ;;
	quota | writeback | control) echo base ;;
	fusefs) echo quota writeback control base ;;
	trials) echo control base ;;
	cli) echo fusefs control trials base ;;
	*) return 1 ;;
	esac
}

# Prints how many lines header $1 may have. Larger ones are contracts that are read as one text.
header_limit()
{
	case $1 in
	quota/quota.h) echo 220 ;;         # the whole of the arithmetic's promises
	quota/private.h) echo 260 ;;       # the table and the store, which all of quota/ works on
	writeback/private.h) echo 340 ;;   # pages, files and the cache: every file of the cache meets here
	writeback/writeback.h) echo 300 ;; # the cache's contract, knobs and counters included
	tests/unit/writeback_device.h) echo 170 ;; # one fixture for three tests
	fusefs/private.h) echo 420 ;;      # every file of the daemon meets here
	*) echo $max_header ;;
	esac
}

violation()
{
	echo "$1: $2"
	violations=$((violations + 1))
}

check_include()
{
	local file=$1 folder=$2 include=$3 other
	case $include in
	*/*) other=${include%%/*} ;;
	*)
		violation "$file" "\"$include\" is not written from the root"
		return
		;;
	esac
	[ "$other" != "$folder" ] || return 0
	if ! grep -qw -- "$other" <<<"$(may_include "$folder")"; then
		violation "$file" "$folder may not include $other (\"$include\")"
	elif [ "$other" != base ] && [ "$include" != "$other/$other.h" ]; then
		violation "$file" "\"$include\" is inside $other; only $other/$other.h may be included"
	fi
}

check_size()
{
	local file=$1 limit=$2 lines
	lines=$(wc -l <"$file")
	[ "$lines" -le "$limit" ] || violation "$file" "$lines lines, $limit allowed"
}

check_file()
{
	local file=$1 folder=${1%%/*} include
	[[ $(head -n 1 "$file") == *SPDX-License-Identifier:\ MIT* ]] ||
		violation "$file" "no SPDX line at the top"
	case $file in
	*.h) check_size "$file" "$(header_limit "$file")" ;;
	*.c) check_size "$file" "$max_source" ;;
	esac
	case $file in tests/*) return ;; esac
	while IFS= read -r include; do
		check_include "$file" "$folder" "$include"
	done < <(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"([^"]+)".*/\1/p' "$file")
	# A source outside of base that includes another's private.h by <> would slip through above.
	! grep -nE '#[[:space:]]*include[[:space:]]*<[^>]*private\.h>' "$file" >/dev/null ||
		violation "$file" "private.h included with <>"
}

check_tree()
{
	local file folder
	violations=0
	cd "$1"
	for file in */*.c */*.h; do
		[ -f "$file" ] || continue
		folder=${file%%/*}
		case $folder in build*) continue ;; esac
		case " $folders tests " in
		*" $folder "*) ;;
		*) violation "$file" "folder $folder has no line in tests/check-layers.sh" ;;
		esac
	done
	while IFS= read -r file; do
		check_file "$file"
	done < <(find $folders tests -type f \( -name '*.c' -o -name '*.h' \) 2>/dev/null | sort)
	while IFS= read -r file; do
		head -n 2 "$file" | grep -q 'SPDX-License-Identifier: MIT' ||
			violation "$file" "no SPDX line in the first two"
	done < <(find dev .ci tests -type f \( -name '*.sh' -o -name run -o -name dev \) 2>/dev/null | sort)
	[ "$violations" -eq 0 ]
}

# Plants one violation in a minimal tree: $1 file, $2 what it holds, $3 what must be said about it.
expect_caught()
{
	local file=$1 text=$2 expected=$3 tree said
	tree=$(mktemp -d)
	mkdir -p "$tree/$(dirname "$file")"
	printf '%b' "$text" >"$tree/$file"
	said=$("$0" "$tree") && said="(nothing: the check passed)"
	rm -rf "$tree"
	if grep -qF -- "$expected" <<<"$said"; then
		echo "ok - $file: $expected"
	else
		echo "not ok - $file: expected '$expected', got '$said'"
		failed=1
	fi
}

self_test()
{
	local spdx='/* SPDX-License-Identifier: MIT */\n' tree
	failed=0
	expect_caught base/a.c "$spdx#include \"quota/quota.h\"\n" "base may not include quota"
	expect_caught quota/a.c "$spdx#include \"writeback/writeback.h\"\n" "quota may not include writeback"
	expect_caught writeback/a.c "$spdx  #  include \"quota/quota.h\"\n" "writeback may not include quota"
	expect_caught trials/a.c "$spdx#include \"fusefs/fusefs.h\"\n" "trials may not include fusefs"
	expect_caught cli/a.c "$spdx#include \"fusefs/private.h\"\n" "only fusefs/fusefs.h may be included"
	expect_caught cli/a.c "$spdx#include <fusefs/private.h>\n" "private.h included with <>"
	expect_caught fusefs/a.c "$spdx#include \"private.h\"\n" "is not written from the root"
	expect_caught base/a.c "int a;\n" "no SPDX line"
	expect_caught stray/a.c "$spdx" "folder stray has no line"
	expect_caught quota/a.c "$spdx$(yes '\n' | head -n 800 | tr -d '\n')" "801 lines, 800 allowed"
	expect_caught quota/a.h "$spdx$(yes '\n' | head -n 150 | tr -d '\n')" "151 lines, 150 allowed"
	tree=$(mktemp -d)
	mkdir "$tree/fusefs"
	printf '%b' "$spdx#include \"fusefs/private.h\"\n#include \"quota/quota.h\"\n#include \"base/list.h\"\n" >"$tree/fusefs/a.c"
	if "$0" "$tree"; then
		echo "ok - allowed includes pass"
	else
		echo "not ok - allowed includes pass"
		failed=1
	fi
	rm -rf "$tree"
	return $failed
}

case ${1-} in
--self-test) self_test ;;
-*)
	echo "usage: check-layers.sh [TREE | --self-test]" >&2
	exit 2
	;;
*) check_tree "${1:-$(dirname "$0")/..}" ;;
esac
