//! Makes the exported functions of a shared object.

/// Defines `ENTRY`, the state of the module, and exports the functions of PKCS#11 with this type of
/// token.
#[macro_export]
macro_rules! module {
    ($token:ty, $hooks:expr) => {
        static ENTRY: $crate::Entry<$token> = $crate::Entry::new($hooks);

        $crate::jeton_names::functions!($crate::export);
        $crate::jeton_names::function_lists!();
    };
}

/// Exports the functions of the table, except those that return the function lists.
#[doc(hidden)]
#[macro_export]
macro_rules! export {
    ($($version:literal { $($name:ident $(($($argument:ident: $type:ty),*))?;)* })*) => {
        $($($(
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> CK_RV {
                // SAFETY: the contract of PKCS#11, which the caller keeps.
                unsafe { $crate::$name(&ENTRY, $($argument),*) }
            }
        )?)*)*
    };
}

/// Registers handlers for fork(2): before it, and after it in the parent and in the child. Returns
/// whether it succeeds.
///
/// # Safety
///
/// The handlers may be called until the process ends, so their code must stay mapped.
#[cfg(unix)]
pub unsafe fn at_fork(
    before: unsafe extern "C" fn(),
    parent: unsafe extern "C" fn(),
    child: unsafe extern "C" fn(),
) -> bool {
    // SAFETY: the caller's promise.
    unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) == 0 }
}
