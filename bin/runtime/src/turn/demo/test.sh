. ./slug.sh
failed=0

check() {
    got=$(slug "$1")
    if [ "$got" = "$2" ]; then
        echo "ok    '$1' is '$got'"
    else
        echo "FAIL  '$1' is '$got', expected '$2'"
        failed=$((failed + 1))
    fi
}

check 'Hello' 'hello'
check 'Hello World' 'hello-world'
check 'What?  Really!' 'what-really'
check '  trim me ' 'trim-me'

[ "$failed" -eq 0 ] && echo 'all passed' || echo "$failed failed"
exit "$failed"
