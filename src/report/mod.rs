//! What people and programs read: one small file per format.

pub mod inspect;
