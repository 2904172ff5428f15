#!/usr/bin/env bash
# What action.yml runs. Writes mooring.md (tables) and, for lint and audit, mooring.sarif; annotates; fails by FAIL_IF.
set -euo pipefail

case "$COMMAND" in
  lint) question=(mooring lint "$MANIFESTS" ${KUBERNETES:+--kubernetes "$KUBERNETES"}) ;;
  audit) question=(mooring audit --from "$MANIFESTS" --from-version "$FROM" --to-version "$TO" ${BASELINE:+--baseline "$BASELINE"}) ;;
  simulate | plan)
    [ -n "$DUMP" ] || { echo "::error::dump: name a file that \`mooring dump\` wrote"; exit 2; }
    question=(mooring simulate --from "$DUMP" --keep-pending --add -)
    [ "$COMMAND" = simulate ] || question=(mooring plan --from "$DUMP" --filename "$MANIFESTS")
    ;;
  *) echo "::error::command: there is no '$COMMAND'; choose lint, audit, simulate or plan"; exit 2 ;;
esac

# All manifests as one stream.
manifests() {
  find "$MANIFESTS" -type f \( -name '*.yaml' -o -name '*.yml' -o -name '*.json' \) -print0 | sort -z |
    while IFS= read -r -d '' file; do echo ---; cat "$file"; echo; done
}

if [ "$COMMAND" = simulate ]; then
  [ "$FAIL_IF" = never ] || question+=(--fail-if "${FAIL_IF:-newly-pending}")
  code=0
  manifests | "${question[@]}" -o markdown > mooring.md || code=$?
  cat mooring.md >> "$GITHUB_STEP_SUMMARY"
  [ "$code" != 3 ] || echo "::error::the cluster has no room for this change: see the summary"
  exit "$code"
fi
if [ "$COMMAND" = plan ]; then
  code=0
  "${question[@]}" -o markdown > mooring.md || code=$?
  cat mooring.md >> "$GITHUB_STEP_SUMMARY"
  [ "$code" = 2 ] || exit 0 # 0 and 1: nothing changes, or the changes fit
  echo "::error::the change does not fit or is refused: see the summary"
  [ "$FAIL_IF" = never ] && exit 0 || exit 2
fi
never() { "${question[@]}" "$@" || [ $? -ne 2 ]; } # findings are counted by the last call
never -o sarif > mooring.sarif
never -o markdown > mooring.md
cat mooring.md >> "$GITHUB_STEP_SUMMARY"
if [ "${FAIL_IF:-error}" = never ]; then
  never -o github
else
  "${question[@]}" --fail-if "${FAIL_IF:-error}" -o github
fi
