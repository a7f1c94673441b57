# Judges the node now and every INTERVAL seconds, and writes metrics into /textfile.
trap 'exit 0' TERM INT
while :; do
    clockscope doctor ${ROOT:+--root "$ROOT"} --format metrics -o /textfile/clockscope.prom
    status=$?
    # 1: slow, 2: wrong time possible, 3: not enough evidence.
    [ "$status" -le 3 ] || exit "$status"
    if [ -n "${FEATURES:-}" ]; then
        # node-feature-discovery leaves out files whose names begin with a dot.
        sed -n -e 's|^clockscope_doctor_state_info{state="\([a-z-]*\)"} 1$|clockscope.io/clock-reads=\1|p' \
            -e 's|^clockscope_clocksource_current_info{device="0",clocksource="\([A-Za-z0-9_-]*[A-Za-z0-9]\)"} 1$|clockscope.io/clocksource=\1|p' \
            /textfile/clockscope.prom >"$FEATURES/.clockscope" && mv "$FEATURES/.clockscope" "$FEATURES/clockscope"
    fi
    # A signal interrupts `wait` at once; it would not interrupt `sleep` in the foreground.
    sleep "$INTERVAL" &
    wait $!
done
