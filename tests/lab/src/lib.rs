//! Nodes and pods as network namespaces, for tests and the demo.
