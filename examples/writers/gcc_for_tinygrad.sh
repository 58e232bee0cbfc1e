#!/bin/sh
# gcc where tinygrad asks for clang: `CC=./gcc_for_tinygrad.sh python port_tinygrad.py …`
# It takes the C of one kernel and gives the object, both by pipe, with the words that only clang knows in gcc's own.
made=$(mktemp)
words=""
for word in "$@"; do
  case $word in --target=* | -o | -) ;; -O2) words="$words -O1" ;; *) words="$words $word" ;; esac
done
{
  echo '#define __builtin_bit_cast(T, x) ({ __typeof__(x) a_ = (x); T b_; __builtin_memcpy(&b_, &a_, sizeof(b_)); b_; })'
  sed -E 's/aligned\(([0-9]+)\), *ext_vector_type\([0-9]+\)/aligned(\1),vector_size(\1)/g'
} | gcc $words -o "$made" - && cat "$made"
code=$?
rm -f "$made"
exit $code
