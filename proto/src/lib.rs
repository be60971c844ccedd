//! Wire types, domain model and the conversions between them.
