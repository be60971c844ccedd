//! Benchmarks against kube-proxy and against no mesh.
