//! linerate.
