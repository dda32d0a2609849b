/* A stand-in for NVIDIA's Management Library: two GPUs, of which the second has fallen off the bus. */

typedef struct { char legacy[16]; unsigned domain, bus, device, ids, sub; char id[32]; } Pci;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;
typedef struct { unsigned long long total, free, used; } Bar1;
typedef struct { unsigned gpu, memory; } Busy;

enum { OK = 0, LOST = 15 };

static int only;

static void text(char *to, unsigned length, const char *from)
{
    unsigned at = 0;
    for (; at + 1 < length && from[at]; at++)
        to[at] = from[at];
    to[at] = 0;
}

int nvmlInit_v2(void) { return OK; }
int nvmlShutdown(void) { return OK; }
int nvmlSystemGetDriverVersion(char *to, unsigned length) { text(to, length, "550.54.15"); return OK; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12040; return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &only;
    return index == 0 ? OK : LOST;
}
int nvmlDeviceGetPciInfo_v3(void *device, Pci *pci)
{
    (void)device;
    *pci = (Pci){ .domain = 0, .bus = 0x9a, .device = 0, .ids = 0x233010de, .sub = 0 };
    text(pci->legacy, sizeof pci->legacy, "0000:9A:00.0");
    text(pci->id, sizeof pci->id, "00000000:9A:00.0");
    return OK;
}
int nvmlDeviceGetName(void *device, char *to, unsigned length) { (void)device; text(to, length, "NVIDIA H100 80GB HBM3"); return OK; }
int nvmlDeviceGetUUID(void *device, char *to, unsigned length) { (void)device; text(to, length, "GPU-0b1c"); return OK; }
int nvmlDeviceGetMemoryInfo_v2(void *device, Memory *memory) { (void)device; memory->total = 80ULL << 30; return OK; }
int nvmlDeviceGetBAR1MemoryInfo(void *device, Bar1 *bar) { (void)device; bar->total = 128ULL << 30; return OK; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *now) { (void)device; *now = 1; return OK; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *most) { (void)device; *most = 5; return OK; }
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *now) { (void)device; *now = 16; return OK; }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *most) { (void)device; *most = 16; return OK; }
int nvmlDeviceGetUtilizationRates(void *device, Busy *busy) { (void)device; busy->gpu = 0; busy->memory = 0; return OK; }
