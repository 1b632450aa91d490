#!/bin/sh
# Prints what a suite of four tests prints, one of which crashes and one of which is ignored.
test_is() { echo "{\"type\":\"test\",\"name\":\"$1\",\"event\":\"$2\"}"; }

echo '{"type":"suite","event":"started","test_count":4}'
test_is slow ignored
case "$*" in
*"--exact --skip first --skip crashing") ;;
*)
    test_is first started
    test_is first ok
    test_is crashing started
    kill -ABRT $$
    ;;
esac
test_is last started
test_is last ok
echo '{"type":"suite","event":"ok","filtered_out":2}'
