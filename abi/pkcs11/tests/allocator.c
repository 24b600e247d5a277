/* A host with its own allocator, which loads the module with RTLD_DEEPBIND, as BIND 9.20 does through OpenSSL's
 * pkcs11-provider. The C library allocates with the host's allocator, and the module calls the C library's own free().
 * So the C library aborts if the module frees memory that the C library allocated.
 *
 * Argument: the path of the module. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static _Alignas(4096) char arena[256 << 20];
static size_t used;

static void *take(size_t alignment, size_t size) {
    size_t at = (__atomic_fetch_add(&used, size + alignment + 16, __ATOMIC_SEQ_CST) + 16 + alignment - 1) & ~(alignment - 1);
    if (at + size > sizeof arena)
        return NULL;
    memcpy(arena + at - 8, &size, 8);
    return arena + at;
}

void *malloc(size_t size) { return take(16, size); }
void free(void *memory) { (void)memory; }
void *calloc(size_t count, size_t size) { return take(16, count * size); }
void *memalign(size_t alignment, size_t size) { return take(alignment < 16 ? 16 : alignment, size); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }
int posix_memalign(void **memory, size_t alignment, size_t size) {
    return (*memory = memalign(alignment, size)) ? 0 : ENOMEM;
}
void *realloc(void *old, size_t size) {
    void *memory = take(16, size);
    if (old && memory) {
        size_t before;
        memcpy(&before, (char *)old - 8, 8);
        memcpy(memory, old, before < size ? before : size);
    }
    return memory;
}

#define CALL(name, ...)                                                                      \
    do {                                                                                     \
        unsigned long (*function)() = (unsigned long (*)())dlsym(module, #name);             \
        unsigned long code = function(__VA_ARGS__);                                          \
        if (code) {                                                                          \
            printf(#name ": %#lx\n", code);                                                  \
            return 1;                                                                        \
        }                                                                                    \
    } while (0)

int main(int count, char **arguments) {
    void *module = count > 1 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) : NULL;
    if (!module) {
        puts("no module");
        return 1;
    }
    char label[33] = "a token                         ";
    unsigned long slots[8], number = 8, session;
    CALL(C_Initialize, (void *)NULL);
    CALL(C_GetSlotList, 1, slots, &number);
    CALL(C_InitToken, slots[0], "12345678", 8UL, label);
    CALL(C_OpenSession, slots[0], 6UL, (void *)NULL, (void *)NULL, &session);
    CALL(C_Login, session, 0UL, "12345678", 8UL);
    CALL(C_Finalize, (void *)NULL);
    /* Now the file exists. */
    CALL(C_Initialize, (void *)NULL);
    number = 8;
    CALL(C_GetSlotList, 1, slots, &number);
    CALL(C_OpenSession, slots[0], 6UL, (void *)NULL, (void *)NULL, &session);
    CALL(C_Login, session, 0UL, "12345678", 8UL);
    CALL(C_Finalize, (void *)NULL);
    puts("worked");
    return 0;
}
