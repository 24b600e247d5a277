//! The common part of the functions that start, continue and end an operation of a session.

/// Defines the `Init` function of an operation with a key. The other argument is the method of the
/// token.
macro_rules! init {
    ($name:ident, $method:ident) => {
        pub unsafe fn $name<T: Token>(
            entry: &Entry<T>,
            handle: CK_SESSION_HANDLE,
            given: *mut CK_MECHANISM,
            key: CK_OBJECT_HANDLE,
        ) -> CK_RV {
            entry.call_in(Function::$name, handle, |token, session| {
                if given.is_null() {
                    return $crate::call::answered(token.clear(session, Function::$name));
                }
                // SAFETY: the contract of PKCS#11 for pMechanism.
                unsafe {
                    $crate::params::with_mechanism(given, |mechanism| {
                        $crate::call::answered(token.$method(
                            session,
                            mechanism,
                            $crate::ck_ulong::object(key),
                        ))
                    })
                }
            })
        }
    };
}
pub(crate) use init;

/// Defines a function that continues or ends an operation. The first word says what it takes; the
/// last argument is the method of the token.
macro_rules! function {
    // An input and an output.
    (transform $name:ident, $method:ident) => {
        pub unsafe fn $name<T: Token>(
            entry: &Entry<T>,
            handle: CK_SESSION_HANDLE,
            input: *mut CK_BYTE,
            input_len: CK_ULONG,
            output: *mut CK_BYTE,
            output_len: *mut CK_ULONG,
        ) -> CK_RV {
            let (input, output) =
                ($crate::input::In(input, input_len), $crate::input::Out(output, output_len));
            // SAFETY: the contract of PKCS#11 for the two buffers with their lengths.
            entry.call_in(Function::$name, handle, |token, session| unsafe {
                $crate::input::transform(input, output, |data, out| token.$method(session, data, out))
            })
        }
    };
    // An output.
    (produce $name:ident, $method:ident) => {
        pub unsafe fn $name<T: Token>(
            entry: &Entry<T>,
            handle: CK_SESSION_HANDLE,
            output: *mut CK_BYTE,
            output_len: *mut CK_ULONG,
        ) -> CK_RV {
            let output = $crate::input::Out(output, output_len);
            // SAFETY: the contract of PKCS#11 for the buffer and its length.
            entry.call_in(Function::$name, handle, |token, session| unsafe {
                $crate::input::produce(output, |out| token.$method(session, out))
            })
        }
    };
    // An input.
    (consume $name:ident, $method:ident) => {
        pub unsafe fn $name<T: Token>(
            entry: &Entry<T>,
            handle: CK_SESSION_HANDLE,
            input: *mut CK_BYTE,
            input_len: CK_ULONG,
        ) -> CK_RV {
            entry.call_in(Function::$name, handle, |token, session| {
                // SAFETY: the contract of PKCS#11 for the input.
                let data = unsafe { $crate::input::In(input, input_len).bytes() }?;
                $crate::call::answered(token.$method(session, data))
            })
        }
    };
    // Only the session.
    (session $name:ident, $method:ident) => {
        /// # Safety
        ///
        /// None: no pointer is passed.
        pub unsafe fn $name<T: Token>(entry: &Entry<T>, handle: CK_SESSION_HANDLE) -> CK_RV {
            entry.call_in(Function::$name, handle, |token, session| {
                $crate::call::answered(token.$method(session))
            })
        }
    };
}
pub(crate) use function;
