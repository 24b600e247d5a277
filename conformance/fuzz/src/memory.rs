//! The memory of a run's pointers: blocks of exactly the requested length, which live until the run
//! ends.

/// The bytes after a block. AddressSanitizer sees a write there if a block has none.
const CANARY: &[u8] = if cfg!(feature = "engine") { &[] } else { &[0xc5; 32] };

/// The blocks. During a call, only the pointers of the call access them.
#[derive(Default)]
pub(crate) struct Memory(Vec<*mut [u8]>);

impl Memory {
    /// Returns a copy, which need not be aligned, because PKCS#11 requires no alignment.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> *mut u8 {
        let block = Box::into_raw([bytes, CANARY].concat().into_boxed_slice());
        self.0.push(block);
        block.cast()
    }

    pub(crate) fn put<T: Copy>(&mut self, value: T) -> *mut T {
        self.put_all(&[value])
    }

    /// Returns a copy of several structures in sequence.
    pub(crate) fn put_all<T: Copy>(&mut self, values: &[T]) -> *mut T {
        // Padding between fields is not initialised, so the values cannot be copied as bytes.
        let block = self.copy(&vec![0; size_of_val(values)]).cast::<T>();
        for (index, value) in values.iter().enumerate() {
            // SAFETY: the block has room for all of them.
            unsafe { block.add(index).write_unaligned(*value) };
        }
        block
    }
}

impl Memory {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the blocks from this number on.
    pub(crate) fn since(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        self.whole(first).map(|block| &block[..block.len() - CANARY.len()])
    }

    /// Returns whether no call wrote beyond a block.
    pub(crate) fn is_intact(&self) -> bool {
        self.whole(0).all(|block| block.ends_with(CANARY))
    }

    fn whole(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        // SAFETY: the blocks live as long as `self`, and no call runs while they are read.
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
