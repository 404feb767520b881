version=${VERSION#v}
case "$COMMAND" in
  stage) tsmon release stage --version "$version" --channel "$CHANNEL" --publish "$BUNDLES" ;;
  publish) tsmon release publish --version "$version" --channel "$CHANNEL" "$BUNDLES" ;;
  rollback)
    set -- --channel "$CHANNEL" --reason "${REASON:?the input reason says why}"
    if [ -n "$version" ]; then set -- "$@" --to "$version"; fi
    tsmon release rollback "$@"
    ;;
  advance) tsmon channel advance ;;
  *)
    echo "command: $COMMAND is none of install, stage, publish, rollback, advance" >&2
    exit 2
    ;;
esac
