//! ttl-controller
