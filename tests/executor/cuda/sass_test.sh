#!/usr/bin/env bash
# Goal: the kernels of normalisation, softmax, pooling and lookup divide no 64-bit integers, which a GPU does in a
# subroutine of about a hundred instructions. Method: their machine code, as cuobjdump of the toolkit lists it. Exit
# status 77: there is no cuobjdump.
#   usage: sass_test.sh CUOBJDUMP OBJECT...
set -euo pipefail
cuobjdump=$1
shift
if [ ! -x "$cuobjdump" ]; then cuobjdump=$(command -v cuobjdump || true); fi
if [ -z "$cuobjdump" ]; then echo "no cuobjdump"; exit 77; fi
looked=0
for object in "$@"; do
  case "$(basename "$object")" in normalisation.* | softmax.* | pooling.* | lookup.*) ;; *) continue ;; esac
  symbols=$("$cuobjdump" -elf "$object")
  grep -q 'each_kernel' <<< "$symbols"
  # A division is a subroutine of the object with a symbol of its own, e.g. $__internal_0_$__cuda_sm20_div_s64.
  divisions=$({ grep -oE '\$__internal_[0-9]+_\$__cuda_sm[0-9x]+_(div|rem)_[su]64' <<< "$symbols" || true; } | sort -u | wc -l)
  echo "$(basename "$object"): $divisions subroutines that divide 64-bit integers"
  [ "$divisions" -eq 0 ]
  looked=$((looked + 1))
done
[ "$looked" -eq 4 ]
