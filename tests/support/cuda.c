/* A stand-in for the CUDA driver's library, for tests: "GPU" memory is memory of the host. It is compiled by
 * the tests that use it, and is no part of what is shipped. PCI lists the addresses of its GPUs, with commas
 * between them; there is one more that does not answer, unless WHOLE is defined. WRONG names what goes wrong:
 *
 *   nogpu, stub, mismatch, nameless (an error of no name), hang,
 *   wedged (nor does it let the process end)                      it does not start
 *   nodmabuf, old (an attribute is not known), longname           what it says of the GPU
 *   full (out of memory), managed (memory of the wrong kind)      it allocates nothing of use
 *   nopeer                                                        no NIC takes the memory's address
 *   slow                                                          copies at 10 MB/s
 */
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef WRONG
#define WRONG ""
#endif
#ifndef PCI
#define PCI "0000:9A:00.0"
#endif

typedef unsigned long long pointer;

enum { OK = 0, INVALID = 1, NO_MEMORY = 2, STUB = 34, NO_DEVICE = 100, NO_SUCH = 101, UNSUPPORTED = 801,
       MISMATCH = 803, NAMELESS = 12345 };
/* The first GPU has the number FIRST. */
enum { PAGE = 65536, FIRST = 7 };

static int wrong(const char *word) { return !strcmp(WRONG, word); }

static int text(char *to, int room, const char *from)
{
    int at = 0;
    for (; at + 1 < room && from[at]; at++)
        to[at] = from[at];
    to[at] = 0;
    return OK;
}

static volatile int hangs;

int cuInit(unsigned flags)
{
    if (flags)
        return INVALID;
    for (hangs = wrong("hang") || wrong("wedged"); hangs;)
        pause();
    return wrong("stub") ? STUB : wrong("mismatch") ? MISMATCH : wrong("nogpu") ? NO_DEVICE :
           wrong("nameless") ? NAMELESS : OK;
}

/* As a driver's destructor does that waits for a lock. */
__attribute__((destructor)) static void end(void)
{
    while (hangs && wrong("wedged"))
        pause();
}

int cuDriverGetVersion(int *version) { *version = 12040; return OK; }

int cuGetErrorName(int error, const char **name)
{
    switch (error) {
    case INVALID: *name = "CUDA_ERROR_INVALID_VALUE"; return OK;
    case NO_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return OK;
    case STUB: *name = "CUDA_ERROR_STUB_LIBRARY"; return OK;
    case NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; return OK;
    case NO_SUCH: *name = "CUDA_ERROR_INVALID_DEVICE"; return OK;
    case UNSUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; return OK;
    case MISMATCH: *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return OK;
    }
    *name = NULL;
    return INVALID;
}

static int gpus(void)
{
    int count = 1;
    for (const char *at = PCI; *at; at++)
        count += *at == ',';
    return count;
}

static int is_gpu(int device) { return device >= FIRST && device < FIRST + gpus(); }

int cuDeviceGetCount(int *count)
{
    *count = gpus();
#ifndef WHOLE
    ++*count;
#endif
    return OK;
}

int cuDeviceGet(int *device, int ordinal) { *device = FIRST + ordinal; return is_gpu(*device) ? OK : NO_SUCH; }

int cuDeviceGetName(char *name, int room, int device)
{
    if (!is_gpu(device))
        return NO_SUCH;
    if (!wrong("longname"))
        return text(name, room, "Stand-in GPU in host memory");
    /* Without its NUL. */
    memset(name, 'x', room);
    return OK;
}

int cuDeviceGetPCIBusId(char *address, int room, int device)
{
    if (!is_gpu(device))
        return NO_SUCH;
    const char *at = PCI;
    for (int n = device - FIRST; n; n--)
        at = strchr(at, ',') + 1;
    text(address, room, at);
    address[strcspn(address, ",")] = 0;
    return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    if (!is_gpu(device))
        return NO_SUCH;
    if (attribute == 116) { *value = 1; return OK; }
    if (attribute == 124 && !wrong("old")) { *value = !wrong("nodmabuf"); return OK; }
    return INVALID;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 1 << 30; return is_gpu(device) ? OK : NO_SUCH; }

/* How many contexts are held and how much is allocated: nothing may be left over. */
static int contexts, allocated;
int stand_in_left(void) { return contexts * 1000 + allocated; }

static __thread int current;

int cuDevicePrimaryCtxRetain(void **into, int device)
{
    *into = &contexts;
    __atomic_add_fetch(&contexts, 1, __ATOMIC_SEQ_CST);
    return is_gpu(device) ? OK : NO_SUCH;
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    __atomic_sub_fetch(&contexts, 1, __ATOMIC_SEQ_CST);
    return is_gpu(device) ? OK : NO_SUCH;
}

int cuCtxSetCurrent(void *which) { current = which == &contexts; return current ? OK : INVALID; }

/* A block is mapped twice: what the GPU's address names may be closed to everybody, and copies go by the
 * other mapping. Blocks begin a little beyond a page, as those of the driver do. */
struct block { char *seen, *copied; size_t bytes; };
static struct block blocks[4096];

static char *reach(pointer at)
{
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        struct block *block = &blocks[i];
        if (block->seen && at >= (pointer)block->seen && at < (pointer)block->seen + block->bytes)
            return block->copied + (at - (pointer)block->seen);
    }
    abort();
}

int cuMemAlloc_v2(pointer *into, size_t bytes)
{
    if (!current)
        return INVALID;
    if (wrong("full"))
        return NO_MEMORY;
    bytes += PAGE;
    int file = memfd_create("stand-in", 0);
    if (file < 0 || ftruncate(file, bytes))
        return NO_MEMORY;
    int access = wrong("nopeer") ? PROT_NONE : PROT_READ | PROT_WRITE;
    struct block block = { .bytes = bytes };
    block.copied = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    block.seen = mmap(NULL, bytes, access, MAP_SHARED, file, 0);
    close(file);
    if (block.seen == MAP_FAILED || block.copied == MAP_FAILED)
        return NO_MEMORY;
    memset(block.copied, 0xee, bytes);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        char *free = NULL;
        if (__atomic_compare_exchange_n(&blocks[i].seen, &free, (char *)1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            blocks[i].copied = block.copied;
            blocks[i].bytes = bytes;
            __atomic_store_n(&blocks[i].seen, block.seen, __ATOMIC_SEQ_CST);
            *into = (pointer)block.seen + 512;
            __atomic_add_fetch(&allocated, 1, __ATOMIC_SEQ_CST);
            return OK;
        }
    }
    return NO_MEMORY;
}

int cuMemFree_v2(pointer memory)
{
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        if (blocks[i].seen && (pointer)blocks[i].seen + 512 == memory) {
            munmap(blocks[i].seen, blocks[i].bytes);
            munmap(blocks[i].copied, blocks[i].bytes);
            __atomic_store_n(&blocks[i].seen, NULL, __ATOMIC_SEQ_CST);
            __atomic_sub_fetch(&allocated, 1, __ATOMIC_SEQ_CST);
            return OK;
        }
    }
    return INVALID;
}

int cuMemHostAlloc(void **into, size_t bytes, unsigned flags)
{
    if (flags || !current)
        return INVALID;
    if (posix_memalign(into, 4096, bytes))
        return NO_MEMORY;
    __atomic_add_fetch(&allocated, 1, __ATOMIC_SEQ_CST);
    return OK;
}

int cuMemFreeHost(void *memory)
{
    free(memory);
    __atomic_sub_fetch(&allocated, 1, __ATOMIC_SEQ_CST);
    return OK;
}

static void linger(size_t bytes)
{
    if (wrong("slow"))
        usleep(bytes / 10 + 1);
}

int cuMemcpyHtoD_v2(pointer to, const void *from, size_t bytes)
{
    if (!current)
        return INVALID;
    linger(bytes);
    memcpy(reach(to), from, bytes);
    return OK;
}

int cuMemcpyDtoH_v2(void *to, pointer from, size_t bytes)
{
    if (!current)
        return INVALID;
    linger(bytes);
    memcpy(to, reach(from), bytes);
    return OK;
}

static int synchronous;
int stand_in_synchronous(void) { return synchronous; }

int cuPointerSetAttribute(const void *value, int attribute, pointer memory)
{
    if (attribute != 6 || !memory)
        return INVALID;
    synchronous = *(const unsigned *)value;
    return OK;
}

int cuPointerGetAttribute(void *value, int attribute, pointer memory)
{
    if (attribute != 8 || !memory)
        return INVALID;
    *(unsigned *)value = wrong("managed") ? 1 : 0;
    return OK;
}

/* A descriptor that is none of a dma-buf: software RDMA refuses any before it looks. */
int cuMemGetHandleForAddressRange(void *handle, pointer memory, size_t bytes, int type, unsigned long long flags)
{
    if (wrong("nodmabuf"))
        return UNSUPPORTED;
    if (type != 1 || flags || memory % PAGE || bytes % PAGE)
        return INVALID;
    *(int *)handle = memfd_create("dma-buf", 0);
    return OK;
}
