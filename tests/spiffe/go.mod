module weft.io/tests/spiffe

go 1.24

require github.com/spiffe/go-spiffe/v2 v2.5.0

require github.com/zeebo/errs v1.4.0 // indirect
