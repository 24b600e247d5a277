//! The memory that a run's pointers lead to: blocks of exactly the length that was asked for, until the run is over.

/// The blocks. They are reached by pointers alone while the run lasts.
#[derive(Default)]
pub(crate) struct Memory(Vec<*mut [u8]>);

impl Memory {
    /// A copy, at an address that may be odd: PKCS#11 asks for no alignment of an application's memory.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> *mut u8 {
        let block = Box::into_raw(Box::<[u8]>::from(bytes));
        self.0.push(block);
        block.cast()
    }

    /// A copy of a struct of the standard's.
    pub(crate) fn put<T: Copy>(&mut self, value: T) -> *mut T {
        self.put_all(&[value])
    }

    /// The same of several, one after the other.
    pub(crate) fn put_all<T: Copy>(&mut self, values: &[T]) -> *mut T {
        // Padding is not initialised: bytes are copied as such.
        let block = self.copy(&vec![0; size_of_val(values)]).cast::<T>();
        for (index, value) in values.iter().enumerate() {
            // SAFETY: the block has room for all of them.
            unsafe { block.add(index).write_unaligned(*value) };
        }
        block
    }
}

impl Memory {
    /// How many blocks there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The blocks from that one on.
    pub(crate) fn since(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        // SAFETY: the blocks live as long as this, and no call runs while they are read.
        self.0[first..].iter().map(|block| unsafe { &**block })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        for block in self.0.drain(..) {
            // SAFETY: made by `Box::into_raw`, and no call uses it any more.
            drop(unsafe { Box::from_raw(block) });
        }
    }
}
