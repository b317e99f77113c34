module loligo/go-ceph

go 1.19

require (
	github.com/ceph/go-ceph v0.30.0
	golang.org/x/sys v0.25.0
)
