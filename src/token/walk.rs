//! Stores the handles of all objects in ascending order. Each handle and its flags are one `u64`. A
//! walk over all objects reads only these integers.

use crate::id::ObjectHandle;

/// The flags use the bits above those of a handle.
const PRIVATE: u64 = 1 << 63;
const TOKEN: u64 = 1 << 62;
const GONE: u64 = 1 << 61;
const HANDLE: u64 = GONE - 1;

/// Where an object is stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Storage {
    Session,
    Token,
}

/// Which sessions see an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Visibility {
    Public,
    Private,
}

/// A handle with the flags of its object.
#[derive(Clone, Copy)]
pub(super) struct Place(u64);

impl Place {
    pub(super) fn new(handle: ObjectHandle, storage: Storage, visibility: Visibility) -> Self {
        let storage = if storage == Storage::Token { TOKEN } else { 0 };
        let visibility = if visibility == Visibility::Private { PRIVATE } else { 0 };
        Self(handle.0 | storage | visibility)
    }

    pub(super) fn handle(self) -> ObjectHandle {
        ObjectHandle(self.0 & HANDLE)
    }

    pub(super) fn token(self) -> bool {
        self.0 & TOKEN != 0
    }

    pub(super) fn private(self) -> bool {
        self.0 & PRIVATE != 0
    }

    fn gone(self) -> bool {
        self.0 & GONE != 0
    }
}

/// The places, sorted by handle. Places of removed objects stay until they are more than half of
/// all places.
#[derive(Default)]
pub(super) struct Walk {
    places: Vec<Place>,
    gone: usize,
}

impl Walk {
    /// Inserts a place. The handles of loaded rows and of session objects arrive in order; that of
    /// a new token object is random.
    pub(super) fn insert(&mut self, place: Place) {
        match self.places.binary_search_by_key(&place.handle(), |other| other.handle()) {
            // The object was left out and is back.
            Ok(at) => {
                self.gone -= usize::from(self.places[at].gone());
                self.places[at] = place;
            }
            Err(at) => self.places.insert(at, place),
        }
    }

    /// Replaces the place of an object, for example after the object became private.
    pub(super) fn change(&mut self, place: Place) {
        if let Some(at) = self.find(place.handle()) {
            self.places[at] = place;
        }
    }

    pub(super) fn remove(&mut self, handle: ObjectHandle) {
        let Some(at) = self.find(handle) else { return };
        self.places[at].0 |= GONE;
        self.gone += 1;
        if self.gone > self.places.len() / 2 {
            self.places.retain(|place| !place.gone());
            self.places.shrink_to(2 * self.places.len());
            self.gone = 0;
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Place> {
        self.after(ObjectHandle(0))
    }

    /// Returns the places with greater handles.
    pub(super) fn after(&self, last: ObjectHandle) -> impl Iterator<Item = Place> {
        let first = self.places.partition_point(|place| place.handle() <= last);
        self.places[first..].iter().copied().filter(|place| !place.gone())
    }

    fn find(&self, handle: ObjectHandle) -> Option<usize> {
        let at = self.places.binary_search_by_key(&handle, |place| place.handle()).ok()?;
        (!self.places[at].gone()).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handles(walk: &Walk) -> Vec<u64> {
        walk.iter().map(|place| place.handle().0).collect()
    }

    #[test]
    fn places_stay_in_order_after_inserts_and_removals() {
        let mut walk = Walk::default();
        for handle in [1, 2, 4, 3, 6, 5] {
            let storage = if handle % 2 == 0 { Storage::Token } else { Storage::Session };
            let visibility = if handle % 3 == 0 { Visibility::Private } else { Visibility::Public };
            walk.insert(Place::new(ObjectHandle(handle), storage, visibility));
        }
        assert_eq!(handles(&walk), [1, 2, 3, 4, 5, 6]);
        assert_eq!(
            walk.iter().map(Place::private).collect::<Vec<_>>(),
            [false, false, true, false, false, true]
        );
        assert_eq!(
            walk.iter().map(Place::token).collect::<Vec<_>>(),
            [false, true, false, true, false, true]
        );
        for gone in [1, 1, 5, 6, 9, 2] {
            walk.remove(ObjectHandle(gone));
        }
        walk.insert(Place::new(ObjectHandle(9), Storage::Token, Visibility::Public));
        walk.remove(ObjectHandle(9));
        walk.insert(Place::new(ObjectHandle(9), Storage::Token, Visibility::Public));
        assert_eq!(handles(&walk), [3, 4, 9]);
        walk.remove(ObjectHandle(9));
        assert_eq!(handles(&walk), [3, 4]);
        assert!(walk.places.len() < 5);
        walk.change(Place::new(ObjectHandle(4), Storage::Token, Visibility::Private));
        assert!(walk.iter().last().is_some_and(Place::private));
    }
}
