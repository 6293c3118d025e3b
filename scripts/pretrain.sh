#!/usr/bin/env bash
# Makes the weights of the pretrained policy by their recipe, and fails unless they are those in the program.
#   usage: scripts/pretrain.sh [--ship]
#   --ship: the weights that it makes replace configs/pretrained/scheduler.weights
# Needs a release build. Takes a minute on two cores. After a stop the same command continues.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$PWD/build/release/emplace shipped=$PWD/configs/pretrained/scheduler.weights
mkdir -p build/pretrained/configs/pretrained
cp configs/pretrained/recipe.toml build/pretrained/configs/pretrained/
cd build/pretrained
"$program" generate worlds --seed 1 --first 0 --count 160 --most-ops 3000 -o pretrained-worlds
"$program" train configs/pretrained/recipe.toml -o scheduler.weights
if [ "${1:-}" = --ship ]; then
  cp scheduler.weights "$shipped"
  echo "shipped    $shipped"
else
  cmp scheduler.weights "$shipped"
  echo "the weights in the program are those of the recipe"
fi
cd .. && rm -r pretrained
