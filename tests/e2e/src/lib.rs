//! End-to-end tests in the lab.
