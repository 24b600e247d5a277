/* What the two programs that use the client module on Windows share. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "pkcs11.h"

#define COUNT(array) ((CK_ULONG)(sizeof(array) / sizeof((array)[0])))

static HMODULE library;
static CK_FUNCTION_LIST_3_2 *p11;
static CK_UTF8CHAR USER[] = "22222222";
static CK_BBOOL yes = CK_TRUE;

static void expect_at(int line, const char *what, CK_RV got, CK_RV wanted) {
    if (got != wanted) {
        printf("line %d: %s: %#lx, not %#lx\n", line, what, got, wanted);
        exit(1);
    }
}
#define EXPECT(call, wanted) expect_at(__LINE__, #call, (call), (wanted))
#define OK(call) EXPECT(call, CKR_OK)
#define CHECK(condition) expect_at(__LINE__, #condition, (condition), 1)

static inline int is(const char *name, const char *other) { return strcmp(name, other) == 0; }

/* Loads a module. Its newest functions are `p11`. */
static inline HMODULE load(const char *path) {
    CK_RV (*get)(CK_UTF8CHAR *, CK_VERSION *, CK_INTERFACE **, CK_FLAGS);
    CK_INTERFACE *one;
    library = LoadLibraryA(path);
    CHECK(library != NULL);
    get = (void *)GetProcAddress(library, "C_GetInterface");
    CHECK(get != NULL);
    OK(get(NULL, NULL, &one, 0));
    p11 = one->pFunctionList;
    return library;
}
