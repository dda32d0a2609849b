//! Lists that many hold and seldom anybody changes.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list whose copies are one in memory until one of them is changed. Written and read as a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shared<T>(Arc<Vec<T>>);

impl<T: PartialEq> Shared<T> {
    /// Becomes a copy of another that is equal, if it is; whether it is.
    pub fn share(&mut self, other: &Self) -> bool {
        let is_equal = self.is(other) || *self == *other;
        if is_equal {
            self.0 = Arc::clone(&other.0);
        }
        is_equal
    }
}

impl<T> Shared<T> {
    /// Where it is in memory: two that are one have one place.
    pub fn as_ptr(this: &Self) -> *const T {
        this.0.as_ptr()
    }

    /// Whether both are one in memory.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<T> From<Vec<T>> for Shared<T> {
    fn from(list: Vec<T>) -> Self {
        Self(Arc::new(list))
    }
}

impl<T> Deref for Shared<T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        Arc::make_mut(&mut self.0)
    }
}

impl<'a, T> IntoIterator for &'a Shared<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a, T: Clone> IntoIterator for &'a mut Shared<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_become_one_until_one_is_changed() {
        let first = Shared::from(vec![1, 2]);
        let mut second: Shared<i32> = serde_json::from_str("[1,2]").unwrap();
        assert!(second == first && !second.is(&first));
        assert!(second.share(&first) && second.is(&first));
        second[1] = 3;
        assert_eq!((first[1], second[1]), (2, 3));
        assert!(!second.share(&first) && second[1] == 3);
        assert_eq!(serde_json::to_string(&second).unwrap(), "[1,3]");
    }
}
