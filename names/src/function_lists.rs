//! The function lists and interfaces of a module.

/// Defines the function lists, the interfaces, and the three functions that return them, which may
/// be called before `C_Initialize`. The other functions must be in scope. Each name appears once,
/// in the order of the specification's headers; the compiler rejects a missing or a repeated one.
///
/// No flag of an interface is set: `CKF_INTERFACE_FORK_SAFE` promises that a forked child continues
/// with copies of its parent's sessions and logins. Here a child starts without them.
#[macro_export]
macro_rules! function_lists {
    () => {
        $crate::function_lists! {
            2.40 {
                C_Initialize C_Finalize C_GetInfo C_GetFunctionList C_GetSlotList C_GetSlotInfo C_GetTokenInfo
                C_GetMechanismList C_GetMechanismInfo C_InitToken C_InitPIN C_SetPIN C_OpenSession C_CloseSession
                C_CloseAllSessions C_GetSessionInfo C_GetOperationState C_SetOperationState C_Login C_Logout
                C_CreateObject C_CopyObject C_DestroyObject C_GetObjectSize C_GetAttributeValue
                C_SetAttributeValue C_FindObjectsInit C_FindObjects C_FindObjectsFinal C_EncryptInit C_Encrypt
                C_EncryptUpdate C_EncryptFinal C_DecryptInit C_Decrypt C_DecryptUpdate C_DecryptFinal C_DigestInit
                C_Digest C_DigestUpdate C_DigestKey C_DigestFinal C_SignInit C_Sign C_SignUpdate C_SignFinal
                C_SignRecoverInit C_SignRecover C_VerifyInit C_Verify C_VerifyUpdate C_VerifyFinal
                C_VerifyRecoverInit C_VerifyRecover C_DigestEncryptUpdate C_DecryptDigestUpdate
                C_SignEncryptUpdate C_DecryptVerifyUpdate C_GenerateKey C_GenerateKeyPair C_WrapKey C_UnwrapKey
                C_DeriveKey C_SeedRandom C_GenerateRandom C_GetFunctionStatus C_CancelFunction C_WaitForSlotEvent
            }
            3.0 {
                C_GetInterfaceList C_GetInterface C_LoginUser C_SessionCancel C_MessageEncryptInit
                C_EncryptMessage C_EncryptMessageBegin C_EncryptMessageNext C_MessageEncryptFinal
                C_MessageDecryptInit C_DecryptMessage C_DecryptMessageBegin C_DecryptMessageNext
                C_MessageDecryptFinal C_MessageSignInit C_SignMessage C_SignMessageBegin C_SignMessageNext
                C_MessageSignFinal C_MessageVerifyInit C_VerifyMessage C_VerifyMessageBegin C_VerifyMessageNext
                C_MessageVerifyFinal
            }
            3.2 {
                C_EncapsulateKey C_DecapsulateKey C_VerifySignatureInit C_VerifySignature C_VerifySignatureUpdate
                C_VerifySignatureFinal C_GetSessionValidationFlags C_AsyncComplete C_AsyncGetID C_AsyncJoin
                C_WrapKeyAuthenticated C_UnwrapKeyAuthenticated
            }
        }
    };
    (2.40 { $($first:ident)* } 3.0 { $($second:ident)* } 3.2 { $($third:ident)* }) => {
        static LIST_2_40: ::cryptoki_sys::CK_FUNCTION_LIST = ::cryptoki_sys::CK_FUNCTION_LIST {
            version: ::cryptoki_sys::CK_VERSION { major: 2, minor: 40 },
            $($first: Some($first),)*
        };
        static LIST_3_0: ::cryptoki_sys::CK_FUNCTION_LIST_3_0 = ::cryptoki_sys::CK_FUNCTION_LIST_3_0 {
            version: ::cryptoki_sys::CK_VERSION { major: 3, minor: 0 },
            $($first: Some($first),)* $($second: Some($second),)*
        };
        static LIST_3_2: ::cryptoki_sys::CK_FUNCTION_LIST_3_2 = ::cryptoki_sys::CK_FUNCTION_LIST_3_2 {
            version: ::cryptoki_sys::CK_VERSION { major: 3, minor: 2 },
            $($first: Some($first),)* $($second: Some($second),)* $($third: Some($third),)*
        };

        /// The interfaces, the default first.
        static INTERFACES: Interfaces = Interfaces([
            standard(::std::ptr::from_ref(&LIST_3_2).cast()),
            standard(::std::ptr::from_ref(&LIST_3_0).cast()),
            standard(::std::ptr::from_ref(&LIST_2_40).cast()),
        ]);

        struct Interfaces([::cryptoki_sys::CK_INTERFACE; 3]);

        // SAFETY: the pointers point to constants of this library. PKCS#11 3.2, C_GetInterface: "no
        // attempt should be made to write to this memory".
        unsafe impl Sync for Interfaces {}

        /// The name of the standard's interfaces (PKCS#11 3.2, CK_INTERFACE).
        const STANDARD: &::std::ffi::CStr = c"PKCS 11";

        const fn standard(functions: *const ::std::ffi::c_void) -> ::cryptoki_sys::CK_INTERFACE {
            ::cryptoki_sys::CK_INTERFACE {
                pInterfaceName: STANDARD.as_ptr().cast_mut().cast(),
                pFunctionList: functions.cast_mut(),
                flags: 0,
            }
        }

        /// Returns the function list of PKCS#11 2.40. May be called before `C_Initialize`.
        ///
        /// # Safety
        ///
        /// `functions` is `NULL` or writable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn C_GetFunctionList(
            functions: *mut *mut ::cryptoki_sys::CK_FUNCTION_LIST,
        ) -> ::cryptoki_sys::CK_RV {
            if functions.is_null() {
                return ::cryptoki_sys::CKR_ARGUMENTS_BAD;
            }
            // SAFETY: not null; the contract of PKCS#11 for ppFunctionList.
            unsafe { functions.write_unaligned(::std::ptr::from_ref(&LIST_2_40).cast_mut()) };
            ::cryptoki_sys::CKR_OK
        }

        /// Returns the interfaces of this module, the newest first. May be called before
        /// `C_Initialize`.
        ///
        /// # Safety
        ///
        /// `count` is `NULL` or readable and writable; `interfaces` is `NULL` or writable for
        /// `*count` interfaces.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn C_GetInterfaceList(
            interfaces: *mut ::cryptoki_sys::CK_INTERFACE,
            count: *mut ::cryptoki_sys::CK_ULONG,
        ) -> ::cryptoki_sys::CK_RV {
            if count.is_null() {
                return ::cryptoki_sys::CKR_ARGUMENTS_BAD;
            }
            // The number of the C interface has 32 bits on Windows.
            let count = count.cast::<::std::ffi::c_ulong>();
            let needed = INTERFACES.0.len() as ::std::ffi::c_ulong;
            // SAFETY: not null; the contract of PKCS#11 for pInterfaceList and pulCount.
            unsafe {
                let room = count.read_unaligned();
                count.write_unaligned(needed);
                if interfaces.is_null() {
                    return ::cryptoki_sys::CKR_OK;
                }
                if room < needed {
                    return ::cryptoki_sys::CKR_BUFFER_TOO_SMALL;
                }
                for (index, one) in INTERFACES.0.iter().enumerate() {
                    interfaces.add(index).write_unaligned(*one);
                }
            }
            ::cryptoki_sys::CKR_OK
        }

        /// Returns the first interface with this name, version and flags. May be called before
        /// `C_Initialize`. The specification has no code of its own for an unknown interface.
        ///
        /// # Safety
        ///
        /// `name` is `NULL` or ends with NUL, `version` is `NULL` or readable, `interface` is
        /// `NULL` or writable.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn C_GetInterface(
            name: *mut ::cryptoki_sys::CK_UTF8CHAR,
            version: *mut ::cryptoki_sys::CK_VERSION,
            interface: *mut *mut ::cryptoki_sys::CK_INTERFACE,
            flags: ::cryptoki_sys::CK_FLAGS,
        ) -> ::cryptoki_sys::CK_RV {
            if interface.is_null() {
                return ::cryptoki_sys::CKR_ARGUMENTS_BAD;
            }
            // SAFETY: the contract of PKCS#11 for pInterfaceName; not null.
            let named = name.is_null() || unsafe { ::std::ffi::CStr::from_ptr(name.cast()) } == STANDARD;
            // SAFETY: the contract of PKCS#11 for pVersion; a version needs no alignment.
            let wanted = unsafe { version.as_ref() }.map(|version| (version.major, version.minor));
            let fits = |one: &&::cryptoki_sys::CK_INTERFACE| {
                // SAFETY: the lists are constants, and each begins with its version.
                let version = unsafe { one.pFunctionList.cast::<::cryptoki_sys::CK_VERSION>().read() };
                one.flags & (flags as ::std::ffi::c_ulong) == flags as ::std::ffi::c_ulong
                    && wanted.is_none_or(|wanted| wanted == (version.major, version.minor))
            };
            match INTERFACES.0.iter().filter(|_| named).find(fits) {
                Some(found) => {
                    // SAFETY: not null; the contract of PKCS#11 for ppInterface.
                    unsafe { interface.write_unaligned(::std::ptr::from_ref(found).cast_mut()) };
                    ::cryptoki_sys::CKR_OK
                }
                None => ::cryptoki_sys::CKR_ARGUMENTS_BAD,
            }
        }
    };
}
