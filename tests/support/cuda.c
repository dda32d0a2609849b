/* A stand-in for the CUDA driver's library: two GPUs, of which the second does not answer. WRONG names what
 * goes wrong: nogpu, stub, mismatch, nameless (an error of no name), nodmabuf, old (an attribute is not known),
 * longname. */

#include <stddef.h>
#include <string.h>

#ifndef WRONG
#define WRONG ""
#endif

enum { OK = 0, INVALID = 1, STUB = 34, NO_DEVICE = 100, NO_SUCH = 101, MISMATCH = 803, NAMELESS = 12345 };

static int wrong(const char *word) { return !strcmp(WRONG, word); }

static int text(char *to, int room, const char *from)
{
    int at = 0;
    for (; at + 1 < room && from[at]; at++)
        to[at] = from[at];
    to[at] = 0;
    return OK;
}

int cuInit(unsigned flags)
{
    if (flags)
        return INVALID;
    return wrong("stub") ? STUB : wrong("mismatch") ? MISMATCH : wrong("nogpu") ? NO_DEVICE :
           wrong("nameless") ? NAMELESS : OK;
}

int cuDriverGetVersion(int *version) { *version = 12040; return OK; }

int cuGetErrorName(int error, const char **name)
{
    switch (error) {
    case STUB: *name = "CUDA_ERROR_STUB_LIBRARY"; return OK;
    case NO_DEVICE: *name = "CUDA_ERROR_NO_DEVICE"; return OK;
    case NO_SUCH: *name = "CUDA_ERROR_INVALID_DEVICE"; return OK;
    case MISMATCH: *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return OK;
    }
    *name = NULL;
    return INVALID;
}

int cuDeviceGetCount(int *count) { *count = 2; return OK; }
int cuDeviceGet(int *device, int ordinal) { *device = 7; return ordinal == 0 ? OK : NO_SUCH; }

int cuDeviceGetName(char *name, int room, int device)
{
    if (device != 7)
        return NO_SUCH;
    if (!wrong("longname"))
        return text(name, room, "NVIDIA H100 80GB HBM3");
    /* Without its NUL. */
    memset(name, 'x', room);
    return OK;
}

int cuDeviceGetPCIBusId(char *address, int room, int device)
{
    return device == 7 ? text(address, room, "0000:9A:00.0") : NO_SUCH;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    if (device != 7)
        return NO_SUCH;
    if (attribute == 116) { *value = 1; return OK; }
    if (attribute == 124 && !wrong("old")) { *value = !wrong("nodmabuf"); return OK; }
    return INVALID;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 80ULL << 30; return device == 7 ? OK : NO_SUCH; }
