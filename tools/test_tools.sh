#!/usr/bin/env bash
# Install what tests need and Debian has: a browser for the dashboard, bubblewrap for programs with a root. Called by `make tests`.
set -u
missing=()
if [ -z "${MOORING_CHROMIUM:-}" ]; then
  for name in chromium-headless-shell chromium chromium-browser google-chrome none; do
    command -v "$name" >/dev/null && break
  done
  [ "$name" != none ] || missing+=(chromium-headless-shell)
fi
command -v bwrap >/dev/null || [ "$(uname)" != Linux ] || missing+=(bubblewrap)
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  echo "Installing ${missing[*]} for the tests ..."
  (apt-get update -qq && apt-get install -qq -y --no-install-recommends "${missing[@]}") >/dev/null 2>&1 && exit 0
fi
echo "Tests that need ${missing[*]} are skipped: install that (as root: apt-get install ${missing[*]}) to run them." >&2
